/*
 * wire.h - the messages of both sides as a test says them: metas packed into a buffer. Threads: any.
 */
#ifndef TEST_WIRE_H
#define TEST_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.pb-c.h"
#include "frame.h"
#include "job.pb-c.h"
#include "worker.pb-c.h"

#define WIRE_META_BYTES (64u * 1024u)

/* A step of an ensemble: the model's x is that tensor of the ensemble, its y this one. */
struct wire_step {
    const char *model, *takes, *gives;
    bool crop; /* x is the ensemble's x then, and `takes` says where the objects are */
};

struct wire_model {
    const char *name; /* input "x" u8 [dims...], output "y" u8 */
    uint64_t version;
    const char *backend;
    enum precision precision;
    uint32_t max_batch;
    uint64_t delay_us, warm_us, timeout_us;
    uint32_t max_queue, preferred;
    uint8_t digest; /* every byte of it */
    bool cacheable, not_ready, crops;
    uint64_t load_us, memory_bytes;
    bool timeout_fixed, timeout_delays;
    uint32_t priority_levels, priority_default;
    const char *version_label; /* of config.json; NULL = none */
    uint32_t share_ppm;
    const struct wire_policy *policies; /* for levels of their own */
    size_t policies_count;
    int64_t dim;            /* elements of x behind the batch dimension; -1 = dynamic */
    int64_t gives;          /* the same of y; 0 = dynamic */
    uint32_t gives_dtype;   /* of y; 0 = u8 */
    uint32_t gives_more;    /* outputs y1, y2 ... beside y, all alike */
    const char *takes_name; /* of x, when it has another name */
    const struct wire_step *steps;
    size_t steps_count;
    const char *error_source; /* "seeded": its error was measured; NULL = it was not */
    double error;             /* the largest */
    bool unrepeatable, measures;
    enum precision contract_precision; /* of its config.json */
    double contract_error;
    bool contract_exact;
    uint64_t sequence_idle_us; /* it keeps state between the jobs of a sequence */
};

/* Of priority_queue_policy. */
struct wire_policy {
    uint32_t level, max_queue;
    uint64_t timeout_us;
    bool fixed, delays;
};

struct wire_worker {
    uint64_t uuid;
    const char *name;
    uint32_t slots;
    const char *tag;               /* NULL = none */
    const char *flag, *flag_value; /* NULL = none */
    bool takes_orders, runs_alone;
    bool bulk; /* knows ATTACH, CHUNK and CREDIT */
    uint64_t budget_bytes, queue_bytes;
    const struct wire_model *models;
    size_t models_count;
    const struct job_id *running;
    size_t running_count;
};

struct wire_job {
    struct job_id id;
    const char *model;
    uint64_t version;
    const char *input; /* NULL = "x" */
    uint32_t dtype;    /* 0 = u8 */
    int64_t dims[2];   /* [rows, elements] */
    uint32_t rank;     /* 0 = 2 */
    uint8_t fill;
    const char *backend, *output, *tag, *need, *tenant;
    enum precision precision;
    double error_max; /* JobMeta.max_relative_error */
    bool exact;
    uint8_t priority;
    uint64_t deadline_us;
    bool no_digest, no_cache;
    uint8_t digest;         /* every byte of it; 0 = `fill` + 1 */
    uint64_t digest_number; /* its first bytes instead; 0 = none */
    bool true_digest;       /* the one that its bytes have */
    uint64_t sequence;
    bool sequence_start, sequence_end;
    uint64_t sequence_after; /* JobMeta: the job before it; 0 = not said */
    bool explain, debug;
    uint32_t top_k;
    const char *version_label;
    uint16_t flags; /* more of them */
    bool raw;       /* the payload in a raw frame instead of the meta */
    uint64_t detached_ttl_us;
};

/* Each packs into `meta` of WIRE_META_BYTES and returns the size. */
size_t wire_client_hello(uint8_t *meta, uint64_t uuid, const char *tenant, uint64_t grace_us);
size_t wire_client_hello_notices(uint8_t *meta, uint64_t uuid); /* of one that wants to know why jobs wait */
size_t wire_client_hello_bulk(uint8_t *meta, uint64_t uuid, const char *tenant); /* of one that knows chunks */
/* of one that goes where it is sent, and was sent so often */
size_t wire_client_hello_follows(uint8_t *meta, uint64_t uuid, const char *tenant, bool bulk, uint32_t followed);
size_t wire_worker_hello(uint8_t *meta, const struct wire_worker *worker);
size_t wire_worker_update(uint8_t *meta, const struct wire_model *models, size_t count);
size_t wire_control(uint8_t *meta, const char *verb, const char *argument, uint64_t serial);
/* The job's payload is dims[0] * dims[1] bytes of `fill`; raw: it goes to *ret_raw_bytes instead. */
size_t wire_job(uint8_t *meta, const struct wire_job *job, size_t *ret_raw_bytes);
struct envelope wire_job_envelope(const struct wire_job *job);
/* Gives an otherwise empty result y = one byte 0. */
void wire_give(Penstock__ResultMeta *result);
/* y = one byte. */
size_t wire_result(uint8_t *meta, uint8_t value, const char *backend, enum precision precision, uint64_t compute_us,
                   const char *error);

#endif
