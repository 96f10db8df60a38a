/*
 * json_read.h - reads JSON (RFC 8259) in place, value by value, without building a tree.
 *
 * A reader goes forward over borrowed bytes. Each call takes one thing and says whether it was there; after a fault `why` is a sentence and every further
 * call fails. Nesting is bounded. NaN, Infinity and -Infinity are taken as numbers only by json_tensor.h.
 * Threads: one-at-a-time.
 */
#ifndef JSON_READ_H
#define JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bytes.h"

#define JSON_DEPTH_MAX 100

struct json {
    const char *begin, *at, *end;
    unsigned depth;
    const char *why; /* NULL = well so far */
};

enum json_kind { JSON_NONE, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL };

void json_init(struct json *json, const char *text, size_t bytes);
bool json_fail(struct json *json, const char *why); /* false */
size_t json_where(const struct json *json);         /* bytes read */
enum json_kind json_peek(struct json *json);        /* by the first character; JSON_NONE: no value begins here */

/* `while (json_member(json, &first, name, sizeof name))` after json_open(json, '{') takes every member; a longer name is cut to "". */
bool json_open(struct json *json, char mark); /* '{' or '[' */
bool json_member(struct json *json, bool *first, char *name, size_t room);
bool json_element(struct json *json, bool *first);

/* A string without U+0000 that fits `room` with the 0 behind it. */
bool json_string(struct json *json, char *text, size_t room);
/* A string, added to `to` as UTF-8, of any content. */
bool json_string_add(struct json *json, struct bytes *to);
bool json_i64(struct json *json, int64_t *ret_value);
bool json_u64(struct json *json, uint64_t *ret_value);
bool json_flag(struct json *json, bool *ret_value);
bool json_word(struct json *json, const char *word); /* takes it if it is there; else nothing happened */

bool json_skip(struct json *json); /* any value, checked */
/* An array, or what stands in its place: its brackets and strings are matched and nothing else. Who reads it later checks it. */
bool json_skip_array(struct json *json, const char **ret_text, size_t *ret_bytes);
bool json_finish(struct json *json); /* nothing but blanks follows */

#endif
