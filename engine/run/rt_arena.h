/*
 * rt_arena.h - capped bump memory for what a run cannot plan: shapes that depend on data, sequences, loops. Reset at the start of every top-level run; its blocks are kept.
 *
 * Threads: one-at-a-time.
 */
#ifndef RT_ARENA_H
#define RT_ARENA_H

#include "backend/reference/kernel.h"
#include "run/ledger.h"

struct rt_arena {
    struct rt_memory memory; /* first: kernels get &arena->memory */
    struct rt_block *blocks;
    struct rt_block *current;
    uint64_t own, limit;   /* bytes of its blocks; of all arenas that count together */
    uint64_t *total;       /* bytes of all that count together: `own` of the first */
    struct ledger *ledger; /* NULL, or where blocks are booked */
    bool *refused;         /* that of the first: something was beyond the limit */
    bool own_refused;
};

/* A place to go back to. */
struct rt_mark {
    struct rt_block *block;
    size_t used;
};

void rt_arena_init(struct rt_arena *a, uint64_t limit_bytes);
void rt_arena_init_beside(struct rt_arena *a, struct rt_arena *first); /* both within first's limit; freed before it */
void rt_arena_reset(struct rt_arena *a);
struct rt_mark rt_arena_mark(const struct rt_arena *a);
void rt_arena_release(struct rt_arena *a, const struct rt_mark *mark); /* what was allocated since may be given again */
void rt_arena_fini(struct rt_arena *a);
void *rt_arena_alloc(struct rt_arena *a,
                     size_t bytes); /* 64-byte aligned, LIFETIME_PAD behind; NULL when the cap is reached */

#endif
