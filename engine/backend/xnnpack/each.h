/*
 * each.h - walks an output and up to six broadcast inputs together: dims that run on in memory are merged, the innermost is given to a loop.
 *
 * Threads: a walk belongs to one step.
 */
#ifndef XNNPACK_EACH_H
#define XNNPACK_EACH_H

#include "backend/xnnpack/emit.h"

#define EACH_INPUTS 6

struct each {
    int32_t rank; /* >= 1 */
    size_t dim[PEN_MAX_RANK];
    size_t step[EACH_INPUTS][PEN_MAX_RANK]; /* elements; 0 = broadcast */
    uint32_t inputs;
    size_t count; /* elements of the output */
};

/* One piece: n output elements from `out` on, input k from at[k] on, advancing by step[k] (0 or 1) elements. */
typedef void (*each_fn)(const void *context, size_t out, const size_t *at, const size_t *step, size_t n);

/* False when an input does not broadcast to the output. */
bool each_init(struct each *e, const struct shape *out, const struct shape *const *in, uint32_t inputs);
void each_run(const struct each *e, each_fn fn, const void *context, struct run *r);

/* The same with pointers: elements of `size` bytes; in[k] advances by step[k], 0 or 1 elements, and may lie in memory of this piece only. */
typedef void (*each_piece_fn)(const void *context, size_t out, const void *const *in, const size_t *step, size_t n);
/*
 * Short rows are taken together, so that a call has some 1000 elements whatever broadcasts: what repeats or does not advance within a row is written out
 * before. size: 1 or 4.
 */
void each_pieces(const struct each *e, const void *const *in, size_t size, each_piece_fn fn, const void *context,
                 struct run *r);

#endif
