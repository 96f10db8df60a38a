/*
 * single.h - a graph of one node as a partition of its own: for self-tests and for the tuner.
 *
 * Threads: one-at-a-time.
 */
#ifndef VULKAN_SINGLE_H
#define VULKAN_SINGLE_H

#include "backend/vulkan/plan.h"
#include "backend/vulkan/seen.h"

struct vk_single {
    struct graph *g;    /* owned */
    struct fact *facts; /* [value_count] */
    struct shape_env env;
    uint32_t in[2], in_count, out;
    struct plan *plan;
};

/* Gives a node of seeded numbers: a MatMul [rows, depth] x [depth, outs] or a batch of them (both sides computed), or a Conv, NHWC, that makes this window. */
enum pen_status vk_single_product(struct backend *b, const struct vk_product_shape *shape, struct vk_single *ret_single,
                                  struct pen_error *reterr);
enum pen_status vk_single_conv(struct backend *b, const struct window *w, size_t groups, size_t outs,
                               struct vk_single *ret_single, struct pen_error *reterr);
/* Of bytes, as models mostly have them (x and y u8, weights i8 around 0): a QLinearMatMul, or a QLinearConv that makes this window where the shape is of windows. */
enum pen_status vk_single_quantised(struct backend *b, const struct vk_product_shape *shape, const struct window *w,
                                    struct vk_single *ret_single, struct pen_error *reterr);
/* A MatMulNBits of codes in such blocks. */
enum pen_status vk_single_codes(struct backend *b, const struct vk_product_shape *shape, const struct vk_coding *coding,
                                struct vk_single *ret_single, struct pen_error *reterr);
/* Any node: what goes in and comes out. data NULL: computed, at most two; they are the inputs of vk_single_run in order. */
struct vk_single_value {
    enum pen_dtype dtype;
    struct shape shape;
    const void *data; /* borrowed until the node is freed */
};
/* attrs: sets the node's attributes; NULL = none. */
enum pen_status vk_single_node(struct backend *b, enum op op, const struct vk_single_value *in, uint32_t in_count,
                               const struct vk_single_value *out,
                               enum pen_status (*attrs)(struct graph *g, uint32_t node), struct vk_single *ret_single,
                               struct pen_error *reterr);
/* An exec and one run: in[] and out have the bytes of their shapes. */
enum pen_status vk_single_run(const struct vk_single *s, const void *const *in, void *out, struct pen_error *reterr);
void vk_single_fini(struct vk_single *s);
size_t vk_single_bytes(const struct vk_single *s, uint32_t value);
/* The next number of a seed's row, from 0 to below 1. */
float vk_single_next(uint32_t *seed);
/* Numbers within 0.5, the same for the same seed. */
void vk_single_fill(float *x, size_t count, uint32_t seed);
void vk_single_fill_bytes(uint8_t *x, size_t count, uint32_t seed);
void vk_single_round(float *x, size_t count); /* to bf16 */

#endif
