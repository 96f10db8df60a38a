/*
 * vulkan/ferry.h - inputs on their way to a device through a queue of its own for copies, while the queue that computes is busy with the run before.
 *
 * Each place of an exec's ring has a region of a buffer in the device's memory, the inbox. A run's inputs go from its staging region there in one copy; its first
 * command buffer waits for that, and kernels read the inbox. Not where staging memory lies in the device's own: there nothing is copied at all.
 * Threads: those of the exec.
 */
#ifndef VULKAN_FERRY_H
#define VULKAN_FERRY_H

#include "backend/vulkan/plan.h"

/* After the staging buffers, before anything else of the exec. Nothing where it is not wanted: then the exec has no inbox. */
enum pen_status vk_ferry_make(struct exec *e, struct pen_error *reterr);
/* Its copies, once it is known where inputs lie (bound.h); again when that has changed. Nothing without an inbox. */
enum pen_status vk_ferry_record(struct exec *e, struct pen_error *reterr);
/* The run's inputs, which lie in its staging region or are imported, are sent. Nothing without an inbox. */
enum pen_status vk_ferry_send(struct exec *e, struct vk_run *run, struct pen_error *reterr);
/* Waits until nothing of the run's inputs is on its way: when its first command buffer was never submitted, nobody else has. */
void vk_ferry_settle(struct exec *e, const struct vk_run *run);
/* The buffer that kernels find inputs in or copies take them from: the inbox, or the staging buffer. */
struct vk_buffer *vk_ferry_end(struct exec *e);
void vk_ferry_fini(struct exec *e);

#endif
