/*
 * qdepthwise.h - depthwise convolution of quantised bytes, NHWC: one weight for each tap and channel, exact 32-bit sums.
 *
 * Threads: packed weights are shared by any; a run belongs to one exec.
 */
#ifndef XNNPACK_QDEPTHWISE_H
#define XNNPACK_QDEPTHWISE_H

#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/window.h"

#define QDEPTHWISE_TAPS 256

bool qdepthwise_fits(const struct filter *f);
size_t qdepthwise_packed_bytes(const struct filter *f); /* a multiple of 64 */
void qdepthwise_pack(const struct filter *f, const struct qparams *p, uint8_t *packed);
void qdepthwise_run(const struct window *w, const struct qparams *p, const uint8_t *packed, const uint8_t *x, void *y,
                    struct run *r);

#endif
