/*
 * scan.h - going through steps one after the other: the body of a Scan written like any other graph.
 *
 * Threads: one-at-a-time.
 */
#ifndef BUILD_SCAN_H
#define BUILD_SCAN_H

#include "import/build/build.h"

struct tf_scan {
    struct build *outer, inner; /* the body is written with `inner` */
    struct graph *body;
    uint32_t states[2], state_count; /* in the body, once begun; in the outer graph, once ended: the last ones */
    uint32_t x, mask;                /* of one step, in the body; mask [batch], VALUE_NONE = none */
    uint32_t start[2], data, data_mask;
};

/* x [steps, batch, ...] and mask [steps, batch] (or VALUE_NONE) are gone through from first to last, with 1 or 2 states. False after a failure. */
bool tf_scan_begin(struct tf_scan *s, struct build *b, uint32_t x, uint32_t mask, const uint32_t *start,
                   uint32_t states);
/* `next`: the states after this step; where the mask says no they stay. Gives the first state of every step, [steps, ...]. */
uint32_t tf_scan_end(struct tf_scan *s, const uint32_t *next);
/* A constant of the outer graph in the body; VALUE_NONE stays. Anything else is refused. */
uint32_t tf_scan_constant(struct tf_scan *s, uint32_t value);

#endif
