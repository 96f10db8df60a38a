/*
 * vulkan/ops/ops.h - the families of kernels; table.c says which operators each takes.
 *
 * Threads: any (constant tables).
 */
#ifndef VULKAN_OPS_H
#define VULKAN_OPS_H

#include "backend/vulkan/op.h"

extern const struct vk_op vk_op_conv;               /* conv.c */
extern const struct vk_op vk_op_gemm, vk_op_matmul; /* gemm.c */
extern const struct vk_op vk_op_elementwise, vk_op_cast;
extern const struct vk_op vk_op_pool;
extern const struct vk_op vk_op_softmax, vk_op_loss, vk_op_row_rounding;
extern const struct vk_op vk_op_view;
extern const struct vk_op vk_op_transpose, vk_op_expand, vk_op_tile, vk_op_parts, vk_op_shuffle; /* move.c */
extern const struct vk_op vk_op_reduce, vk_op_arg;
extern const struct vk_op vk_op_norm, vk_op_batch_norm, vk_op_lrn;
extern const struct vk_op vk_op_gather, vk_op_one_hot;
extern const struct vk_op vk_op_qproduct, vk_op_quantise, vk_op_dynamic, vk_op_qmean, vk_op_qsoftmax, vk_op_nbits;
extern const struct vk_op vk_op_qsingle, vk_op_qpair, vk_op_qconcat; /* qtable.c */
extern const struct vk_op vk_op_attention;                           /* attention_heads.c */
extern const struct vk_op vk_op_attention_ms, vk_op_attention_multi; /* attention_microsoft.c */
extern const struct vk_op vk_op_attention_group, vk_op_rotary;
extern const struct vk_op vk_op_slice, vk_op_pad, vk_op_resize, vk_op_deconv, vk_op_rnn;

#endif
