/*
 * dense_paired.h - the image of a convolution as pairs of bf16, for products in tiles.
 *
 * Threads: as dense.h says.
 */
#ifndef XNNPACK_DENSE_PAIRED_H
#define XNNPACK_DENSE_PAIRED_H

#include "backend/xnnpack/dense.h"

/* For d->tiles: sets d->paired where the image may be made of pairs, and d->mr to whole rows of results where windows can be read in place. */
void dense_paired_init(struct dense *d);
/* Fills to[d->paired.words] from the image x. */
void dense_paired_fill(const struct dense *d, const float *x, float *to, struct run *r);

#endif
