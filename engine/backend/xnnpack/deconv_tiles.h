/*
 * deconv_tiles.h - ConvTranspose whose windows lie side by side: the kernel is as large as the stride, as where segmenters double a picture. No two inputs
 * meet in an output, so each position of the kernel is a matrix product whose results lie a stride apart.
 *
 * Threads: packed weights are shared by any.
 */
#ifndef XNNPACK_DECONV_TILES_H
#define XNNPACK_DECONV_TILES_H

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/own.h"

/* NHWC with constant weights, one group, neither padding nor holes: by its attributes, the same for all sizes. */
bool deconv_tiles_takes(const struct graph *g, const struct node *n);
/* As emitter.pack, where it takes the node; form: of the weights. */
enum pen_status deconv_tiles_pack(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                  size_t *ret_bytes, struct pen_error *reterr);
/* b->packed is what pack gave; shapes have been checked. */
enum pen_status deconv_tiles_build(struct build *b);

#endif
