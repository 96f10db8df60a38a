/*
 * otlp.h - sends kept traces to an OpenTelemetry collector: OTLP over HTTP, JSON, from a thread of its own.
 *
 * The loop copies a trace into a bounded queue and goes on, so a collector that does not answer costs traces but no
 * jobs. A batch is sent once a second, or when 64 traces wait. Plain HTTP only: for TLS, tenants and retries run a
 * collector beside the broker.
 * Threads: otlp_push: owner (the loop); the rest one-at-a-time.
 */
#ifndef OTLP_H
#define OTLP_H

#include "metrics.h"

#define OTLP_QUEUE_MAX 1024u /* traces that wait; more are dropped and counted */

struct otlp;

/* Starts the thread. url: of address_collector. INVALID, NO_MEMORY. */
enum pen_status otlp_new(const char *url, struct otlp **ret_otlp, struct pen_error *reterr);
/* Sends the waiting traces, for at most a second, and ends the thread. NULL is fine. */
void otlp_free(struct otlp *otlp);

/* Copies the trace and shares its layers. series: NULL when no worker had the job. */
void otlp_push(struct otlp *otlp, const struct job_trace *trace, const struct model_tally *model,
               const struct series_tally *series, int64_t unix_offset_us);

struct otlp_report {
    uint64_t exported, dropped, failures; /* traces, traces, requests */
};
void otlp_report(struct otlp *otlp, struct otlp_report *ret_report); /* Threads: any */

#endif
