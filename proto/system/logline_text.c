/*
 * logline_text.c - one event as text pairs or as a JSON object.
 *
 * The keys are found in the format, not in the formatted text: a model named `x level=error` stays one value. Before each key of the format
 * goes a mark (a control byte and a nonce of this process), printf fills in the values, and the marks say where each value ends.
 */
#include "logline_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PAIRS_MAX    48u
#define FORMAT_BYTES 2048u
#define MARK_BYTES   9u
#define TAIL_BYTES   16u /* always left for closing quotes, a brace and the newline */

struct pair {
    const char *key;
    size_t key_bytes;
    bool textual; /* %s, %c, %x, %p in its format: a JSON string even when it looks like a number */
};

struct format {
    struct pair pairs[PAIRS_MAX];
    size_t count;
    char marked[FORMAT_BYTES];
};

struct line {
    char *bytes;
    size_t used, limit;
};

static size_t key_length(const char *at)
{
    size_t length = 0;
    while ((at[length] >= 'a' && at[length] <= 'z') || (at[length] >= '0' && at[length] <= '9') || at[length] == '_')
        length++;
    return at[length] == '=' ? length : 0;
}

static bool is_textual(const char *from, const char *to)
{
    for (; from < to; from++) {
        if (*from != '%')
            continue;
        for (from++; from < to && !strchr("diouxXeEfFgGaAcspn%", *from); from++)
            ;
        if (from < to && strchr("scxXpaA", *from))
            return true;
    }
    return false;
}

static void mark_write(char *at, const char *nonce)
{
    at[0] = '\x1e';
    memcpy(at + 1, nonce, MARK_BYTES - 1);
}

/* Copies fmt with a mark before each key. False when it has too many keys or bytes: then our own code is at fault. */
static bool format_mark(const char *fmt, const char *nonce, struct format *format)
{
    size_t used = 0, length = strlen(fmt);
    const char *at = fmt, *end = fmt + length;
    if (length + PAIRS_MAX * MARK_BYTES >= FORMAT_BYTES)
        return false;
    format->count = 0;
    while (at < end) {
        size_t key_bytes = at == fmt || at[-1] == ' ' ? key_length(at) : 0;
        if (key_bytes == 0) {
            format->marked[used++] = *at++;
            continue;
        }
        if (format->count == PAIRS_MAX)
            return false;
        if (format->count > 0)
            format->pairs[format->count - 1].textual = is_textual(format->pairs[format->count - 1].key, at);
        format->pairs[format->count++] = (struct pair){.key = at, .key_bytes = key_bytes};
        mark_write(format->marked + used, nonce);
        used += MARK_BYTES;
        at += key_bytes + 1;
    }
    if (format->count > 0)
        format->pairs[format->count - 1].textual = is_textual(format->pairs[format->count - 1].key, end);
    format->marked[used] = '\0';
    return true;
}

static bool put(struct line *line, const char *bytes, size_t count)
{
    if (count > line->limit - line->used)
        return false;
    memcpy(line->bytes + line->used, bytes, count);
    line->used += count;
    return true;
}

static bool put_text(struct line *line, const char *text)
{
    return put(line, text, strlen(text));
}

/* Bytes of the valid UTF-8 sequence at `at`, 0 when there is none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xC2 && at[0] < 0xE0 ? 2
                    : (at[0] & 0xF0) == 0xE0        ? 3
                    : at[0] >= 0xF0 && at[0] < 0xF5 ? 4
                                                    : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    bool overlong_or_surrogate = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] > 0x9F) ||
                                 (at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] > 0x8F);
    return overlong_or_surrogate ? 0 : length;
}

/* A quoted string. JSON's escapes serve for the text form too: one reader for both. Cut where the line is full. */
static void put_quoted(struct line *line, const char *value, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)value, *end = at + bytes;
    put_text(line, "\"");
    while (at < end) {
        char unit[8];
        size_t taken = utf8_length(at, (size_t)(end - at)), length;
        if (taken == 0) {
            taken = 1;
            length = (size_t)snprintf(unit, sizeof unit, "\\ufffd");
        } else if (*at == '"' || *at == '\\') {
            length = (size_t)snprintf(unit, sizeof unit, "\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            length = (size_t)snprintf(unit, sizeof unit, "\\u%04x", *at);
        } else {
            memcpy(unit, at, taken);
            length = taken;
        }
        if (!put(line, unit, length))
            break;
        at += taken;
    }
    line->limit += 1; /* of the tail: the closing quote always fits */
    put_text(line, "\"");
    line->limit -= 1;
    if (line->used > line->limit)
        line->limit = line->used;
}

static bool needs_quotes(const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c <= ' ' || c >= 0x7F || c == '"' || c == '\\' || c == '=')
            return true;
    }
    return bytes == 0;
}

static size_t digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && at[count] >= '0' && at[count] <= '9')
        count++;
    return count;
}

/* JSON's grammar of a number; integers beyond 2^63 stay numbers, as JSON allows. */
static bool is_number(const char *at, size_t bytes)
{
    const char *end = at + bytes;
    if (at < end && *at == '-')
        at++;
    size_t whole = digits(at, end);
    if (whole == 0 || (whole > 1 && *at == '0'))
        return false;
    at += whole;
    if (at < end && *at == '.') {
        size_t fraction = digits(at + 1, end);
        if (fraction == 0)
            return false;
        at += 1 + fraction;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        size_t exponent = digits(at, end);
        if (exponent == 0)
            return false;
        at += exponent;
    }
    return at == end;
}

static void put_pair(struct line *line, bool json, const struct pair *pair, const char *value, size_t bytes)
{
    if (line->limit - line->used < pair->key_bytes + TAIL_BYTES) /* no room for a useful value */
        return;
    put_text(line, json ? ",\"" : " ");
    put(line, pair->key, pair->key_bytes);
    put_text(line, json ? "\":" : "=");
    bool plain = json ? !pair->textual && is_number(value, bytes) : !needs_quotes(value, bytes);
    if (!plain || !put(line, value, bytes))
        put_quoted(line, value, bytes);
}

static void put_head(struct line *line, bool json, const struct logline_head *head)
{
    const struct pair program = {"program", 7, true}, level = {"level", 5, true}, evt = {"evt", 3, true};
    put_text(line, json ? "{\"ts\":\"" : "ts=");
    put_text(line, head->time);
    put_text(line, json ? "\"" : "");
    put_pair(line, json, &program, head->program, strlen(head->program));
    put_pair(line, json, &level, head->level, strlen(head->level));
    put_pair(line, json, &evt, head->evt, strlen(head->evt));
}

/* One blank stands before each key in the format, and some formats end in a newline out of habit. */
static size_t trimmed(const char *value, size_t bytes)
{
    while (bytes > 0 && (value[bytes - 1] == ' ' || value[bytes - 1] == '\n'))
        bytes--;
    return bytes;
}

static void put_values(struct line *line, bool json, const struct format *format, const char *text, size_t bytes,
                       const char *mark)
{
    static const struct pair message = {"msg", 3, true};
    const char *end = text + bytes;
    const char *next = memmem(text, bytes, mark, MARK_BYTES);
    size_t before = trimmed(text, (size_t)((next ? next : end) - text));
    if (before > 0) /* text in front of the first key */
        put_pair(line, json, &message, text, before);
    for (size_t i = 0; i < format->count && next; i++) {
        const char *value = next + MARK_BYTES;
        next = memmem(value, (size_t)(end - value), mark, MARK_BYTES);
        put_pair(line, json, &format->pairs[i], value, trimmed(value, (size_t)((next ? next : end) - value)));
    }
}

size_t logline_format(char out[LOGLINE_BYTES], const struct logline_head *head, bool json, const char *fmt,
                      va_list args)
{
    struct line line = {.bytes = out, .used = 0, .limit = LOGLINE_BYTES - TAIL_BYTES};
    struct format format;
    char text[LOGLINE_BYTES], mark[MARK_BYTES];
    put_head(&line, json, head);
    mark_write(mark, head->nonce);
    if (format_mark(fmt, head->nonce, &format)) {
        int length = vsnprintf(text, sizeof text, format.marked, args);
        size_t bytes = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        put_values(&line, json, &format, text, bytes, mark);
    } else {
        static const struct pair fault = {"log_fault", 9, true};
        put_pair(&line, json, &fault, "format too long", 15);
    }
    line.limit = LOGLINE_BYTES;
    put_text(&line, json ? "}\n" : "\n");
    return line.used;
}
