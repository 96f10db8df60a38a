/*
 * explain_internal.h - what explain.c (what is kept of each job), explain_write.c (the sentences about it) and explain_steps.c share.
 * Threads: owner.
 */
#ifndef EXPLAIN_INTERNAL_H
#define EXPLAIN_INTERNAL_H

#include "broker_state.h"

/* One job's run and end, as far as they are known. */
struct explained {
    struct job_id id;
    char model[EXPLAIN_NAME_BYTES], worker[EXPLAIN_NAME_BYTES], error[160];
    uint64_t version;
    const struct tenant *tenant; /* NULL: an empty place */
    uint32_t tenant_serial;      /* another one now: the tenant was forgotten, and with it what it may ask about */
    enum close_reason reason;
    char backend[16];
    uint64_t queue_us, expect_us, compute_us, total_us;
    uint32_t jobs, rows;
    uint8_t status, priority, attempts;
    bool cached, followed, alone, exact;
    struct decision decision;
    struct explained_step *steps; /* of an ensemble that ran in steps; owned in the ring, borrowed elsewhere */
    size_t steps_count;
};

/* Describes the job as it is now, without its error and its steps. dispatch: NULL when no worker runs it. */
void explained_describe(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                        uint64_t compute_us, struct explained *ret_explained);
/* The newest entry of that id, borrowed until the next job ends; NULL: none. */
const struct explained *explained_find(const struct explain_ring *ring, struct job_id id);
/* A message that is being written: all of it is allocated with `allocator`. */
struct explain_writer {
    struct broker *broker;
    ProtobufCAllocator *allocator;
    bool failed; /* no memory: the message must not be used */
};

void *explain_take(struct explain_writer *w, size_t bytes);     /* zeroed; NULL without memory */
char *explain_copy(struct explain_writer *w, const char *text); /* "" without memory */
/* explain_steps.c: appends them to the message. */
void explain_steps_write(struct explain_writer *w, const struct explained_step *steps, size_t count,
                         Penstock__Explanation *to);

#endif
