/*
 * deconv_weights.h - weights of transposed convolutions as columns of products: those of one position of the kernel, or of a row of it.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_DECONV_WEIGHTS_H
#define XNNPACK_DECONV_WEIGHTS_H

#include "backend/xnnpack/dense.h"
#include "graph/graph.h"

/* Of the graph's weights [groups * in, out, height, width]; a kernel of one dim has height 1. */
struct deconv_weights {
    size_t groups, in, out, height, width; /* in, out: channels of one group */
    bool rows;                             /* a row of the kernel is one product; else each position is */
};

struct deconv_weights deconv_weights_of(const struct shape *w, size_t groups, bool rows);
size_t deconv_weights_columns(const struct deconv_weights *d);  /* of one product: [kernel column][out], or [out] */
size_t deconv_weights_products(const struct deconv_weights *d); /* of one group */
/* As emitter.pack, of constant weights and bias, which may be NULL: its number stands beside each column. */
enum pen_status deconv_weights_pack(const struct graph *g, const struct node *n, const struct deconv_weights *d,
                                    enum gemm_form form, void **ret_packed, size_t *ret_bytes,
                                    struct pen_error *reterr);
const struct dense_weights *deconv_weights_at(const struct deconv_weights *d, enum gemm_form form, const void *packed,
                                              size_t group, size_t product);

#endif
