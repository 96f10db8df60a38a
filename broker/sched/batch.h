/*
 * batch.h - when a batch closes, with how many rows, and why; composed as late as deadlines and idle slots allow.
 *
 * Rows: a job brings as many as its first dimension says. Sizes are chosen by what was measured of the worker: the one with the most rows per second, and
 * none beyond one job where batches do not pay there. Pure: facts in, a decision out. Threads: any.
 */
#ifndef BATCH_H
#define BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "latency.h"

#define BATCH_SOLO_MAX 4u /* so often in vain: the next one does not wait */
#define BATCH_SLACK    4u /* a size is only tried when the most urgent job has so many times its expected time left */

struct batch_rules {
    uint32_t rows_max; /* 0 or 1: never batch */
    const uint32_t *preferred;
    size_t preferred_count;
    uint64_t delay_us;
    const struct latency_model *latency; /* of the worker */
};

struct batch_facts {
    uint64_t now_us;
    uint64_t rows_waiting;
    uint64_t oldest_us;    /* arrival of the job that waits longest */
    uint64_t deadline_us;  /* absolute, the earliest; UINT64_MAX = none */
    uint32_t solo_batches; /* batches in a row that waited for company in vain */
};

struct batch_choice {
    uint32_t rows; /* take up to so many; 0 = wait */
    /* ResultMeta.batch_reason: "single", "full", "best", "unpaid", "explore", "idle", "delay", "deadline" */
    const char *reason;
    uint64_t wake_us; /* when to ask again; UINT64_MAX = when something changes */
};

/* Whether the batch of these jobs closes now, with how many of the rows, and why; latency.h says which sizes pay. */
struct batch_choice batch_close(const struct batch_rules *rules, const struct batch_facts *facts);

/* A batch that closes: may another size be tried instead, or are there too few jobs, or too urgent ones? */
bool batch_may_explore(const struct batch_rules *rules, const struct batch_facts *facts);

/*
 * Was it worth it that `jobs` jobs waited up to waited_us each? All but the first would have stood behind the first one's run; less than they have
 * waited together: no.
 */
bool batch_wait_paid(const struct latency_model *latency, uint32_t jobs, uint64_t waited_us);

#endif
