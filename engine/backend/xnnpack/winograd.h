/*
 * winograd.h - 3 x 3 convolutions of stride 1 with a quarter of the multiplications: F(4 x 4, 3 x 3).
 *
 * An output tile of 4 x 4 comes from an input tile of 6 x 6: both are turned into 36 numbers by small matrices, and between them lie 36 products of matrices
 * instead of one convolution (Lavin and Gray, 2015). The points are 0, +-5/8, +-3/2 and infinity: exact in binary, and with a fifth of the error of the usual
 * 0, +-1, +-2. The error is some five times that of a direct sum in f32: below a millionth of the range of the results. Weights are turned in double.
 * Infinity in a pixel makes NaN of its whole tile. Results do not depend on the number of threads.
 * Threads: packed weights are shared by any; a winograd_run belongs to one exec.
 */
#ifndef XNNPACK_WINOGRAD_H
#define XNNPACK_WINOGRAD_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/filter.h"

/*
 * Is it worth it for this window? Enough channels to pay for the turning, enough tiles to fill the product's rows, little of a tile beyond the picture, and
 * turned weights (4 times the size) that a cache holds. The same answer for all threads and hosts of an instruction set.
 */
bool winograd_wants(const struct window *w, const struct filter *f);
size_t winograd_packed_bytes(const struct filter *f); /* a multiple of 64 */
/* ohwi: [out][3][3][in]; bias may be NULL. packed: 64-byte aligned. False without memory. */
bool winograd_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed);

struct winograd {
    struct window w;
    struct act act;
    const struct epilogue *after; /* NULL = nothing */
    size_t in, out;               /* channels */
    size_t tiles_h, tiles_w, tiles, tiles_block, cols_block;
};

void winograd_init(struct winograd *q, const struct window *w, const struct filter *f, const struct act *act,
                   size_t threads);
size_t winograd_scratch_bytes(const struct winograd *q, size_t threads);
/* The step's first input is the picture; sum: as large as the result, added before the clamp; NULL = nothing. */
void winograd_run(const struct winograd *q, const float *packed, const struct step *s, const float *sum, struct run *r);

#endif
