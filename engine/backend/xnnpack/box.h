/*
 * box.h - copies an n-dimensional box between two strided places: transposes, slices, joins, repeats are all one of these.
 *
 * Dims that run on in memory on both sides are merged; the innermost becomes memcpy, a tiled transpose, or an element loop.
 * Threads: any.
 */
#ifndef XNNPACK_BOX_H
#define XNNPACK_BOX_H

#include "backend/xnnpack/emit.h"

#define BOX_RANK 16

struct box {
    int32_t rank;
    size_t dim[BOX_RANK];
    ptrdiff_t x_step[BOX_RANK], y_step[BOX_RANK]; /* elements; x_step may be 0 (repeat) or negative (reverse) */
    size_t size;                                  /* bytes of an element: 1, 2, 4, 8, 16 */
};

/* Drops dims of one element, merges what runs on, orders nothing. Call once when the dims are set. */
void box_finish(struct box *b);
void box_copy(const struct box *b, const void *x, void *y, struct run *r);

#endif
