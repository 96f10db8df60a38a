/*
 * scratch.h - working memory of kernels: blocks kept from run to run, so that a second run of the same nodes allocates nothing.
 *
 * Threads: one-at-a-time.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include "backend/reference/kernel.h"

struct scratch_block;

struct scratch {
    struct rt_memory memory; /* first: kernels get &scratch->memory */
    struct scratch_block *first, *current;
    uint64_t bytes, limit;
    bool refused; /* something was beyond the limit */
};

void scratch_init(struct scratch *s, uint64_t limit_bytes);
void scratch_fini(struct scratch *s);
void scratch_reset(struct scratch *s); /* what was allocated becomes free again; blocks stay */

#endif
