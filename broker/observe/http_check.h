/*
 * http_check.h - refuses requests that two HTTP servers may understand differently (request smuggling), before anything
 * is answered.
 *
 * libmicrohttpd 0.9 takes HTTP/1.1 without Host, the first of two Host headers, the first of two Content-Lengths, and a
 * Content-Length beside Transfer-Encoding. A proxy in front may take the other one, so such a request gets an error and
 * no page.
 * Threads: any.
 */
#ifndef HTTP_CHECK_H
#define HTTP_CHECK_H

#include <microhttpd.h>

/* NULL, or the sentence for a 400. version: "HTTP/1.1". */
const char *http_check(struct MHD_Connection *connection, const char *version);

#endif
