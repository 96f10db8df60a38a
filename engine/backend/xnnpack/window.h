/*
 * window.h - what convolutions and pools share: kernel, strides, dilations and padding of one or two spatial dims, and fused activations.
 *
 * One spatial dim becomes the second of two (height 1).
 * Threads: any (pure).
 */
#ifndef XNNPACK_WINDOW_H
#define XNNPACK_WINDOW_H

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/own.h"

struct window {
    size_t batch, channels; /* of the input */
    size_t in[2], out[2];   /* height, width */
    size_t kernel[2], stride[2], dilation[2], begin[2], end[2];
};

/* NHWC, rank 3 or 4, attributes of the right length, nothing zero or negative. kernel: input 1 has it when the attribute is missing (NULL for pools). */
bool window_supports(const struct graph *g, const struct node *n, const struct value *weights, const char **ret_reason);
/* From concrete shapes (NHWC). `kernel` [spatial] overrides the attribute. False when the output shape is not the one these numbers give. */
bool window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 struct window *ret_window);

/* As above without a check of the output's size: the caller does it. */
bool window_read_any(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                     struct window *ret_window);

/* Output rows and columns by which a window may run past the padded input (ceil mode) are allowed here. */
bool window_read_pool(const struct node *n, const struct shape *in, const struct shape *out, struct window *ret_window);

/* ATTR_act of a node: clamp limits that fuse into most operators, else a function over the result. */
struct act {
    float min, max;
    enum unary_fn fn; /* UNARY_NONE: nothing left to do after the clamp */
    float a;
};
struct act act_read(const struct node *n);
/* The clamp as well, for operators that cannot fuse it. */
void act_all(const struct act *a, float *y, size_t count, struct run *r);
/* y = fn(y) in parallel; nothing when fn is UNARY_NONE. */
void act_run(const struct act *a, float *y, size_t count, struct run *r);

#endif
