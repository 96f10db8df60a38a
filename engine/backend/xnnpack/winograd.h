/*
 * winograd.h - 3 x 3 convolutions of stride 1 with fewer multiplications: F(4 x 4, 3 x 3) with a quarter, F(2 x 2, 3 x 3) with four ninths.
 *
 * An output tile of 4 x 4 comes from an input tile of 6 x 6: both are turned into 36 numbers by small matrices, and between them lie 36 products of matrices
 * instead of one convolution (Lavin and Gray, 2015). The points are 0, +-5/8, +-3/2 and infinity: exact in binary, and with a fifth of the error of the usual
 * 0, +-1, +-2. The error is some five times that of a direct sum in f32: below a millionth of the range of the results. Tiles of 2 x 2 come from 16 numbers, with
 * points 0, +-1 and infinity; their error is that of a direct sum.
 *
 * Weights are those of the product (dense.h). A thread turns a block of them when it needs it: reading nine numbers and turning them takes less time than
 * reading 36 from memory, and no memory is held for it.
 * Infinity in a pixel makes NaN of its whole tile. Results do not depend on the number of threads.
 * Threads: packed weights are shared by any; a winograd_run belongs to one exec.
 */
#ifndef XNNPACK_WINOGRAD_H
#define XNNPACK_WINOGRAD_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/filter.h"

#define WINOGRAD_LARGE 4 /* edges of an output tile */
#define WINOGRAD_SMALL 2

/* Has this window such a form at all, and enough channels to pay for the turning? */
bool winograd_takes(const struct window *w, const struct filter *f);
/* The same, as far as the node and its weights tell before shapes are known. */
bool winograd_may_take(const struct node *n, const struct filter *f);
/*
 * What it costs for such a window, in rows of matrix products of [in] x [out]; beside that of the product, which computes nine for each pixel. It counts rows that
 * tiles waste, and the turning of weights, but not the memory. The same on all hosts of an instruction set.
 */
size_t winograd_cost(const struct window *w, const struct filter *f, size_t edge);
size_t winograd_cost_of_product(const struct window *w);

struct winograd {
    struct window w;
    struct act act;
    const struct epilogue *after; /* NULL = nothing */
    size_t edge, points;          /* numbers of a turned tile */
    size_t in, out;               /* channels */
    size_t tiles_h, tiles_w, tiles, tiles_block, cols_block, cols_step, k_block;
};

void winograd_init(struct winograd *q, const struct window *w, const struct filter *f, size_t edge,
                   const struct act *act, size_t threads);
size_t winograd_scratch_bytes(const struct winograd *q, size_t threads);
/* The step's first input is the picture; sum: as large as the result, added before the clamp; NULL = nothing. */
void winograd_run(const struct winograd *q, const struct dense_weights *packed, const struct step *s, const float *sum,
                  struct run *r);

#endif
