/*
 * http.h - the broker's HTTP side: metrics, health, state, events and the dashboard, on threads of its own.
 *
 * A connection waits without a thread until its request has come (http_entry.h). Then it gets a thread of its own (at
 * most 64, 48 of one address, and 32 for /v2/health/ alone), so a reader of the event stream delays nobody. Answers are
 * made from snapshots that the loop gives (metrics_post.h), so no request can stall the loop. Only GET and HEAD are
 * served; the cost of a request is bounded by count, bytes and time.
 * Threads: http_start, http_stop: owner.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stddef.h>

#include "metrics_post.h"
#include "preview.h"

#define HTTP_ADDRESS_DEFAULT "127.0.0.1:8002"

struct http;

/*
 * address: as above. local_only: requests whose Host header names another machine are refused (a web page elsewhere cannot read through a rebound
 * name). PEN_ERR_IO with a sentence when it cannot listen. `post` and
 * `previews` (NULL: none are kept) are borrowed until http_stop.
 */
enum pen_status http_start(const char *address, int fd, bool local_only, struct post *post, struct previews *previews,
                           struct http **ret_http, struct pen_error *reterr);
/* The address really bound: "127.0.0.1:8002". */
const char *http_address(const struct http *http);
void http_stop(struct http *http); /* Closes the post and waits for its threads. NULL is fine. */

#endif
