/*
 * batch.h - when a batch closes, with how many rows, and why; composed as late as deadlines and idle slots allow.
 *
 * Rows: a job brings as many as its first dimension says. Pure: facts in, a decision out. Threads: any.
 */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

#define BATCH_LONELY 4u /* so often in vain: the next one does not wait */

struct batch_rules {
    uint32_t rows_max; /* 0 or 1: never batch */
    const uint32_t *preferred;
    size_t preferred_count;
    uint64_t delay_us;
};

struct batch_facts {
    uint64_t now_us;
    uint64_t rows_waiting;
    uint64_t oldest_us;   /* arrival of the job that waits longest */
    uint64_t deadline_us; /* absolute, of the most urgent job; UINT64_MAX = none */
    uint64_t expect_us;   /* execution with one row more */
    uint32_t lonely;      /* batches in a row that waited for company in vain */
};

struct batch_choice {
    uint32_t rows;      /* take up to so many; 0 = wait */
    const char *reason; /* "single", "full", "idle", "delay", "deadline": ResultMeta.batch_reason */
    uint64_t wake_us;   /* when to ask again; UINT64_MAX = when something changes */
};

struct batch_choice batch_close(const struct batch_rules *rules, const struct batch_facts *facts);

#endif
