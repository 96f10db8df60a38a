/*
 * vulkan/ops/chain.h - a chain of element-wise steps over inputs that broadcast: one dispatch of elementwise.comp.
 *
 * x starts as input 0; each step makes x from x and perhaps one input more.
 * Threads: one-at-a-time (part of a build).
 */
#ifndef VULKAN_CHAIN_H
#define VULKAN_CHAIN_H

#include "backend/vulkan/op.h"
#include "backend/vulkan/ops/elementwise_codes.h"

struct vk_chain_input {
    uint32_t cell, kind;
    struct shape shape;
};

struct vk_chain {
    struct shape out;
    struct vk_chain_input in[EW_INPUTS_MAX];
    uint32_t in_count;
    uint32_t code[EW_STEPS_MAX];
    float a[EW_STEPS_MAX], b[EW_STEPS_MAX];
    uint32_t step_count;
    bool whole; /* of whole numbers: integer.comp, at most three steps */
    bool full;  /* more inputs or steps than a dispatch has */
};

void vk_chain_init(struct vk_chain *c, const struct shape *out);
/* Its number; the same cell again is the same input. kind: EW_REAL ... */
uint32_t vk_chain_input(struct vk_chain *c, uint32_t cell, const struct shape *shape, uint32_t kind);
/* code: EW_ADD ..., perhaps with EW_SWAP; operand: an input's number for codes that take one. */
void vk_chain_step(struct vk_chain *c, uint32_t code, uint32_t operand, float a, float b);
void vk_chain_act(struct vk_chain *c, const struct vk_act *act);
void vk_chain_dispatch(struct vk_build *b, const struct vk_chain *c, uint32_t y, uint32_t kind);
/* EW_REAL ... of an element type; UINT32_MAX: none. */
uint32_t vk_chain_kind(enum pen_dtype dtype);

#endif
