/*
 * vulkan/ops/map.h - y[i0, i1...] = x[t0[i0], t1[i1]...] of elements of any type, by a table per dim: one dispatch of map.glsl.
 *
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_MAP_H
#define VULKAN_MAP_H

#include "backend/vulkan/op.h"

#define VK_MAP_DIMS 7

struct vk_map {
    int32_t rank;
    size_t size; /* bytes of an element: those of 8 are two words */
    size_t dim[VK_MAP_DIMS], step[VK_MAP_DIMS], at[VK_MAP_DIMS];
    int32_t *table; /* owned by the map until vk_map_dispatch */
    size_t used;
};

void vk_map_init(struct vk_map *m, size_t size);
/* Gives the table of the next dim of y to fill: where in x each of its `out` positions is read, -1 = the value. step: elements of x. NULL without memory. */
int32_t *vk_map_add(struct vk_map *m, size_t out, size_t step);
/* Output 0 from input 0. value: the input that has what stands where a table says -1; UINT32_MAX = 0. Frees the tables. */
void vk_map_dispatch(struct vk_build *b, struct vk_map *m, uint32_t value);

#endif
