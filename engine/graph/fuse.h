/*
 * fuse.h - the parts of pass_fuse: each looks at one node and rewrites what leads to it; true when it did.
 *
 * Threads: one-at-a-time.
 */
#ifndef FUSE_H
#define FUSE_H

#include "graph/pass_internal.h"

/* fuse_activation.c: act(op(x)) -> op(x) with ATTR_act. */
bool fuse_activation(struct rewrite *r, uint32_t node);
/* fuse_affine.c: batch normalisation, and Mul or Add by a constant per channel, into the convolution or Gemm before. */
bool fuse_batch_norm(struct rewrite *r, uint32_t node);
bool fuse_channel_mul_add(struct rewrite *r, uint32_t node);
/* MatMul and Add of a constant row -> Gemm, when both operands are matrices. */
bool fuse_gemm(struct rewrite *r, uint32_t node);
/* fuse_einsum.c: a product of two -> MatMul and transposes. */
bool fuse_einsum(struct rewrite *r, uint32_t node);
/* fuse_pad.c */
bool fuse_pad(struct rewrite *r, uint32_t node);
/* fuse_pattern.c: formulas that have an operator of their own. */
bool fuse_swish(struct rewrite *r, uint32_t node);
bool fuse_hard_swish(struct rewrite *r, uint32_t node);
bool fuse_gelu(struct rewrite *r, uint32_t node);
/* fuse_norm.c: norms over the last axis, likewise. */
bool fuse_layer_norm(struct rewrite *r, uint32_t node);
bool fuse_rms_norm(struct rewrite *r, uint32_t node);

/* What patterns share. A constant of the model is what a formula has there; a node with no activation joined to it (false for NULL); the last node becomes `op` of `in`. */
bool fuse_near(float a, double b);
bool fuse_plain(const struct node *n);
bool fuse_become(struct rewrite *r, uint32_t last, enum op op, const uint32_t *in, uint32_t count);

#endif
