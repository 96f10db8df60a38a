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

/* Runs one set, on what is measured and, unless `error` is NULL, on the reference; adds what it finds to both. */
typedef enum pen_status measure_set_fn(void *context, const struct pen_tensor *set, const struct pen_stop *stop,
                                       struct measure_error *error, struct measure_bits *bits,
                                       struct pen_error *reterr);

/* Runs every set twice, as far as MEASURE_ENOUGH_NS lasts: for the error, and to see whether the same bits come again. */
enum pen_status measure_sets_run(const struct measure_sets *sets, measure_set_fn *run, void *context,
                                 const struct pen_stop *stop, struct pen_measured *found, struct pen_error *reterr);

#endif
