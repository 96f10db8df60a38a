/*
 * measure.h - what a measurement of one model (measure.c) and of a chain of models (measure_chain.c) have in common.
 *
 * Threads: any.
 */
#ifndef RUN_MEASURE_H
#define RUN_MEASURE_H

#include "run/internal.h"
#include "run/measure_error.h"
#include "run/measure_sets.h"

/* After so long what has been run must do: the reference takes seconds for a large model. */
#define MEASURE_ENOUGH_NS UINT64_C(20000000000)

/* The reference is what all are compared with: nothing is measured of it. */
bool measure_is_reference(const struct pen_model *model);

/* done: sets that were run. */
struct pen_measured measure_found(const struct measure_error *error, const struct measure_sets *sets, size_t done,
                                  bool repeatable);

#endif
