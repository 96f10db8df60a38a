/*
 * pool.h - device memory that was freed and waits for its next user: allocating is slow on some drivers, and buckets of shapes come and go.
 * Threads: any.
 */
#ifndef VULKAN_POOL_H
#define VULKAN_POOL_H

#include <pthread.h>

#include "backend/vulkan/loader.h"

#define VK_POOL_ITEMS 64

/* A buffer with its memory, bound and mapped as its kind wants it. */
struct vk_pooled {
    VkBuffer handle;
    VkDeviceMemory memory;
    VkDeviceSize bytes;
    void *mapped;
    bool local;
    unsigned kind; /* enum vk_memory_kind */
};

struct vk_pool {
    pthread_mutex_t lock;
    struct vk_pooled items[VK_POOL_ITEMS];
    uint32_t count;
    uint64_t bytes, most; /* held, and at most; most = 0: everything goes back to the driver */
    uint64_t taken;       /* buffers that found a second user */
};

void vk_pool_init(struct vk_pool *pool, uint64_t most);
/* A buffer of this kind with room for `bytes`, and at most twice as large; false: none. */
bool vk_pool_take(struct vk_pool *pool, unsigned kind, VkDeviceSize bytes, struct vk_pooled *ret_item);
/* False: the pool is full, the caller frees it. */
bool vk_pool_give(struct vk_pool *pool, const struct vk_pooled *item);
/* Frees what it holds. */
void vk_pool_fini(struct vk_pool *pool, const struct vk_functions *vk, VkDevice device);

#endif
