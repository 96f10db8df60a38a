/*
 * turn.h - transposes of bytes and of 16-bit numbers, in tiles that are turned in registers (own_rows.c has the one for 32 bits).
 *
 * Threads: any.
 */
#ifndef XNNPACK_TURN_H
#define XNNPACK_TURN_H

#include <stddef.h>

/* y[c * y_stride + r] = x[r * x_stride + c] for elements of `size` bytes, 1 or 2; strides in elements. */
void turn(size_t size, const void *x, size_t x_stride, void *y, size_t y_stride, size_t rows, size_t cols);

#endif
