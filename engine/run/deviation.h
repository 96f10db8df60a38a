/*
 * deviation.h - debug mode: what a backend has computed, node by node, against the reference kernels on the same inputs.
 *
 * Threads: one-at-a-time.
 */
#ifndef DEVIATION_H
#define DEVIATION_H

#include "run/runner.h"

/* How a node's outputs differ from the reference's. */
struct deviation {
    uint32_t output;  /* the first with elements beyond their bound */
    int64_t first;    /* of these elements */
    int64_t wrong;    /* so many of that output; 0 = none of any */
    double got, want; /* the first */
    double largest;   /* |difference| of all outputs; infinity where one side alone is not finite */
};

/* The node on the reference kernels with what is in the bucket as its inputs; nothing is changed there. */
enum pen_status deviation_of(struct run_context *context, const struct program *program, const struct bucket *b,
                             const struct node *n, struct deviation *ret_deviation);

/*
 * After a run of the step, all of whose values are in the bucket (placement_new: watch). Every node gets what the backend gave it, so that an error is not
 * carried on: the first node beyond its bound is the one that is wrong. PEN_ERR_INTERNAL names it. Nodes that are random are passed over.
 * Bounds: |d| <= absolute + relative |expected| + 1e-5 of the largest |expected| (sums that cancel); absolute and relative are those of one operator in the
 * precision of the backend. Whole numbers must be equal; those of 8 bits may be off by one (rounding of quantised ones).
 */
enum pen_status deviation_check(struct run_context *context, const struct program *program, const struct bucket *b,
                                const struct bucket_step *step);

#endif
