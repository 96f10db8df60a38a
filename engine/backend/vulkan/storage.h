/*
 * storage.h - which nodes keep their floats in f32 where the device stores floats as f16.
 *
 * A node is *wide* when its inputs, weights, temporaries and outputs are f32; a value between a wide node and another is converted once. Which nodes are is found
 * by trial, once per plan, when it is made (open dims get usual sizes; where sizes follow from data, by the first exec): the partition runs on seeded inputs with all
 * nodes wide and with none; where an output deviates by more than a share of the bound for whole models, first the spelled-out functions and statistics are made wide,
 * then as many nodes from the inputs on as it takes: every later layer amplifies what an early one rounds, and early layers have few weights. Where that takes all of
 * them, pieces are tried one by one (storage_pieces.h), if enough numbers are compared. What was found is kept beside the model (storage_memo.h).
 * Threads: open as plan_new; settle: any.
 */
#ifndef VULKAN_STORAGE_H
#define VULKAN_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

enum vk_storage_state {
    VK_STORAGE_AS_IS,   /* no trial: f32, or asked not to */
    VK_STORAGE_OPEN,    /* the first exec tries: shapes at the partition's boundary follow from data */
    VK_STORAGE_UNTRIED, /* it could not run on seeded inputs, or there was no memory for it in f32: all f16 */
    VK_STORAGE_SETTLED
};

struct vk_storage {
    enum vk_storage_state state;
    uint32_t nodes, wide;      /* with floats */
    uint64_t bytes, bytes_f16; /* of weights and outputs; those stored as f16 */
    double before, after;      /* largest deviation, 1.0 = the bound for whole models: without wide nodes, with these */
    char why[200];             /* UNTRIED */
};

/* Tries now where the shapes of the partition's inputs and outputs are known once open dims have a size, else leaves it to the first exec. */
enum pen_status vk_storage_open(struct plan *plan, struct pen_error *reterr);
/* Tries for these shapes if that is still open; the plan's weights are then made anew. */
enum pen_status vk_storage_settle(struct plan *plan, const struct shape_env *env, struct pen_error *reterr);
/* "f32 for 12 of 72 nodes, 94 % of bytes are f16: deviation 0.3 of the bound, was 1.7" behind `before`, or why nothing was tried yet or at all; nothing when all is as it was
 * asked for. */
void vk_storage_text(const struct vk_storage *s, char *text, size_t bytes, const char *before);

#endif
