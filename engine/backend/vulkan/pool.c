#include "backend/vulkan/pool.h"

#include "assertion.h"

void vk_pool_init(struct vk_pool *pool, uint64_t most)
{
    *pool = (struct vk_pool){.most = most};
    pthread_mutex_init(&pool->lock, NULL);
}

bool vk_pool_take(struct vk_pool *pool, unsigned kind, VkDeviceSize bytes, struct vk_pooled *ret_item)
{
    uint32_t best = VK_POOL_ITEMS;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct vk_pooled *one = &pool->items[i];
        bool fits = one->kind == kind && one->bytes >= bytes && one->bytes / 2 <= bytes;
        if (fits && (best == VK_POOL_ITEMS || one->bytes < pool->items[best].bytes)) {
            best = i;
        }
    }
    if (best < VK_POOL_ITEMS) {
        *ret_item = pool->items[best];
        pool->items[best] = pool->items[--pool->count];
        PEN_ASSERT(pool->bytes >= ret_item->bytes, "what the pool holds was counted");
        pool->bytes -= ret_item->bytes;
        pool->taken++;
    }
    pthread_mutex_unlock(&pool->lock);
    return best < VK_POOL_ITEMS;
}

bool vk_pool_give(struct vk_pool *pool, const struct vk_pooled *item)
{
    pthread_mutex_lock(&pool->lock);
    bool room = pool->count < VK_POOL_ITEMS && item->bytes <= pool->most && pool->bytes <= pool->most - item->bytes;
    if (room) {
        pool->items[pool->count++] = *item;
        pool->bytes += item->bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    return room;
}

void vk_pool_fini(struct vk_pool *pool, const struct vk_functions *vk, VkDevice device)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        vk->DestroyBuffer(device, pool->items[i].handle, NULL);
        vk->FreeMemory(device, pool->items[i].memory, NULL);
    }
    pool->count = 0;
    pthread_mutex_destroy(&pool->lock);
}
