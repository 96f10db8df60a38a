/*
 * rt_arena.h - capped bump memory for what a run cannot plan: shapes that depend on data, sequences, loops. Reset at the start of every top-level run; its blocks are kept.
 *
 * Threads: one-at-a-time.
 */
#ifndef RT_ARENA_H
#define RT_ARENA_H

#include "backend/reference/kernel.h"

struct rt_arena {
    struct rt_memory memory; /* first: kernels get &arena->memory */
    struct rt_block *blocks;
    struct rt_block *current;
    uint64_t total, limit;
};

void rt_arena_init(struct rt_arena *a, uint64_t limit_bytes);
void rt_arena_reset(struct rt_arena *a);
void rt_arena_fini(struct rt_arena *a);
void *rt_arena_alloc(struct rt_arena *a,
                     size_t bytes); /* 64-byte aligned, LIFETIME_PAD behind; NULL when the cap is reached */

#endif
