/*
 * vulkan/debug.h - what a backend that is being debugged measures and checks on the device: times of nodes, NaN and infinity at the node that makes them.
 *
 * Both cost: with times every work waits for the one before, with numerics nodes are not joined into one dispatch.
 * Threads: one-at-a-time per exec.
 */
#ifndef VULKAN_DEBUG_H
#define VULKAN_DEBUG_H

#include "backend/vulkan/plan.h"

bool vk_debug_timed(const struct exec *e); /* the config says profile, and the queue counts time */
/* Queries and host memory for `work_count` works; before they are recorded. */
enum pen_status vk_debug_times_new(struct exec *e, struct pen_error *reterr);
/* In front of the works [first, next) of a command buffer, and behind each of them. Nothing where times are not taken. */
void vk_debug_begin(struct exec *e, VkCommandBuffer commands, uint32_t chunk, uint32_t first);
void vk_debug_stamp(struct exec *e, VkCommandBuffer commands, uint32_t chunk, uint32_t work);
/* backend_ops. The queries of the last run. */
void vk_exec_times(const struct exec *e, void (*say)(void *context, uint32_t index, uint64_t ns), void *context);

/* backend_ops. The shaders of each node: one line where works of several are joined. */
void vk_exec_kernels(const struct exec *e,
                     void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context);

/* Room for what is found, for every node. Nothing where the config does not say check_numerics. */
enum pen_status vk_debug_numerics_new(struct exec *e, struct pen_error *reterr);
/* Adds the works that look at the outputs of the node just built. */
void vk_debug_numerics_add(struct vk_build *b);
void vk_debug_numerics_clear(struct exec *e); /* before a run */
enum pen_status vk_debug_numerics_check(const struct exec *e,
                                        struct pen_error *reterr); /* behind it: PEN_ERR_INVALID with the first node */
/* Of an exec that notes it: the largest |x| that the partition's node `index` made in the last run; INFINITY where that was not finite. */
float vk_debug_largest(const struct exec *e, uint32_t index);
void vk_debug_fini(struct exec *e); /* zeroed is fine */

#endif
