/*
 * xnnpack/window.h - windows as convolutions and pools here want them, and fused activations.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_WINDOW_H
#define XNNPACK_WINDOW_H

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/own.h"
#include "backend/window.h"

/* window_read whose output is the one that these numbers give. */
bool window_read_exact(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
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
/* Both, by the thread that calls. */
void act_piece(const struct act *a, float *y, size_t count);
/* y = fn(y) in parallel; nothing when fn is UNARY_NONE. */
void act_run(const struct act *a, float *y, size_t count, struct run *r);

#endif
