/*
 * measure_sets.h - the inputs on which an error is measured: the caller's, or drawn ones, always the same.
 *
 * Threads: one-at-a-time.
 */
#ifndef MEASURE_SETS_H
#define MEASURE_SETS_H

#include "penstock/engine.h"

/* All sets, one after the other: [sets][count]. Data of seeded ones are owned. */
struct measure_sets {
    struct pen_tensor *tensors;
    size_t count, sets;
    bool owned;
};

/* count: inputs of a set. UNSUPPORTED: an input cannot be drawn. After a failure there is nothing to give back. */
enum pen_status measure_sets_init(struct measure_sets *sets, size_t count, const struct pen_measure_inputs *inputs,
                                  struct pen_error *reterr);
void measure_sets_fini(struct measure_sets *sets);

#endif
