/*
 * vulkan/kept.h - results that stay in the device's memory beyond their run: inputs of later runs, or read when somebody asks.
 *
 * Each has a buffer of its own. It holds its device; a backend that closes takes the buffers of all that are left, which can only be freed then.
 * Threads: any.
 */
#ifndef VULKAN_KEPT_H
#define VULKAN_KEPT_H

#include "backend/vulkan/plan.h"

/* Output `index` of the run that was waited for last. PEN_ERR_UNSUPPORTED: it is known without a run, or has no bytes. */
enum pen_status vk_kept_new(struct exec *exec, uint32_t index, struct backend_kept **ret_kept,
                            struct pen_error *reterr);
/* PEN_ERR_DEVICE_LOST: its device was lost, or its backend closed. bytes: those of the value. */
enum pen_status vk_kept_read(struct backend_kept *kept, void *data, size_t bytes, struct pen_error *reterr);
void vk_kept_free(struct backend_kept *kept); /* NULL is fine */

/* Into the place of an input, at `offset` of a staging buffer: on the device where both lie there in the same form, else through the host. */
enum pen_status vk_kept_stage(struct backend_kept *kept, struct vk_device *d, const struct vk_buffer *staging,
                              size_t offset, const struct vk_port *port, struct pen_error *reterr);

/* The backend of this instance closes. */
void vk_kept_close(const struct vk_instance *in);

#endif
