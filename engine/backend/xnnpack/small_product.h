/*
 * small_product.h - a product that one thread does alone, of operands that its caller has laid out: the blocks of attention, the rows of a transposed convolution.
 *
 * Threads: any; where tiles multiply, the caller holds them (own_tiles.h).
 */
#ifndef XNNPACK_SMALL_PRODUCT_H
#define XNNPACK_SMALL_PRODUCT_H

#include "backend/xnnpack/own.h"

struct small_product {
    enum gemm_form form;
    bool tiles; /* GEMM_PAIRS in AMX tiles */
};

/* Of weights of this form, in the way that the processor has for them. */
struct small_product small_product_of(enum gemm_form form);
/* Rows of one call: so many are read and may be written, whatever m is. */
size_t small_product_rows(const struct small_product *p);
/* Words of so many terms of a sum, in a row and in a column of a panel: floats, or pairs of bf16; what fills the last tile is 0 in both. */
size_t small_product_words(const struct small_product *p, size_t terms);
/*
 * y [m, n] = x [m, k] * panels w, or y += ... where it is not `first`: bias, sum and limits are not looked at. k in words; x_stride, y_stride as in gemm_tile.
 * Rows of x beyond m are there up to whole calls.
 */
void small_product_run(const struct small_product *p, const struct gemm_tile *all);

#endif
