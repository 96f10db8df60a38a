/*
 * http_client.h - requests to web servers and buckets, by libcurl, which is opened when the first one is made: programs whose
 * models lie in folders neither load it nor need it.
 *
 * Ownership: a client owns its idle connections. Threads: any; a request is made on the caller's thread.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define HTTP_HEADERS_MAX 12u
#define HTTP_URL_BYTES   2048u

/* Data as it comes, with its place in the whole content. False: enough, the request ends well. */
typedef bool http_sink(void *context, uint64_t position, const void *bytes, size_t count);

struct http_request {
    const char *method; /* "GET", "HEAD", "PUT" */
    const char *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "Name: value"; NULL ends them */
    /* GET: a part of the content; last = UINT64_MAX: up to its end. */
    bool ranged;
    uint64_t first, last;
    http_sink *sink; /* GET */
    void *context;
    /* PUT: what is sent; bytes != NULL, or a file that is read from its begin. */
    const void *bytes;
    int fd;
    uint64_t size;
};

struct http_answer {
    long code;      /* 200, 206, 404, ... */
    uint64_t total; /* of the whole content, UINT64_MAX where the server does not say */
    bool whole;     /* a range was asked for, and the whole content comes: the server knows no ranges */
};

struct http_client;
/* stop (may be NULL) is asked while a request is under way: true ends it as CANCELLED. */
struct http_client *http_client_new(bool (*stop)(void)); /* NULL without memory */
void http_client_free(struct http_client *client);       /* NULL is fine */

/* For servers nearby, of which some may be gone: a connection has a second. */
void http_client_hurry(struct http_client *client);

/*
 * One request. NOT_FOUND (404, 410), DENIED (401, 403), CORRUPT (416: the content ends before the part), BUSY (425, 429, 503), UNAVAILABLE (no connection, a timeout, 408,
 * other 5xx), IO (everything else); the sentence has the server's own words. UNSUPPORTED: this host has no libcurl.
 */
enum pen_status http_run(struct http_client *client, const struct http_request *request, struct http_answer *ret_answer,
                         struct pen_error *reterr);

#endif
