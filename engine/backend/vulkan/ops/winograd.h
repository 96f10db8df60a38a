/*
 * vulkan/ops/winograd.h - convolutions of 3 x 3 by Winograd's F(2x2, 3x3): 16 products for four results instead of 36.
 *
 * Three steps: tiles of the input are transformed (winograd_in), one product for each of the 16 places of a tile (the kernels of grouped convolutions of 1 x 1), and
 * the sums are transformed back (winograd_out). The weights are transformed once, when they are packed. The method: Lavin and Gray, Fast Algorithms for
 * Convolutional Neural Networks (2015).
 * Threads: one-at-a-time (part of a pack, of a build).
 */
#ifndef VULKAN_WINOGRAD_H
#define VULKAN_WINOGRAD_H

#include "backend/vulkan/ops/filter.h"

/* It was asked for (vk_conv=winograd), floats are f32, and this is a convolution it can do: 3 x 3, stride 1, dilation 1, one group, weights that are known. */
bool vk_winograd_takes(const struct vk_pack *p, const struct filter *f);

#define VK_WINOGRAD_SLOT 2 /* packed weight: the transformed filter as [16][in][out padded to 4] */
enum pen_status vk_winograd_pack(struct vk_pack *p, const struct filter *f, const float *weights);

/* weights: the packed cell; bias: VK_CELL_NONE = none, else as products take it. */
void vk_winograd_build(struct vk_build *b, const struct window *w, const struct filter *f, uint32_t weights,
                       uint32_t bias);

#endif
