/*
 * allowance.h - what may still be taken: asked before memory is allocated, so that what is too large is refused as a whole and by a number.
 *
 * Threads: one-at-a-time.
 */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

struct allowance {
    uint64_t limit, taken; /* bytes; taken goes on beyond the limit, so that it says at least how much is needed */
    uint64_t held;         /* of them by others, which may give way */
};

/* What would be left if nobody else held anything: for memory that is taken later. */
static inline uint64_t allowance_alone(const struct allowance *a)
{
    uint64_t own = a->taken - a->held;
    return own < a->limit ? a->limit - own : 0;
}

/* Counts the bytes; false: they are too many. NULL: no limit. */
static inline bool allowance_take(struct allowance *a, uint64_t bytes)
{
    if (!a)
        return true;
    a->taken = bytes > UINT64_MAX - a->taken ? UINT64_MAX : a->taken + bytes;
    return a->taken <= a->limit;
}

#endif
