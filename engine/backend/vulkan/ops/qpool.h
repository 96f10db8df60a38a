/*
 * vulkan/ops/qpool.h - pools of bytes. pool.c asks here first.
 *
 * Threads: takes any; the rest one-at-a-time (part of a build).
 */
#ifndef VULKAN_QPOOL_H
#define VULKAN_QPOOL_H

#include "backend/vulkan/op.h"
#include "backend/window.h"

/* MaxPool of bytes without indices? */
bool vk_qpool_takes(const struct graph *g, const struct node *n);
void vk_qpool_largest(struct vk_build *b, const struct window *w);

#endif
