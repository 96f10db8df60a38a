/*
 * batch_shape.h - chooses the size at which a batch really runs: its own when that is ready, else the next larger size
 * that is ready; the missing rows are filled up.
 *
 * Preparing a size costs tens to thousands of microseconds; the cost of filling rows follows from the measured times. A
 * batch is filled until filling a size has cost more in all than preparing it would have; then the size is prepared. So
 * the cost is at most twice the best possible. Warmed-up sizes are always ready. Only so few other sizes are prepared
 * that the engine never drops one.
 *
 * Threads: batch_shape_rows, batch_shape_exact one-at-a-time (a slot's); the rest any.
 */
#ifndef BATCH_SHAPE_H
#define BATCH_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"

#define BATCH_SHAPE_WARM_MAX   36u
#define BATCH_SHAPE_LEARNT_MAX 4u
#define BATCH_SHAPE_READY_MAX  16u /* shapes that a session of the engine keeps */

/* A shape that was warmed up, with its times. */
struct warm_time {
    uint32_t batch; /* rows; 0 = the model is not batched */
    uint64_t shape; /* batch_shape_of of its inputs */
    uint64_t cold_us, warm_us;
};

/* What one session knows about sizes that were not warmed up. */
struct batch_shape {
    struct {
        uint64_t shape, waste_us;
        uint32_t rows;
        bool ready;
    } learnt[BATCH_SHAPE_LEARNT_MAX];
    size_t learnt_count;
    bool exact; /* filling does not work for this model */
};

/* The inputs' dims without the batch dimension, as a hash. */
uint64_t batch_shape_of(const struct pen_tensor *inputs, size_t count, bool batched);

/* Rows to run a batch of `rows` rows at: >= rows. */
uint32_t batch_shape_rows(struct batch_shape *batch_shape, const struct warm_time *warm, size_t warm_count,
                          uint64_t shape, uint32_t rows);
void batch_shape_exact(
    struct batch_shape *batch_shape); /* the outputs of a filled batch could not be split: never fill again */

/* True when this size was warmed up. */
bool batch_shape_warmed(const struct warm_time *warm, size_t warm_count, uint64_t shape, uint32_t rows);

#endif
