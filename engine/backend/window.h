/*
 * window.h - what convolutions and pools of every backend share: kernel, strides, dilations and padding of one or two spatial dims.
 *
 * One spatial dim becomes the second of two (height 1). Data is NHWC: the layout pass has seen to it.
 * Threads: any (pure).
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "backend/backend.h"

struct window {
    size_t batch, channels; /* of the input */
    size_t in[2], out[2];   /* height, width */
    size_t kernel[2], stride[2], dilation[2], begin[2], end[2];
};

/* Rank 3 or 4, NHWC, attributes of the right length and range; weights (their shape is the kernel's where the attribute is missing) NULL for pools. */
bool window_supports(const struct graph *g, const struct node *n, const struct value *weights, const char **ret_reason);
/* From concrete shapes; `kernel` [spatial] overrides the attribute. False when they do not fit each other. The output's size is believed. */
bool window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 struct window *ret_window);
/* The output is what a convolution of these numbers has. */
bool window_exact(const struct window *w);
/* True when a convolution over it is a matrix product of all pixels: 1 x 1, steps of 1, nothing around. */
bool window_point(const struct window *w);

#endif
