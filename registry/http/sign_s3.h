/*
 * sign_s3.h - AWS signature version 4 for requests to buckets (source: AWS, "Authenticating Requests: Using the
 * Authorization Header", and "Create a signed AWS API request").
 *
 * Own code and not libcurl's CURLOPT_AWS_SIGV4: versions of libcurl differ in how they sort queries, and in the payload
 * digest of an upload that comes from a file. Here every request signs method, path, query, host, date, range and the
 * payload's SHA-256.
 * Threads: any.
 */
#ifndef SIGN_S3_H
#define SIGN_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define SIGN_HEADER_BYTES 1536u
#define SIGN_HEADERS_MAX  5u

struct sign_key {
    char id[192], secret[192], token[1024]; /* token: of a session; "" = none */
    char region[64];
};

/* What is signed. path and query are already in the form of the URL: escaped, the query sorted by name. */
struct sign_asked {
    const char *method, *host, *path, *query;
    const char *payload_sha256; /* 64 hex digits */
    const char *range;          /* "bytes=0-9"; NULL = none */
    time_t now;
};

/* Fills headers[] ("Name: value"), returns their number; 0: something is too long. */
size_t sign_s3(const struct sign_key *key, const struct sign_asked *asked,
               char headers[SIGN_HEADERS_MAX][SIGN_HEADER_BYTES]);

/* Escapes all but letters, digits, "-._~", and '/' where `slashes` stay. False: no room. */
bool sign_escape(const char *text, bool slashes, char *ret_text, size_t room);

#endif
