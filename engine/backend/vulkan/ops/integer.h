/*
 * vulkan/ops/integer.h - element-wise operators over whole numbers: exact, in a shader of their own. elementwise.c asks here first.
 *
 * Threads: supports any; build one-at-a-time (part of a build).
 */
#ifndef VULKAN_INTEGER_H
#define VULKAN_INTEGER_H

#include "backend/vulkan/op.h"

/* Is this node of whole numbers: numbers that are computed with, or cast, are i8, u8, i32, u32, i64, u64 or bool on both sides, and not all bool? */
bool vk_integer_takes(const struct graph *g, const struct node *n);
bool vk_integer_supports(const struct graph *g, const struct node *n, const char **ret_reason);
void vk_integer_build(struct vk_build *b);

#endif
