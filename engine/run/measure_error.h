/*
 * measure_error.h - how far outputs are from those of the reference: proto/PROTOCOL.md, "Precision", has the formula.
 *
 * Threads: one-at-a-time.
 */
#ifndef MEASURE_ERROR_H
#define MEASURE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"

/*
 * Over all elements of all outputs so far. An element's error is |got - want| / R, R = the largest minus the smallest finite number of the output that is wanted
 * (its magnitude where all are equal; 1 where all are 0). Floats, and the numbers of 8 bits in which quantised models answer, are compared so. Another shape or
 * type, NaN for a number or a number for NaN, and whole numbers, bools or texts that differ: infinite. That is compare.c's and tolerance.h's "by range".
 */
struct measure_error {
    double largest, sum;
    uint64_t count;
};
void measure_error_add(struct measure_error *e, const struct pen_tensor *got, size_t got_count,
                       const struct pen_tensor *want, size_t want_count);

/* A hash of outputs, one after the other: equal for equal bits. */
struct measure_bits {
    uint64_t hash;
};
bool measure_bits_take(struct measure_bits *bits, const struct pen_tensor *outputs,
                       size_t count); /* false: no memory */

#endif
