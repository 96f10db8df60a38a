/* pbtxt.c - a recursive reader: words, numbers, texts, blocks; depth, values and bytes are bounded. */
#include "pbtxt.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    size_t line, values;
    unsigned depth;
    struct pen_error *error;
    enum pen_status status;
};

static enum pen_status message_read(struct reader *r, cJSON *message, char close);

__attribute__((format(printf, 3, 4))) static enum pen_status fail(struct reader *r, enum pen_status status,
                                                                  const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->status = pen_error_set(r->error, status, "line %zu: %s", r->line, text);
    return r->status;
}

static enum pen_status no_memory(struct reader *r)
{
    return fail(r, PEN_ERR_NO_MEMORY, "no memory for the model's settings");
}

/* ---- characters ---------------------------------------------------------------------------------------------------------------------- */

static void space_skip(struct reader *r)
{
    while (r->at < r->end) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else if (isspace((unsigned char)*r->at))
            r->line += *r->at++ == '\n';
        else
            return;
    }
}

/* The next character that is no space; '\0' at the end. */
static char peek(struct reader *r)
{
    space_skip(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool take(struct reader *r, char c)
{
    bool there = c != '\0' && peek(r) == c;
    r->at += there;
    return there;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Letters, digits and what `more` lists. */
static enum pen_status word_read(struct reader *r, const char *more, char ret_word[PBTXT_TEXT_MAX + 1])
{
    size_t length = 0;
    (void)peek(r);
    while (r->at + length < r->end && (in_word(r->at[length]) || (r->at[length] && strchr(more, r->at[length]))))
        length++;
    if (length == 0)
        return r->at == r->end ? fail(r, PEN_ERR_INVALID, "the text ends where a name or value is expected")
                               : fail(r, PEN_ERR_INVALID, "a name or value is expected, not '%c'",
                                      isprint((unsigned char)*r->at) ? *r->at : '?');
    if (length > PBTXT_TEXT_MAX)
        return fail(r, PEN_ERR_TOO_LARGE, "a name of %zu bytes, at most %u are read", length, PBTXT_TEXT_MAX);
    memcpy(ret_word, r->at, length);
    ret_word[length] = '\0';
    r->at += length;
    return PEN_OK;
}

/* ---- texts ----------------------------------------------------------------------------------------------------------------------------- */

static int digit_of(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

/* Behind "\" or "\x": at most `most` digits of that base. -1 = none. */
static int number_escape(struct reader *r, int base, int most)
{
    int value = 0, count = 0;
    while (count < most && r->at < r->end && digit_of(*r->at) < base) {
        value = value * base + digit_of(*r->at++);
        count++;
    }
    return count > 0 ? value & 0xFF : -1;
}

/* Behind the backslash; -1 = it is none. */
static int escape_read(struct reader *r)
{
    static const char letters[] = "abfnrtv\\'\"?", meant[] = "\a\b\f\n\r\t\v\\'\"?";
    if (r->at == r->end)
        return -1;
    if (*r->at >= '0' && *r->at <= '7')
        return number_escape(r, 8, 3);
    char c = *r->at++;
    if (c == 'x' || c == 'X')
        return number_escape(r, 16, 2);
    const char *found = c ? strchr(letters, c) : NULL;
    return found ? (unsigned char)meant[found - letters] : -1;
}

/* Appends one text in quotes. */
static enum pen_status quoted_read(struct reader *r, char *text, size_t *length)
{
    char quote = *r->at++;
    while (r->at < r->end && *r->at != quote) {
        int c = (unsigned char)*r->at++;
        if (c == '\n')
            break;
        c = c == '\\' ? escape_read(r) : c;
        if (c <= 0)
            return fail(r, PEN_ERR_INVALID, "a text holds a NUL or an escape that is none");
        if (*length == PBTXT_TEXT_MAX)
            return fail(r, PEN_ERR_TOO_LARGE, "a text of more than %u bytes", PBTXT_TEXT_MAX);
        text[(*length)++] = (char)c;
    }
    if (r->at == r->end || *r->at != quote)
        return fail(r, PEN_ERR_INVALID, "a text has no closing %c", quote);
    r->at++;
    return PEN_OK;
}

/* Texts that follow each other are one. */
static cJSON *text_read(struct reader *r)
{
    char text[PBTXT_TEXT_MAX + 1];
    size_t length = 0;
    while (peek(r) == '"' || peek(r) == '\'')
        if (quoted_read(r, text, &length) != PEN_OK)
            return NULL;
    text[length] = '\0';
    return cJSON_CreateString(text);
}

/* ---- values ---------------------------------------------------------------------------------------------------------------------------- */

static cJSON *number_read(struct reader *r, const char *word)
{
    char *end = NULL;
    bool negative = word[0] == '-';
    const char *digits = word + negative;
    double value = 0;
    if (digits[0] == '0' && isdigit((unsigned char)digits[1]))
        value = (double)strtoull(digits, &end, 8);
    else if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        value = (double)strtoull(digits, &end, 16);
    else
        value = strtod(digits, &end);
    if (*end == 'f' || *end == 'F')
        end++;
    if (*end != '\0' || end == digits || !isfinite(value)) {
        fail(r, PEN_ERR_INVALID, "'%.64s' is no number", word);
        return NULL;
    }
    return cJSON_CreateNumber(negative ? -value : value);
}

static cJSON *word_value(struct reader *r)
{
    char word[PBTXT_TEXT_MAX + 1];
    if (word_read(r, "+-.", word) != PEN_OK)
        return NULL;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return cJSON_CreateBool(word[0] == 't');
    if (isdigit((unsigned char)word[0]) || word[0] == '-' || word[0] == '.')
        return number_read(r, word);
    return cJSON_CreateString(word); /* the name of an enum's value */
}

static cJSON *block_read(struct reader *r, char close)
{
    cJSON *message = cJSON_CreateObject();
    if (message && message_read(r, message, close) != PEN_OK) {
        cJSON_Delete(message);
        return NULL;
    }
    return message;
}

static enum pen_status value_read(struct reader *r, cJSON *list)
{
    char c = peek(r);
    cJSON *value = NULL;
    if (++r->values > PBTXT_VALUES_MAX)
        return fail(r, PEN_ERR_TOO_LARGE, "more than %u names and values", PBTXT_VALUES_MAX);
    if (c == '{' || c == '<') {
        r->at++;
        value = block_read(r, c == '{' ? '}' : '>');
    } else {
        value = c == '"' || c == '\'' ? text_read(r) : word_value(r);
    }
    if (!value)
        return r->status != PEN_OK ? r->status : no_memory(r);
    if (cJSON_AddItemToArray(list, value))
        return PEN_OK;
    cJSON_Delete(value);
    return no_memory(r);
}

static enum pen_status list_read(struct reader *r, cJSON *list)
{
    if (take(r, ']'))
        return PEN_OK;
    do {
        if (value_read(r, list) != PEN_OK)
            return r->status;
    } while (take(r, ','));
    return take(r, ']') ? PEN_OK : fail(r, PEN_ERR_INVALID, "a list is not closed by ]");
}

/* ---- fields ---------------------------------------------------------------------------------------------------------------------------- */

/* A name, or one of an extension in brackets. */
static enum pen_status name_read(struct reader *r, char ret_name[PBTXT_TEXT_MAX + 1])
{
    bool bracket = take(r, '[');
    enum pen_status status = word_read(r, bracket ? "./" : "", ret_name);
    return status != PEN_OK || !bracket || take(r, ']') ? status
                                                        : fail(r, PEN_ERR_INVALID, "a name is not closed by ]");
}

static cJSON *list_of(struct reader *r, cJSON *message, const char *name)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(message, name);
    if (list)
        return list;
    if (++r->values > PBTXT_VALUES_MAX) {
        fail(r, PEN_ERR_TOO_LARGE, "more than %u names and values", PBTXT_VALUES_MAX);
        return NULL;
    }
    list = cJSON_AddArrayToObject(message, name);
    if (!list)
        no_memory(r);
    return list;
}

static enum pen_status field_read(struct reader *r, cJSON *message)
{
    char name[PBTXT_TEXT_MAX + 1];
    if (name_read(r, name) != PEN_OK)
        return r->status;
    cJSON *list = list_of(r, message, name);
    if (!list)
        return r->status;
    bool colon = take(r, ':');
    char c = peek(r);
    if (!colon && c != '{' && c != '<' && c != '[')
        return fail(r, PEN_ERR_INVALID, "'%.64s' has no value: a ':' or a '{' is expected behind it", name);
    enum pen_status status = take(r, '[') ? list_read(r, list) : value_read(r, list);
    if (status == PEN_OK && !take(r, ','))
        (void)take(r, ';');
    return status;
}

/* close '\0': up to the end of the text. */
static enum pen_status message_read(struct reader *r, cJSON *message, char close)
{
    size_t line = r->line;
    if (++r->depth > PBTXT_DEPTH_MAX)
        return fail(r, PEN_ERR_TOO_LARGE, "blocks are nested more than %u deep", PBTXT_DEPTH_MAX);
    while (peek(r) != close || (close == '\0' && r->at < r->end)) {
        if (r->at == r->end)
            return fail(r, PEN_ERR_INVALID, "the block of line %zu is not closed by %c", line, close);
        if (field_read(r, message) != PEN_OK)
            return r->status;
    }
    r->at += close != '\0';
    r->depth--;
    return PEN_OK;
}

enum pen_status pbtxt_parse(const char *text, size_t bytes, cJSON **ret_message, struct pen_error *reterr)
{
    struct reader r = {.at = text, .end = text + bytes, .line = 1, .error = reterr};
    if (bytes > PBTXT_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%zu bytes, at most %u are read", bytes, PBTXT_BYTES_MAX);
    cJSON *message = cJSON_CreateObject();
    if (!message)
        return no_memory(&r);
    if (message_read(&r, message, '\0') != PEN_OK) {
        cJSON_Delete(message);
        return r.status;
    }
    *ret_message = message;
    return PEN_OK;
}
