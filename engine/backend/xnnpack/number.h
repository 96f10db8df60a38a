/*
 * number.h - loops over integers, booleans and mixed types: shape-like arithmetic beside the float kernels, so that partitions do not break for it.
 *
 * Threads: any.
 */
#ifndef XNNPACK_NUMBER_H
#define XNNPACK_NUMBER_H

#include "backend/xnnpack/own.h"
#include "penstock/dtype.h"
#include <stdbool.h>

enum compare_fn { COMPARE_EQUAL = 0, COMPARE_GREATER, COMPARE_GREATER_EQUAL, COMPARE_LESS, COMPARE_LESS_EQUAL };
enum logic_fn { LOGIC_AND = 0, LOGIC_OR, LOGIC_XOR };

/* Elements from `at`, each `step` elements behind the one before; 0: one for all. */
struct number_run {
    const void *at;
    size_t step;
};

bool number_integer(enum pen_dtype dtype);                   /* i64 or i32 */
size_t number_bytes(enum pen_dtype dtype);                   /* of whole-byte types */
bool number_double(enum pen_dtype dtype, enum binary_fn fn); /* f64: sums, differences, products, quotients, extremes */
/* Two's complement wraps; x / 0 and x mod 0 are 0; division truncates; python_mod: the sign of the divisor. f64: what number_double says. */
void number_binary(enum pen_dtype dtype, enum binary_fn fn, bool python_mod, struct number_run a, struct number_run b,
                   void *y, size_t n);
bool number_compares(enum pen_dtype dtype); /* f32, f64, i64, i32, u8, i8, bool */
void number_compare(enum pen_dtype dtype, enum compare_fn fn, const void *a, size_t a_step, const void *b,
                    size_t b_step, uint8_t *y, size_t n);
void number_logic(enum logic_fn fn, const uint8_t *a, size_t a_step, const uint8_t *b, size_t b_step, uint8_t *y,
                  size_t n);
/* The same on each bit of integers of `bytes` (1, 2, 4 or 8) bytes. */
void number_bits(size_t bytes, enum logic_fn fn, struct number_run a, struct number_run b, void *y, size_t n);
/* y = mask ? a : b, elements of 1, 2, 4 or 8 bytes. */
void number_select(size_t bytes, struct number_run mask, struct number_run a, struct number_run b, void *y, size_t n);
bool number_casts(enum pen_dtype from, enum pen_dtype to);
void number_cast(enum pen_dtype from, const void *x, enum pen_dtype to, void *y, size_t n);

#endif
