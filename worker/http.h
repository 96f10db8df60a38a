/*
 * http.h - the worker's own page for Prometheus and probes, when --metrics names an address: one thread, one request at
 * a time.
 *
 * GET /metrics, /v2/health/live, /v2/health/ready. A request may have 16 KiB and take 2 seconds; beyond that the
 * connection is closed. Connections wait until their request has come (http_entry.h), so slow ones delay nobody.
 * Threads: one-at-a-time; the page is made by a thread of its own.
 */
#ifndef WORKER_HTTP_H
#define WORKER_HTTP_H

#include "penstock/status.h"
#include "vitals.h"

struct worker_http;

/* address: "127.0.0.1:9100", "[::1]:9100"; port 0 lets the system choose. INVALID: malformed; IO: taken or not ours. */
enum pen_status worker_http_start(const char *address, struct vitals *vitals, struct worker_http **ret_http,
                                  struct pen_error *reterr);
/* Where it listens, "127.0.0.1:41235". */
const char *worker_http_address(const struct worker_http *http);
void worker_http_stop(struct worker_http *http); /* NULL is fine */

/* Reads one request from a connected socket and answers it; `page` is room for the metrics. Threads: one-at-a-time. */
void worker_http_serve(int fd, struct vitals *vitals, char *page, size_t room);

#endif
