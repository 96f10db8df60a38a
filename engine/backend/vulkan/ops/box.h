/*
 * vulkan/ops/box.h - a box of elements from one strided place to another: what all data movement is made of.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_BOX_H
#define VULKAN_BOX_H

#include "backend/vulkan/op.h"

struct vk_box {
    int32_t rank;
    size_t dim[PEN_MAX_RANK];
    int64_t x_step[PEN_MAX_RANK]; /* elements; 0 repeats, negative goes backwards */
    int64_t y_step[PEN_MAX_RANK];
    size_t x_at, y_at;
};

/* Steps of a dense tensor along each dim. */
void vk_dense_steps(const struct shape *s, int64_t *steps);
/* size: bytes of an element on the device (vk_element_bytes). Nothing for an empty box. */
void vk_box_copy(struct vk_build *b, const struct vk_box *box, uint32_t y, uint32_t x, size_t size);
/* 1, 2, 4 or 8; 0: elements smaller than a byte, or none of these. */
size_t vk_element_bytes(const struct vk_build *b, enum pen_dtype dtype);
bool vk_movable(enum pen_dtype dtype);

#endif
