/*
 * storage_memo.h - what a trial of f16 has found, kept beside the model (graph/memo.h), so that the next start tries nothing.
 *
 * Threads: as storage.h, under the plan's lock.
 */
#ifndef VULKAN_STORAGE_MEMO_H
#define VULKAN_STORAGE_MEMO_H

#include <stdbool.h>

#include "backend/backend.h"

/* True: the plan's wide nodes and its storage's deviations are those that an earlier trial of the same nodes, shapes, device, driver and options found. */
bool vk_storage_recall(struct plan *plan, const struct shape_env *env);
/* Keeps what a trial has found; where it cannot be kept the next start tries again. */
void vk_storage_keep(const struct plan *plan, const struct shape_env *env);

#endif
