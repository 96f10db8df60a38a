/*
 * trace.h - what a job trace holds beyond counters: where it came from, the workers it was lost on, the layers it asked
 * for.
 *
 * A job has a note only when there is something to note; for the others the numbers in job_trace are enough. All copies
 * of a trace (rings, snapshots, the exporter) share its layers, which never change.
 * Threads: trace_layers_*: any; the rest owner.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_ATTEMPTS        3u /* lost workers that a trace lists; further ones overwrite the last */
#define TRACE_LAYERS_MAX      256u
#define TRACE_PARENT_BYTES    55u /* "00-<32 hex>-<16 hex>-<2 hex>" */
#define TRACE_NAME_BYTES      48u
#define TRACE_CLIENT_US_MAX   600000000u /* a larger difference means that the client's clock is wrong: it is ignored */
#define TRACE_CONTEXT_SAMPLED 1u

/* W3C trace context of a client. */
struct trace_context {
    uint8_t trace_id[16], parent_id[8];
    uint8_t flags;
    bool valid;
};

/* Reads a traceparent of version 00; false (context invalid) for anything else, all-zero ids among it. */
bool trace_context_parse(const char *text, struct trace_context *ret_context);
/* The traceparent that goes on to the worker: the same trace, our span, the client's flags. */
void trace_context_write(const struct trace_context *context, const uint8_t span_id[8],
                         char text[TRACE_PARENT_BYTES + 1]);

struct trace_layer {
    char name[TRACE_NAME_BYTES], op[24], backend[16];
    uint32_t us;
};

struct trace_layers {
    atomic_uint users;
    uint32_t count;
    struct trace_layer rows[];
};
/* Reads the LayerTime fields of a packed ResultMeta; NULL when it has none, is malformed, or memory is short. */
struct trace_layers *trace_layers_read(const uint8_t *meta, size_t bytes);
struct trace_layers *trace_layers_keep(struct trace_layers *layers); /* NULL is fine */
void trace_layers_release(struct trace_layers *layers);              /* NULL is fine */

/* A worker that had the job and did not answer it. Times count from the job's admission. */
struct trace_attempt {
    char worker[32];
    uint64_t sent_us, lost_us;
};

struct trace_note {
    struct trace_context context;
    uint8_t wish;       /* JobMeta.trace */
    uint64_t lookup_us; /* how long Redis took to answer; 0 = it was not asked */
    uint32_t attempts_count;
    struct trace_attempt attempts[TRACE_ATTEMPTS];
};
void trace_note_attempt(struct trace_note *note, const char *worker, uint64_t sent_us, uint64_t lost_us);

#endif
