/*
 * vulkan/ops/attention_cm.h - attention by cooperative matrices: whether it suits, in which tiles, and what its kernel is told besides.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_ATTENTION_CM_H
#define VULKAN_ATTENTION_CM_H

#include "backend/vulkan/ops/attention.h"

/* Of a workgroup: the constants of attention_cm.glsl. */
struct vk_attention_cm {
    struct vk_matrix_size matrices; /* rows 0: plain loops in their place */
    uint32_t subgroup;              /* invocations of one, or of what stands in */
    uint32_t parts;                 /* subgroups, of 16 rows each */
    uint32_t keys;                  /* of a block */
    uint32_t depth, columns;        /* of queries and keys; of values */
    uint32_t eights;                /* bits: sides whose rows are whole eights */
    bool always;                    /* sums leave at each block */
};

/* False: the attention is none for matrices, or the device, the precision or the rules have none for it. */
bool vk_attention_cm_choose(const struct vk_build *b, const struct vk_attention *a, struct vk_attention_cm *ret);
/* Workgroups in each dimension. */
void vk_attention_cm_grid(const struct vk_attention *a, const struct vk_attention_cm *c, size_t ret_groups[3]);
/* The constants behind those that all kernels of attention share. */
void vk_attention_cm_specs(struct vk_work *w, const struct vk_attention_cm *c);

#endif
