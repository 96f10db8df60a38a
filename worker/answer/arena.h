/*
 * arena.h - memory of a run: taken piece by piece, given back at once, bounded.
 *
 * Threads: one-at-a-time.
 */
#ifndef ANSWER_ARENA_H
#define ANSWER_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t total, limit;        /* bytes of all blocks; no more than limit */
    bool starved;               /* the last piece that was not given was within the limit: there was no memory */
};

/* `count` elements of `size` bytes, aligned for any type, not set. NULL: beyond the limit, or no memory. */
void *arena_take(struct arena *arena, size_t count, size_t size);
void arena_reset(struct arena *arena); /* keeps one block of at most 1 MiB: small runs take no memory anew */
void arena_fini(struct arena *arena);

#endif
