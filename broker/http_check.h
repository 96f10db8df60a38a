/*
 * http_check.h - requests that two readers may understand differently: refused before anything is answered.
 *
 * libmicrohttpd 0.9 takes HTTP/1.1 without Host, the first of two Host headers, the first of two Content-Lengths, and a Content-Length beside
 * Transfer-Encoding. A proxy in front may take the other one, so none of that is answered with a page.
 * Threads: any.
 */
#ifndef HTTP_CHECK_H
#define HTTP_CHECK_H

#include <microhttpd.h>

/* NULL, or the sentence for a 400. version: "HTTP/1.1". */
const char *http_check(struct MHD_Connection *connection, const char *version);

#endif
