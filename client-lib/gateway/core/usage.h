/*
 * usage.h - what went through this gateway: per model and version, per batch size, per backend.
 *
 * Counts as the statistics of the protocol have them: success counts requests, inferences count rows, executions count batches (a request in a batch of n
 * is 1/n of one). Answers from the cache count as success and as hits, and in nothing that was computed.
 * Threads: owner - the loop's.
 */
#ifndef USAGE_H
#define USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_MODELS_MAX   1024 /* beyond it, models are not counted */
#define USAGE_BACKENDS_MAX 8
#define USAGE_BATCHES_MAX  32
#define USAGE_BUCKETS      16

struct usage_time {
    uint64_t count, ns;
};

struct usage_batch {
    uint32_t size;
    double executions;
    uint64_t input_ns, infer_ns, output_ns;
};

struct usage_backend {
    char name[32];
    uint64_t count, rows;
    struct usage_time infer;
};

struct usage_model {
    char name[256];
    uint64_t version;
    uint64_t last_ms, rows;
    double executions;
    struct usage_time success, fail, queue, input, infer, output, hit, miss;
    uint64_t cancelled;
    size_t batches_count, backends_count;
    struct usage_batch batches[USAGE_BATCHES_MAX];
    struct usage_backend backends[USAGE_BACKENDS_MAX];
    uint64_t buckets
        [USAGE_BUCKETS]; /* of the whole time: bucket i holds those of less than 2^i * 100 us, the last one all others */
};

/* One request that has ended. */
struct usage_request {
    const char *model, *backend;
    uint64_t version, rows, total_ns, queue_ns, input_ns, infer_ns, output_ns;
    uint32_t batch;
    bool failed, cancelled, cached;
};

struct usage;
struct usage *usage_new(void);
void usage_free(struct usage *usage);
void usage_add(struct usage *usage, const struct usage_request *request);
/* In the order of their first request; version 0: any. NULL: no more. */
const struct usage_model *usage_next(const struct usage *usage, const char *name, uint64_t version, size_t *at);
uint64_t usage_uncounted(const struct usage *usage); /* requests for models beyond USAGE_MODELS_MAX */

#endif
