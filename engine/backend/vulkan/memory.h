/*
 * memory.h - device memory by use: weights (blocks with a bump allocator), activations (one buffer per exec), staging (mapped), inboxes.
 *
 * Threads: one-at-a-time per object.
 */
#ifndef VULKAN_MEMORY_H
#define VULKAN_MEMORY_H

#include "backend/vulkan/device.h"

enum vk_memory_kind {
    VK_MEMORY_DEVICE,  /* fastest for the device */
    VK_MEMORY_UPLOAD,  /* the host writes, the device reads: mapped, coherent */
    VK_MEMORY_INBOX,   /* the device's: the queue for copies writes, the one that computes reads */
    VK_MEMORY_DOWNLOAD /* the device writes, the host reads: mapped, coherent, cached where there is such a type */
};

struct vk_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    VkDeviceSize bytes, room; /* asked for; there */
    enum vk_memory_kind kind;
    void *mapped; /* NULL for VK_MEMORY_DEVICE and INBOX */
    bool local;   /* it lies in the device's own memory: kernels may work in it */
};

/* A piece of a buffer. */
struct vk_slice {
    VkBuffer buffer;
    VkDeviceSize offset, bytes;
};

/* PEN_ERR_UNSUPPORTED beyond maxMemoryAllocationSize, PEN_ERR_NO_MEMORY when the device has no more. bytes > 0. */
enum pen_status vk_buffer_new(struct vk_device *d, enum vk_memory_kind kind, VkDeviceSize bytes, const char *name,
                              struct vk_buffer *ret_buffer, struct pen_error *reterr);
void vk_buffer_fini(struct vk_device *d, struct vk_buffer *b); /* zeroed is fine */

/* Alignment of a slice that a shader may be given. */
VkDeviceSize vk_slice_align(const struct vk_device *d);

/* ---- blocks: things that are freed together ---- */

#define VK_BLOCK_FIRST ((VkDeviceSize)1 << 20)
#define VK_BLOCK_MOST  ((VkDeviceSize)64 << 20)

struct vk_blocks {
    struct vk_buffer *items;
    uint32_t count, room;
    VkDeviceSize used;  /* of the last block */
    VkDeviceSize bytes; /* of all blocks */
};

/* A slice of a block; a new block (each twice as large as the last, or as large as the slice) when the last has no room. PEN_ERR_UNSUPPORTED when a slice
 * exceeds maxStorageBufferRange. */
enum pen_status vk_blocks_take(struct vk_device *d, struct vk_blocks *b, VkDeviceSize bytes, struct vk_slice *ret_slice,
                               struct pen_error *reterr);
void vk_blocks_fini(struct vk_device *d, struct vk_blocks *b);

/* ---- upload: host bytes into slices through one staging buffer ---- */

struct vk_upload {
    struct vk_device *device;
    struct vk_buffer staging;
    VkDeviceSize used;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore semaphore;
    uint64_t value;
    bool recording;
};

#define VK_STAGING_BYTES ((VkDeviceSize)4 << 20)

enum pen_status vk_upload_init(struct vk_device *d, struct vk_upload *ret_upload, struct pen_error *reterr);
/* Copies data into the slice (padded with zeros to 4 bytes); it is there after vk_upload_flush. */
enum pen_status vk_upload_add(struct vk_upload *u, const struct vk_slice *to, const void *data, size_t bytes,
                              struct pen_error *reterr);
enum pen_status vk_upload_flush(struct vk_upload *u, struct pen_error *reterr); /* submits and waits */
void vk_upload_fini(struct vk_upload *u);                                       /* zeroed is fine */

#endif
