/*
 * seen.h - the products that execs bring: the largest of each class is what the tuner measures (tune.h).
 *
 * Threads: any.
 */
#ifndef VULKAN_SEEN_H
#define VULKAN_SEEN_H

#include "backend/backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/window.h"

/* Codes of few bits, in blocks that share a scale. */
struct vk_coding {
    uint32_t bits, block;
};

/* The largest product seen of a class. */
struct vk_seen {
    uint64_t macs; /* 0: none */
    struct vk_product_shape shape;
    struct window window; /* not of a batch, nor of codes */
    struct vk_coding coding;
};

/* Notes it on the backend, unless the tuner is measuring. window: NULL for a batch of matrices, and for codes; coding: NULL but for these. */
void vk_seen_add(struct backend *b, const struct vk_product_shape *shape, const struct window *window,
                 const struct vk_coding *coding);

#endif
