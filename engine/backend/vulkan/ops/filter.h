/*
 * vulkan/ops/filter.h - the weights of a convolution in the packed form that products read.
 *
 * Threads: any (pure); repack one-at-a-time (part of a build).
 */
#ifndef VULKAN_FILTER_H
#define VULKAN_FILTER_H

#include "backend/filter.h"
#include "backend/vulkan/op.h"
#include "backend/window.h"

bool vk_filter_depthwise(const struct filter *f); /* one channel in, one out per group */
/* Elements of the packed form [group][k][o padded to 4]; a depthwise filter is one group of one input channel. */
size_t vk_filter_packed(const struct filter *f);
void vk_filter_pack(const struct filter *f, const float *weights, float scale, float *packed);
/* The same on the device, for weights that are computed: gives the cell. */
uint32_t vk_filter_repack(struct vk_build *b, const struct filter *f, uint32_t weights, float scale);

#endif
