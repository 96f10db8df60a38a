#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 20 /* of an uint64_t */

void bytes_fini(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){.data = NULL, .limit = bytes->limit};
}

bool bytes_reserve(struct bytes *bytes, size_t more)
{
    size_t limit = bytes->limit ? bytes->limit : BYTES_LIMIT;
    if (bytes->failed || more > limit - bytes->used)
        return !(bytes->failed = true);
    if (bytes->size - bytes->used >= more)
        return true;
    size_t size = bytes->size ? bytes->size * 2 : 256;
    while (size < bytes->used + more)
        size *= 2;
    char *data = realloc(bytes->data, size);
    if (!data)
        return !(bytes->failed = true);
    bytes->data = data;
    bytes->size = size;
    return true;
}

void bytes_add(struct bytes *bytes, const void *data, size_t count)
{
    if (count == 0 || !bytes_reserve(bytes, count))
        return;
    memcpy(bytes->data + bytes->used, data, count);
    bytes->used += count;
}

void bytes_text(struct bytes *bytes, const char *text)
{
    bytes_add(bytes, text, strlen(text));
}

/* The digits end at the place's end. Returns where they begin. */
static char *write_digits(char place[DIGITS_MAX], uint64_t number)
{
    char *at = place + DIGITS_MAX;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    return at;
}

void bytes_unsigned(struct bytes *bytes, uint64_t number)
{
    char place[DIGITS_MAX], *at = write_digits(place, number);
    bytes_add(bytes, at, (size_t)(place + DIGITS_MAX - at));
}

void bytes_signed(struct bytes *bytes, int64_t number)
{
    if (number < 0)
        bytes_add(bytes, "-", 1);
    bytes_unsigned(bytes, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* Written where there is room; only what does not fit is written a second time. */
void bytes_format(struct bytes *bytes, const char *format, ...)
{
    va_list arguments, again;
    size_t room = bytes->failed ? 0 : bytes->size - bytes->used;
    va_start(arguments, format);
    va_copy(again, arguments);
    int count = vsnprintf(room ? bytes->data + bytes->used : NULL, room, format, arguments);
    bool fits = count >= 0 && (size_t)count < room;
    if (!fits && count >= 0 && (fits = bytes_reserve(bytes, (size_t)count + 1)))
        vsnprintf(bytes->data + bytes->used, (size_t)count + 1, format, again);
    bytes->used += fits ? (size_t)count : 0;
    va_end(again);
    va_end(arguments);
}

void fixed_begin(struct fixed_text *text, char *data, size_t size)
{
    *text = (struct fixed_text){.data = data, .size = size};
    *data = '\0';
}

static void fixed_put(struct fixed_text *text, const char *part, size_t count)
{
    if (count >= text->size - text->used) {
        text->full = true;
        return;
    }
    memcpy(text->data + text->used, part, count);
    text->used += count;
    text->data[text->used] = '\0';
}

void fixed_add(struct fixed_text *text, const char *part)
{
    fixed_put(text, part, strlen(part));
}

void fixed_unsigned(struct fixed_text *text, uint64_t number)
{
    char place[DIGITS_MAX], *at = write_digits(place, number);
    fixed_put(text, at, (size_t)(place + DIGITS_MAX - at));
}

/* RFC 3629: neither overlong forms nor surrogates nor anything above U+10FFFF. */
size_t utf8_length(const char *at, const char *end)
{
    const unsigned char *c = (const unsigned char *)at;
    size_t left = (size_t)(end - at), count = c[0] < 0x80   ? 1
                                              : c[0] < 0xc2 ? 0
                                              : c[0] < 0xe0 ? 2
                                              : c[0] < 0xf0 ? 3
                                              : c[0] < 0xf5 ? 4
                                                            : 0;
    if (count == 0 || count > left)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f);
    return count > 2 && (overlong || beyond) ? 0 : count;
}

bool utf8_valid(const char *text, size_t count)
{
    const char *at = text, *end = text + count;
    while (at < end) {
        size_t length = utf8_length(at, end);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

static void add_escaped(struct bytes *bytes, unsigned char c)
{
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[8];
    for (size_t i = 0; i + 1 < sizeof short_forms; i += 2) {
        if ((unsigned char)short_forms[i] == c) {
            bytes_add(bytes, (char[]){'\\', short_forms[i + 1]}, 2);
            return;
        }
    }
    snprintf(text, sizeof text, "\\u%04x", c);
    bytes_add(bytes, text, 6);
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

void bytes_json(struct bytes *bytes, const char *text, size_t count)
{
    const char *at = text, *end = text + count;
    bytes_add(bytes, "\"", 1);
    while (at < end && !bytes->failed) {
        const char *from = at;
        while (at < end && is_plain(*at))
            at++;
        bytes_add(bytes, from, (size_t)(at - from));
        if (at == end)
            break;
        size_t length = utf8_length(at, end);
        if (length == 1)
            add_escaped(bytes, (unsigned char)*at);
        else if (length > 1)
            bytes_add(bytes, at, length);
        else
            bytes_add(bytes, "\xef\xbf\xbd", 3);
        at += length ? length : 1;
    }
    bytes_add(bytes, "\"", 1);
}

void bytes_json_text(struct bytes *bytes, const char *text)
{
    bytes_json(bytes, text, strlen(text));
}
