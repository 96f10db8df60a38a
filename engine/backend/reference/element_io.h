/*
 * element_io.h - reads and writes runs of elements of any numeric dtype as double or int64, so that one kernel serves them all.
 *
 * Floating types travel as double; integer types as int64 (unsigned 64-bit values as their bit pattern). Writing an integer wraps around as the dtype does;
 * writing a double rounds to nearest even (float types) or truncates towards zero (integer types).
 * Threads: any (pure functions).
 */
#ifndef ELEMENT_IO_H
#define ELEMENT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/dtype.h"

#define ELEMENT_BLOCK 256 /* elements converted at a time: the double buffers stay in the first-level cache */

/* Classes of dtypes, also as a mask: what a kernel accepts (kernels.def). */
enum element_class {
    ELEMENT_FLOAT = 1,
    ELEMENT_SIGNED = 2,
    ELEMENT_UNSIGNED = 4,
    ELEMENT_BOOL = 8,
    ELEMENT_TEXT = 16,
    ELEMENT_COMPLEX = 32,
};
#define ELEMENT_INTEGER (ELEMENT_SIGNED | ELEMENT_UNSIGNED)
#define ELEMENT_NUMBER  (ELEMENT_FLOAT | ELEMENT_INTEGER)
#define ELEMENT_ANY     (ELEMENT_NUMBER | ELEMENT_BOOL | ELEMENT_TEXT | ELEMENT_COMPLEX)

unsigned element_class(enum pen_dtype dtype); /* 0 for NONE */
size_t element_size(
    enum pen_dtype dtype); /* bytes of one element in memory; 1 for packed sub-byte types; a string_view for STRING */
bool element_packed(enum pen_dtype dtype); /* 2-bit and 4-bit types */

/* ret[i] = data[first + i * stride], i < count; positions count elements. */
void load_f64(const void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, double *ret);
void load_i64(const void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, int64_t *ret);
/* data[first + i * stride] = items[i] */
void store_f64(void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, const double *items);
void store_i64(void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, const int64_t *items);

double load_one_f64(const void *data, enum pen_dtype dtype, int64_t index);
int64_t load_one_i64(const void *data, enum pen_dtype dtype, int64_t index);
void store_one_f64(void *data, enum pen_dtype dtype, int64_t index, double value);
void store_one_i64(void *data, enum pen_dtype dtype, int64_t index, int64_t value);

int64_t i64_from_f64(double value); /* truncates; saturates beyond int64, NaN becomes 0 */

/* 8-bit and 4-bit floats. up: E8M0 only (-1 down, 0 nearest, 1 up). */
double small_float_decode(enum pen_dtype dtype, uint8_t code);
uint8_t small_float_encode(enum pen_dtype dtype, double value, bool saturate, int round);

#endif
