#include "json_read.h"

#include <string.h>

#include "decimal.h"

void json_init(struct json *json, const char *text, size_t bytes)
{
    *json = (struct json){.begin = text, .at = text, .end = text + bytes};
}

bool json_fail(struct json *json, const char *why)
{
    if (!json->why)
        json->why = why;
    return false;
}

size_t json_where(const struct json *json)
{
    return (size_t)(json->at - json->begin);
}

static void skip_blanks(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

static bool take(struct json *json, char mark)
{
    skip_blanks(json);
    if (json->why || json->at == json->end || *json->at != mark)
        return false;
    json->at++;
    return true;
}

enum json_kind json_peek(struct json *json)
{
    skip_blanks(json);
    if (json->why || json->at == json->end)
        return JSON_NONE;
    switch (*json->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return *json->at == '-' || (*json->at >= '0' && *json->at <= '9') ? JSON_NUMBER : JSON_NONE;
    }
}

bool json_open(struct json *json, char mark)
{
    if (!take(json, mark))
        return json_fail(json, mark == '{' ? "an object is expected" : "an array is expected");
    if (++json->depth > JSON_DEPTH_MAX)
        return json_fail(json, "it is nested deeper than 100 levels");
    return true;
}

/* False: the end, which is taken, or a fault. */
static bool next(struct json *json, bool *first, char end)
{
    if (json->why)
        return false;
    if (take(json, end)) {
        json->depth--;
        return false;
    }
    if (!*first && !take(json, ','))
        return json_fail(json, end == '}' ? "a comma or } is expected" : "a comma or ] is expected");
    *first = false;
    return true;
}

static const char *plain_end(const struct json *json, const char *from)
{
    while (from < json->end && *from != '"' && *from != '\\' && (unsigned char)*from >= 0x20)
        from++;
    return from;
}

/* A string without escapes and of less than `room` bytes is copied from where it stands. False: it is another one, or none, and nothing was taken. */
static bool copy_plain(struct json *json, char *to, size_t room)
{
    if (json_peek(json) != JSON_STRING)
        return false;
    const char *from = json->at + 1, *end = plain_end(json, from);
    size_t bytes = (size_t)(end - from);
    if (end == json->end || *end != '"' || bytes >= room)
        return false;
    memcpy(to, from, bytes);
    to[bytes] = '\0';
    json->at = end + 1;
    return true;
}

static bool read_name(struct json *json, char *name, size_t room)
{
    struct bytes text = {.limit = 65536};
    bool well =
        json_peek(json) == JSON_STRING ? json_string_add(json, &text) : json_fail(json, "a name in quotes is expected");
    bool fits = well && text.used < room && !memchr(text.data ? text.data : "", 0, text.used);
    if (fits && text.used)
        memcpy(name, text.data, text.used);
    name[fits ? text.used : 0] = '\0';
    bytes_fini(&text);
    return well;
}

bool json_member(struct json *json, bool *first, char *name, size_t room)
{
    if (!next(json, first, '}'))
        return false;
    bool well = copy_plain(json, name, room) || read_name(json, name, room);
    return well && (take(json, ':') || json_fail(json, "a colon is expected behind a name"));
}

bool json_element(struct json *json, bool *first)
{
    return next(json, first, ']');
}

/* ---- strings ---- */

static int hex4(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void add_character(struct bytes *to, uint32_t code)
{
    char text[4];
    size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    for (size_t i = count; i-- > 1; code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(marks[count] | code);
    bytes_add(to, text, count);
}

/* Behind "\u". */
static bool read_code(struct json *json, struct bytes *to)
{
    int code = hex4(json->at, json->end);
    if (code < 0)
        return json_fail(json, "four hex digits are expected behind \\u");
    json->at += 4;
    uint32_t character = (uint32_t)code;
    if (code >= 0xd800 && code < 0xdc00 && json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u') {
        int low = hex4(json->at + 2, json->end);
        if (low >= 0xdc00 && low < 0xe000) {
            json->at += 6;
            character = 0x10000 + (((uint32_t)code - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        }
    }
    if (character >= 0xd800 && character < 0xe000)
        return json_fail(json, "half of a surrogate pair stands alone");
    add_character(to, character);
    return true;
}

/* Behind a backslash. */
static bool read_escape(struct json *json, struct bytes *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return json_fail(json, "a string does not end");
    char c = *json->at++;
    if (c == 'u')
        return read_code(json, to);
    const char *found = strchr(from, c);
    if (!found || c == '\0')
        return json_fail(json, "a backslash is followed by what it may not be followed by");
    bytes_add(to, &into[found - from], 1);
    return true;
}

bool json_string_add(struct json *json, struct bytes *to)
{
    if (!take(json, '"'))
        return json_fail(json, "a string is expected");
    for (;;) {
        const char *from = json->at;
        json->at = plain_end(json, from);
        bytes_add(to, from, (size_t)(json->at - from));
        if (json->at == json->end)
            return json_fail(json, "a string does not end");
        char c = *json->at++;
        if (c == '"')
            return to->failed ? json_fail(json, "a string is too long") : true;
        if (c != '\\')
            return json_fail(json, "a control character stands in a string");
        if (!read_escape(json, to))
            return false;
    }
}

static const char no_text[] = "a text is too long, has U+0000 in it or is no UTF-8";

bool json_string(struct json *json, char *text, size_t room)
{
    if (copy_plain(json, text, room))
        return utf8_valid(text, strlen(text)) || json_fail(json, no_text);
    struct bytes to = {.limit = room};
    bool well = json_string_add(json, &to);
    if (well && (to.used >= room || (to.used && (memchr(to.data, 0, to.used) || !utf8_valid(to.data, to.used)))))
        well = json_fail(json, no_text);
    if (well && to.used)
        memcpy(text, to.data, to.used);
    if (well)
        text[to.used] = '\0';
    bytes_fini(&to);
    return well;
}

/* ---- other values ---- */

static bool number(struct json *json, struct decimal *ret_number)
{
    skip_blanks(json);
    if (json->why)
        return false;
    return decimal_scan(&json->at, json->end, ret_number) || json_fail(json, "a number is expected");
}

bool json_i64(struct json *json, int64_t *ret_value)
{
    struct decimal found;
    return number(json, &found) && (decimal_i64(&found, INT64_MIN, INT64_MAX, ret_value) ||
                                    json_fail(json, "a whole number of 64 bits is expected"));
}

bool json_u64(struct json *json, uint64_t *ret_value)
{
    struct decimal found;
    return number(json, &found) &&
           (decimal_u64(&found, UINT64_MAX, ret_value) || json_fail(json, "a whole number from 0 on is expected"));
}

bool json_word(struct json *json, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(json);
    if (json->why || (size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

bool json_flag(struct json *json, bool *ret_value)
{
    bool yes = json_word(json, "true");
    if (!yes && !json_word(json, "false"))
        return json_fail(json, "true or false is expected");
    *ret_value = yes;
    return true;
}

static bool skip_string(struct json *json)
{
    struct bytes none = {.limit = 1u << 26};
    bool well = json_string_add(json, &none);
    bytes_fini(&none);
    return well;
}

bool json_skip(struct json *json)
{
    struct decimal found;
    bool first = true;
    char name[2];
    switch (json_peek(json)) {
    case JSON_OBJECT:
        json_open(json, '{');
        while (json_member(json, &first, name, sizeof name))
            json_skip(json);
        return !json->why;
    case JSON_ARRAY:
        json_open(json, '[');
        while (json_element(json, &first))
            json_skip(json);
        return !json->why;
    case JSON_STRING:
        return skip_string(json);
    case JSON_NUMBER:
        return number(json, &found);
    default:
        return json_word(json, "true") || json_word(json, "false") || json_word(json, "null") ||
               json_fail(json, "a value is expected");
    }
}

/* At the byte behind the opening quote; false: it does not end. */
static bool pass_string(struct json *json)
{
    while (json->at < json->end && *json->at != '"')
        json->at += *json->at == '\\' && json->end - json->at > 1 ? 2 : 1;
    if (json->at == json->end)
        return json_fail(json, "a string does not end");
    json->at++;
    return true;
}

/* Whether one of eight bytes is `c`: the usual trick with a zero byte. */
static uint64_t has_byte(uint64_t eight, char c)
{
    uint64_t found = eight ^ (UINT64_C(0x0101010101010101) * (unsigned char)c);
    return (found - UINT64_C(0x0101010101010101)) & ~found & UINT64_C(0x8080808080808080);
}

/* To the next bracket or quote; numbers and commas go by eight bytes at a time. */
static void pass_plain(struct json *json)
{
    uint64_t eight;
    for (; json->end - json->at >= 8; json->at += 8) {
        memcpy(&eight, json->at, sizeof eight);
        if (has_byte(eight, '[') | has_byte(eight, ']') | has_byte(eight, '"'))
            break;
    }
    while (json->at < json->end && *json->at != '[' && *json->at != ']' && *json->at != '"')
        json->at++;
}

bool json_skip_array(struct json *json, const char **ret_text, size_t *ret_bytes)
{
    size_t open = 0;
    skip_blanks(json);
    *ret_text = json->at;
    if (json_peek(json) != JSON_ARRAY)
        return json_fail(json, "an array is expected");
    while (json->at < json->end) {
        char c = *json->at++;
        if (c == '"' && !pass_string(json))
            return false;
        open += c == '[';
        open -= c == ']';
        if (open == 0)
            break;
        if (open + json->depth > JSON_DEPTH_MAX)
            return json_fail(json, "it is nested deeper than 100 levels");
        pass_plain(json);
    }
    *ret_bytes = (size_t)(json->at - *ret_text);
    return open == 0 || json_fail(json, "an array does not end");
}

bool json_finish(struct json *json)
{
    skip_blanks(json);
    return !json->why && (json->at == json->end || json_fail(json, "something follows behind the end"));
}
