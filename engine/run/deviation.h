/*
 * deviation.h - debug mode: what a backend has computed, node by node, against the reference kernels on the same inputs.
 *
 * Threads: one-at-a-time.
 */
#ifndef DEVIATION_H
#define DEVIATION_H

#include "run/runner.h"

/*
 * After a run of the step, all of whose values are in the bucket (placement_new: watch). Every node gets what the backend gave it, so that an error is not
 * carried on: the first node beyond its bound is the one that is wrong. PEN_ERR_INTERNAL names it. Nodes that are random are passed over.
 * Bounds: |d| <= absolute + relative |expected| + 1e-5 of the largest |expected| (sums that cancel); absolute and relative are those of one operator in the
 * precision of the backend. Whole numbers must be equal; those of 8 bits may be off by one (rounding of quantised ones).
 */
enum pen_status deviation_check(struct run_context *context, const struct program *program, const struct bucket *b,
                                const struct bucket_step *step);

#endif
