/*
 * depthwise.h - convolutions with one filter for each channel, f32, NHWC: y = clamp(sum over the window of x * w + bias), then an activation.
 *
 * A tile is some outputs side by side times a vector of channels. A unit of work is some output rows. Results do not depend on the number of threads.
 * Threads: packed weights are shared by any; a depthwise_run belongs to one exec.
 */
#ifndef XNNPACK_DEPTHWISE_H
#define XNNPACK_DEPTHWISE_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/filter.h"
#include "backend/xnnpack/window.h"

/* Our kernels take it: one channel in and out of each group, and vectors of 8 or more. */
bool depthwise_takes(const struct filter *f);
size_t depthwise_packed_bytes(const struct filter *f);
/* ohwi: [channels][height][width]; bias may be NULL. packed: 64-byte aligned. */
void depthwise_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed);

struct depthwise {
    struct window w;
    struct act act;
    const struct epilogue *after; /* over the results while they are in the cache; NULL = nothing */
    size_t channels, rows_unit;
    size_t inside_from, inside_to; /* output columns whose windows lie inside */
};

void depthwise_init(struct depthwise *d, const struct window *w, const struct act *act, size_t channels,
                    size_t threads);
/* The step's first input is the picture. */
void depthwise_run(const struct depthwise *d, const float *packed, const struct step *s, struct run *r);

#endif
