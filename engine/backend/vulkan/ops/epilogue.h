/*
 * vulkan/ops/epilogue.h - what a product computes with its results before they leave: a bias, an activation, a residual, which the graph has as nodes behind it.
 *
 * A product whose only reader can be computed so waits for it, as element-wise nodes wait for theirs; the last of the nodes builds the product. None hides a value that
 * somebody else reads.
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_EPILOGUE_H
#define VULKAN_EPILOGUE_H

#include "backend/vulkan/ops/product.h"

struct vk_epilogue {
    bool bias;   /* there is one */
    bool packed; /* packed weight VK_EPILOGUE_BIAS is the bias that the next node adds */
    struct vk_act act;
    enum vk_residual adds;
    uint32_t residual, y; /* cells */
};
#define VK_EPILOGUE_BIAS 1

/* Does the product wait for its reader? Then it has been deferred, and is built again with b->epilogue. bias: it has one of its own. */
bool vk_epilogue_waits(struct vk_build *b, bool bias);
/* Into the product: y, bias, activation and residual. */
void vk_epilogue_apply(struct vk_build *b, struct vk_product *p);

/* The nodes begin with a product that waits. */
bool vk_epilogue_first(const struct node *first);
/* Can `next` be computed with nodes[0] (a product) to nodes[count - 1]? */
bool vk_epilogue_takes(const struct vk_build *b, const struct node *const *nodes, uint32_t count,
                       const struct node *next);
/* The product with the nodes behind it; b->n is the last of them. */
void vk_epilogue_build(struct vk_build *b, const struct node *const *nodes, uint32_t count);
/* pack: the constant that the only reader of node n, a MatMul or MatMulNBits, adds to each row, `outs` of them; NULL: there is none. */
const struct value *vk_epilogue_bias(const struct graph *g, const struct node *n, size_t outs);

#endif
