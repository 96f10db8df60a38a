/*
 * vulkan/range.h - weights that f16 cannot hold: beyond 65504 they become infinite, below 5.96e-8 (the smallest subnormal) they become zero.
 *
 * Threads: any (pure).
 */
#ifndef VULKAN_RANGE_H
#define VULKAN_RANGE_H

#include "backend/backend.h"

enum vk_range_policy { VK_RANGE_KEEP, VK_RANGE_REFUSE };
/* "keep" (NULL too) or "refuse"; false when it is neither. */
bool vk_range_read(const char *name, enum vk_range_policy *ret_policy);

/*
 * A constant of the node is out of range. Small ones count only where they are multiplied, in the weights of products and recurrent cells; an epsilon may well be 0.
 * Of a product's output only where its largest weight is below 2^-13: else that one's rounding moves the output by more than what is lost. A mask
 * (vk_range_mask) is none: it may be any number that is far below all scores.
 */
bool vk_range_outside(const struct graph *g, const struct node *n);
/* The node's kernel can keep its constants as f32. */
bool vk_range_keeps(const struct graph *g, const struct node *n);
/* Finite numbers of it are beyond f16. */
bool vk_range_large(const float *items, size_t count);

/*
 * All that becomes of the value is added to scores, or stands in their place, before a soft-max: of a number such as -3.4e38 only its being far below all scores
 * counts, and VK_RANGE_MASK means the same. It is half of the largest f16, so that a score and a mask have a sum.
 */
bool vk_range_mask(const struct graph *g, uint32_t value);
#define VK_RANGE_MASK 32752.0f

/* The layers found, for people: the first names, and how many there are. */
struct vk_range_note {
    uint32_t layers, named;
    char names[256];
};
void vk_range_add(struct vk_range_note *note, const struct node *n);
/* "conv1, conv2 and 3 more" */
void vk_range_text(const struct vk_range_note *note, char *text, size_t bytes);

#endif
