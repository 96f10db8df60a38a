/*
 * vulkan/ops/qproduct.h - products of bytes: what is shared by those whose weights are constants (qproduct.c), batches of computed matrices (qmatmul.c), and which input is what (qslots.c).
 *
 * Threads: supports any; the rest one-at-a-time (part of a plan or a build).
 */
#ifndef VULKAN_QPRODUCT_H
#define VULKAN_QPRODUCT_H

#include "backend/vulkan/ops/filter.h"
#include "backend/vulkan/ops/quantised.h"

#define VK_SUM_MOST INT32_MAX /* of products: what 32 bits hold */

/* Which input is what; UINT32_MAX: the operator has none. */
struct vk_qslots {
    uint32_t x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias;
};
struct vk_qslots vk_qslots_of(enum op op);
bool vk_qconvolves(enum op op); /* QLinearConv, ConvInteger */
bool vk_qsums(enum op op);      /* ConvInteger, MatMulInteger: the sums are the result */

/* qmatmul.c: MatMulInteger and QLinearMatMul whose right side is computed, or several matrices. */
bool vk_qmatmul_supports(const struct graph *g, const struct node *n, const char **ret_reason);
void vk_qmatmul_build(struct vk_build *b);

#endif
