/*
 * batch.h - decides when a batch closes, with how many rows, and why; as late as deadlines and idle slots allow.
 *
 * A job brings as many rows as its first dimension says. The size follows from what was measured on the worker: the
 * size with the most rows per second; no more than one job where batches do not pay there. Pure: facts in, a decision
 * out. Threads: any.
 */
#ifndef BATCH_H
#define BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "close_reason.h"
#include "latency.h"

#define BATCH_SOLO_MAX 4u /* after so many vain waits in a row, the next job does not wait */
#define BATCH_SLACK    4u /* a size is tried only when the most urgent job has so many times its expected time left */

struct batch_rules {
    uint32_t rows_max; /* 0 or 1: never batch */
    const uint32_t *preferred;
    size_t preferred_count;
    uint64_t delay_us;
    const struct latency_model *latency; /* times measured on this worker */
};

struct batch_facts {
    uint64_t now_us;
    uint64_t rows_waiting;
    uint64_t oldest_us;    /* arrival of the job that waits longest */
    uint64_t deadline_us;  /* absolute, the earliest; UINT64_MAX = none */
    uint32_t solo_batches; /* batches in a row that waited for more jobs in vain */
};

struct batch_choice {
    uint32_t rows;            /* close with up to so many rows; 0 = wait */
    enum close_reason reason; /* CLOSE_NONE while it waits */
    uint64_t wake_us;         /* when to ask again; UINT64_MAX = only when something changes */
};

/* Decides whether the batch of these jobs closes now, with how many rows, and why; latency.h says which sizes pay. */
struct batch_choice batch_close(const struct batch_rules *rules, const struct batch_facts *facts);

/* The batch closes: may another size be tried instead? Not when there are too few jobs, or jobs that are too urgent. */
bool batch_may_explore(const struct batch_rules *rules, const struct batch_facts *facts);

/*
 * Was it worth while that `jobs` jobs waited up to waited_us each? Without waiting, all but the first job would have
 * waited for the first one's run. If that is less than they have waited together, the answer is no.
 */
bool batch_wait_paid(const struct latency_model *latency, uint32_t jobs, uint64_t waited_us);

#endif
