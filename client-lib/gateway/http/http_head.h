/*
 * http_head.h - the head of a request of HTTP/1.1 (RFC 9112), read in place and strictly: what two readers could understand differently is refused.
 *
 * Texts point into the head's own memory, which gets zeros behind each of them.
 * Threads: any.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_FIELDS_MAX 100

struct http_field {
    const char *name, *value;
};

struct http_head {
    const char *method, *path, *query; /* path: without the host and the query, not decoded; query: "" = none */
    unsigned minor;                    /* of HTTP/1.x */
    size_t fields_count;
    struct http_field fields[HTTP_FIELDS_MAX];
    uint64_t length; /* of the body */
    bool has_length, chunked;
    bool keep_alive;
    bool expects; /* 100-continue */
};

/* Where the head ends, the empty line included; 0: not yet. */
size_t http_head_end(const char *text, size_t bytes);

/* Of the first bytes of a head: NULL, or the sentence of a 400 where no request begins so, which need not be waited for. */
const char *http_head_begins(const char *text, size_t bytes);

/* text: [bytes] as http_head_end says. NULL: well; else the sentence of a 400, or of *ret_status where that is set to another one. */
const char *http_head_parse(char *text, size_t bytes, struct http_head *ret_head, unsigned *ret_status);

const char *http_head_find(const struct http_head *head, const char *name); /* the first of that name, or NULL */

/* Does a list such as "gzip, deflate;q=0.5" allow this word? */
bool http_list_has(const char *list, const char *word);

/* %XX to bytes, in place; false: a % that is followed by something else, or a 0. */
bool http_decode(char *text);

/* ---- a body in chunks ---- */

enum http_chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_END,
    CHUNK_DATA,
    CHUNK_DATA_END,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LINE,
    CHUNK_TRAILER_END,
    CHUNK_DONE,
    CHUNK_BAD
};

struct http_chunks {
    enum http_chunk_state state;
    uint64_t left;
    unsigned digits, trailer;
};

/*
 * Goes through `bytes` bytes of the connection; *ret_data, *ret_count: a piece of the body among them, perhaps none. Returns how many were used: call
 * again for the rest until the state is CHUNK_DONE or CHUNK_BAD.
 */
size_t http_chunks_take(struct http_chunks *chunks, const char *text, size_t bytes, const char **ret_data,
                        size_t *ret_count);

#endif
