/*
 * decision.h - the facts that later explain why a job ran where it did: the workers that were weighed for a batch, the
 * steps of an ensemble, the ring of ended jobs (record/explain.h).
 * Threads: owner.
 */
#ifndef DECISION_H
#define DECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "close_reason.h"

#define EXPLAIN_NAME_BYTES 40u
#define DECISION_KEPT      4u /* candidates that are remembered: the chosen one and the best others */

/* A worker as it was when the batch was made; it may be gone when somebody asks. */
struct weighed {
    uint64_t worker; /* uuid */
    uint32_t backlog_us, expect_us, transfer_us, load_us;
    bool credit, chosen;
};

struct decision {
    struct weighed kept[DECISION_KEPT];
    uint32_t count;        /* how many candidates are kept */
    uint32_t capable;      /* workers that could run it */
    uint32_t rows_waiting; /* in the batch's lane */
    uint32_t rows_max;     /* of the chosen worker's model */
    uint64_t delay_us;     /* max_queue_delay of the model */
};

struct match_candidate;
struct offer;

/* chosen: index into candidates, or MATCH_WAIT. */
void decision_fill(struct decision *decision, struct offer *const *offers, const struct match_candidate *candidates,
                   size_t count, int chosen);

/* When the candidate was expected to be done; counts from the time when it was weighed. */
uint64_t weighed_completion_us(const struct weighed *weighed);

enum explained_state { EXPLAINED_WAITS, EXPLAINED_RUNS, EXPLAINED_DONE, EXPLAINED_FAILED, EXPLAINED_STOPPED };

/* A step of an ensemble. EXPLAINED_RUNS with an empty `worker`: the step's job is queued. */
struct explained_step {
    uint32_t number, batch_jobs;
    enum explained_state state;
    uint8_t attempts;
    char model[EXPLAIN_NAME_BYTES], worker[EXPLAIN_NAME_BYTES], backend[16];
    uint64_t version, queue_us, compute_us, total_us;
    enum close_reason reason;
};

struct explained; /* one ended job */

struct explain_ring {
    struct explained *entries;
    size_t capacity, next;
};

#endif
