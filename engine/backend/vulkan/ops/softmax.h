/*
 * vulkan/ops/softmax.h - rows of a tensor along one axis: also what a loss and attention are made of.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_SOFTMAX_H
#define VULKAN_SOFTMAX_H

#include "backend/vulkan/op.h"

/* y = softmax of x, or its logarithm, along `axis`; both cells of this shape, not empty. */
void vk_softmax_rows(struct vk_build *b, uint32_t y, uint32_t x, const struct shape *shape, int32_t axis,
                     bool logarithm);
/* The same along the last axis; a row of minus infinity becomes 0. */
void vk_softmax_shares(struct vk_build *b, uint32_t y, uint32_t x, const struct shape *shape);

#endif
