/*
 * lanes.h - one-dimensional slices of a tensor along an axis: what softmax, top-k, cumulative sums and the like work on.
 *
 * Threads: any.
 */
#ifndef LANES_H
#define LANES_H

#include "backend/reference/kernels.h"

struct lanes {
    int64_t outer, count, inner; /* product before the axis, along it, behind it */
};

static inline struct lanes lanes_of(const struct shape *s, int32_t axis)
{
    return (struct lanes){dims_product(s, 0, axis), s->dim[axis], dims_product(s, axis + 1, s->rank)};
}

/* First element of lane i < outer * inner; neighbours are `inner` apart. */
static inline int64_t lane_first(const struct lanes *l, int64_t i)
{
    return i / l->inner * l->count * l->inner + i % l->inner;
}

#endif
