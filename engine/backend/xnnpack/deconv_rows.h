/*
 * deconv_rows.h - ConvTranspose of any kernel, stride, dilation and padding, as products of rows.
 *
 * A row of results sums, over the rows of the kernel that meet it, pixels of one row of the picture times the weights of that row of the kernel. Results a stride
 * apart have the same rows of the kernel, and pictures rows that follow each other, so such a block is one product for each. Its sums [pixel][kernel column][channel]
 * then meet in the pixels of the result. No number is multiplied twice, and sums stay in the second cache.
 *
 * Threads: packed weights are shared by any.
 */
#ifndef XNNPACK_DECONV_ROWS_H
#define XNNPACK_DECONV_ROWS_H

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/own.h"

/* Constant weights, and channels enough for vectors: by its attributes, the same for all sizes. */
bool deconv_rows_takes(const struct graph *g, const struct node *n);
/* As emitter.pack, where it takes the node; form: of the weights. */
enum pen_status deconv_rows_pack(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                 size_t *ret_bytes, struct pen_error *reterr);

/* Where windows lie; [0] of rows, [1] of columns. */
struct deconv_place {
    size_t batch, groups;
    size_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2]; /* begin: padding before */
};
/* b->packed is what pack gave; shapes have been checked. */
enum pen_status deconv_rows_build(struct build *b, const struct deconv_place *place);

#endif
