/*
 * npy.h - NumPy's .npy files, which people give to jobs and to calibrations: one array in C order, little-endian, format 1.0 to 3.0.
 *
 * Threads: any (no state).
 */
#ifndef NPY_H
#define NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"

bool npy_is(const uint8_t *bytes, size_t size);

/* Of a whole file in memory: a view whose data point into it (name: NULL). CORRUPT, or UNSUPPORTED for Fortran order and other types. */
enum pen_status npy_view(const uint8_t *bytes, size_t size, const char *file, struct pen_tensor *ret_tensor,
                         struct pen_error *reterr);

/* Writes a file. Types that NumPy lacks (bfloat16, 4-bit...) are stored as u1 of their bytes, with a shape of one dimension. */
enum pen_status npy_save(const char *file, const struct pen_tensor *tensor, struct pen_error *reterr);

#endif
