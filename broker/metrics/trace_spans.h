/*
 * trace_spans.h - a job trace as spans: which part of the system had the job, from when to when. All forms of a trace
 * are written from this list.
 *
 * Times are microseconds since the broker admitted the job, by the broker's clock; the client's part lies before 0. A
 * worker tells durations only, because clocks of two hosts are never compared. Its part is placed in the middle between
 * sending and answer, as if both ways took equally long.
 * Threads: any (pure functions).
 */
#ifndef TRACE_SPANS_H
#define TRACE_SPANS_H

#include "metrics.h"

#define SPANS_MAX          (16u + TRACE_ATTEMPTS + TRACE_LAYERS_MAX)
#define SPAN_NONE          UINT32_MAX
#define SPAN_WORKER_PARENT 1000u /* the broker's span that the worker gets as its parent: the span of the job */

enum span_side { SPAN_CLIENT, SPAN_BROKER, SPAN_WORKER };

struct span {
    const char *name;
    const char *detail; /* a worker's name, a reason, a layer's operator; "" = none; borrowed from the trace */
    enum span_side side;
    uint32_t parent; /* index of an earlier span; SPAN_NONE = the first */
    int64_t start_us;
    uint64_t us;
};

/* A trace with the facts that are needed to write it. Borrowed. */
struct trace_view {
    const struct job_trace *trace;
    const char *model, *backend, *precision;
    uint64_t version;
    int64_t unix_offset_us;
};

/* Fills at most SPANS_MAX spans, the whole job first, parents before their children; returns how many. */
size_t trace_spans(const struct job_trace *trace, struct span spans[SPANS_MAX]);
/* Microseconds since 1970 at which the job was admitted. */
int64_t trace_admitted_unix_us(const struct trace_view *view);

/* The trace's id: the client's, or one made of the job's id. */
void trace_id(const struct job_trace *trace, uint8_t id[16]);
/* Id of span `index`; index 0 and SPAN_WORKER_PARENT have the same id. Never all zero; always the same for the same
   job. */
void span_id(struct job_id job, uint32_t index, uint8_t id[8]);

const char *span_side_name(enum span_side side); /* "client", "broker", "worker" */

#endif
