/*
 * vulkan/ops/qresize.h - Resize of what is no float: bytes in fixed point, and nearest neighbours of any type. resize.c asks here first.
 *
 * Threads: takes any; build one-at-a-time (part of a build).
 */
#ifndef VULKAN_QRESIZE_H
#define VULKAN_QRESIZE_H

#include "backend/vulkan/op.h"

/* Is it TFLite's bilinear resize of bytes? */
bool vk_qresize_takes(const struct graph *g, const struct node *n);
void vk_qresize_build(struct vk_build *b);

#endif
