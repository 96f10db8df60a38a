/*
 * after.h - what a product does with rows of its results while they are in the cache: an activation, and the nodes behind it.
 *
 * Threads: any; rows belong to the caller.
 */
#ifndef XNNPACK_AFTER_H
#define XNNPACK_AFTER_H

#include "backend/xnnpack/chain.h"

/* Rows of `cols` results each. */
struct after_rows {
    float *y;
    size_t y_stride;      /* floats between rows */
    size_t at, at_stride; /* where y is in what is as large as the step's result, and rows there */
    size_t rows, cols;
};

/* after: NULL = nothing. in: the step's inputs, for it. */
void after_run(const struct act *act, const struct epilogue *after, void *const *in, const struct after_rows *r);

#endif
