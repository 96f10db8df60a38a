/*
 * cm2_tiles.h - family `cm2`: the tiles of its kernels, which of them a device can run, and which one suits a product.
 *
 * Threads: any (pure functions over plain data).
 */
#ifndef VULKAN_CM2_TILES_H
#define VULKAN_CM2_TILES_H

#include "backend/vulkan/kernels.h"

uint32_t vk_cm2_tiles(void);
/* The device's matrices can have its sides, and its self-test did not find it wrong. */
bool vk_cm2_tile_fits(const struct vk_kernels *k, uint32_t number);
/* A product of matrices, or of a batch of matrices that begin at whole eights, and a tile that fits. */
bool vk_cm2_fits(const struct vk_kernels *k, const struct vk_product_shape *shape);
/* asked: 1 + a tile's number, where it fits; 0 = by the rules. busy: workgroups that keep the device busy. The shape fits. */
void vk_cm2_choose(const struct vk_kernels *k, const struct vk_product_shape *shape, uint32_t asked, uint32_t busy,
                   struct vk_choice *choice);
/* "cm2 128x256x64" */
void vk_cm2_tile_text(uint32_t number, char *text, size_t bytes);

#endif
