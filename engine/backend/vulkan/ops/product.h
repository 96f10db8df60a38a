/*
 * vulkan/ops/product.h - one product of windows (or rows of a matrix) with packed weights: which kernel of the family runs it, and its dispatch.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_PRODUCT_H
#define VULKAN_PRODUCT_H

#include "backend/vulkan/ops/filter.h"
#include "backend/vulkan/seen.h"

/* Where a tensor of the shape of y is added. The values are bits of the kernels' constants. */
enum vk_residual { VK_RESIDUAL_NONE = 0, VK_RESIDUAL_BEFORE = 4, VK_RESIDUAL_BEHIND = 8 };

/* Weights as codes of few bits, for family `cm`: weights has the words, [output][words of its blocks]. */
struct vk_codes {
    struct vk_coding coding; /* blocks of a multiple of 16 */
    uint32_t scales, zeros;  /* cells, [output][block]; zeros VK_CELL_NONE = the middle of the codes */
};

struct vk_product {
    struct window w; /* a matrix of m rows: batch 1, height 1, width m */
    size_t groups, group_in, group_out;
    uint32_t x, y, weights, bias; /* cells; bias VK_CELL_NONE = none. bias is [group][o padded to 4] */
    struct vk_act act;
    enum vk_residual adds;        /* before or behind act */
    uint32_t residual;            /* cell; of no meaning where nothing is added */
    bool conv;                    /* of a convolution: vk_conv says which kernels */
    const struct vk_codes *codes; /* NULL: weights are floats */
};

void vk_product(struct vk_build *b, const struct vk_product *p);
/* One with codes, by family `cm`: the choice says which tile. */
void vk_product_codes(struct vk_build *b, const struct vk_product *p, const struct vk_choice *c);

/* A batch of products of matrices, both sides computed and dense: y[i] = act(x[..] w[..] + bias), perhaps with a residual. */
struct vk_batch {
    size_t rows, outs, depth, count;
    size_t dim[4], x_step[4], w_step[4]; /* of the batch; steps in matrices, 0 = the same for all */
    uint32_t x, w;                       /* cells */
    const struct vk_product *end;        /* of it: y, bias, act and residual */
};
/* By family `cm` or `cm2`. */
void vk_product_batch(struct vk_build *b, const struct vk_batch *p, const struct vk_choice *c);
/*
 * The grid and the constants of a kernel of family `cm`, behind its own ones: `plain` and `batch` as in conv_cm.glsl. m: the device's matrices; rows 0: plain loops in
 * their place.
 */
void vk_cooperative_start(struct vk_work *work, const struct vk_matrix_size *m, const struct vk_choice *c, bool plain,
                          bool batch, size_t rows, size_t out4, size_t groups);
/* matmul.c: y = act(a b) for a batch of matrices; shapes of rank >= 2 of inputs 0 and 1. */
void vk_matmul_batch(struct vk_build *b, const struct shape *left, const struct shape *right);
/* A matrix of m rows of k. */
struct window vk_matrix_window(size_t m, size_t k);

#endif
