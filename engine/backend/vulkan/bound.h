/*
 * vulkan/bound.h - an exec whose inputs and outputs lie in memory that its owner leaves alone (exec_bind): the device takes large ones from there and leaves them
 * there, and the host copies nothing.
 *
 * What is done with staging memory stays the same, in other memory: kernels work in it where it is the device's own, and copies of the run or the ferry begin or end
 * there elsewhere. Floats that the host narrows to f16 (halves.h), small values, and what the device does not take are staged as before.
 * Threads: those of the exec.
 */
#ifndef VULKAN_BOUND_H
#define VULKAN_BOUND_H

#include "backend/vulkan/plan.h"

/* Of an exec that is bound: imports its memory, before command buffers are recorded; again after a loss. Nothing where the device does not take it. */
void vk_bound_settle(struct exec *e);
/* Where the port's value is for the device, in the region of a run: a buffer with its place on the host, and the offset there. */
struct vk_buffer vk_bound_place(const struct exec *e, bool up, const struct vk_port *port, uint32_t region,
                                size_t *ret_offset);

#endif
