#include "backend/vulkan/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/backend.h"

#define LOCAL  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define MAPPED (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

/* Wishes of a kind, the best first; every device has a type for the last. Device and host share memory on integrated devices and through a window into a
 * card's memory: then kernels read inputs where the host wrote them. What the host reads must be cached for it. */
#define WISHES 3
static const VkMemoryPropertyFlags wishes[4][WISHES] = {
    [VK_MEMORY_DEVICE] = {LOCAL, 0, 0},
    [VK_MEMORY_INBOX] = {LOCAL, 0, 0},
    [VK_MEMORY_UPLOAD] = {MAPPED | LOCAL, MAPPED, MAPPED},
    [VK_MEMORY_DOWNLOAD] = {MAPPED | CACHED | LOCAL, MAPPED | CACHED, MAPPED},
};

/* Of the types that have all wished flags the one in the largest heap: a small host-visible window into device memory is not for weights. */
static bool type_find(const struct vk_device *d, uint32_t allowed, VkMemoryPropertyFlags flags, uint32_t *ret_type)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
        const VkMemoryType *t = &d->memory.memoryTypes[i];
        if ((allowed & 1u << i) == 0 || (t->propertyFlags & flags) != flags) {
            continue;
        }
        if (best == UINT32_MAX || d->memory.memoryHeaps[t->heapIndex].size >
                                      d->memory.memoryHeaps[d->memory.memoryTypes[best].heapIndex].size) {
            best = i;
        }
    }
    *ret_type = best;
    return best != UINT32_MAX;
}

/* What the heap may still give this process, as others use the device, too; UINT64_MAX where the driver does not tell. */
static uint64_t heap_left(const struct vk_device *d, uint32_t heap)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                             .pNext = &budget};
    if (!d->info.memory_budget) {
        return UINT64_MAX;
    }
    d->instance->vk.GetPhysicalDeviceMemoryProperties2(d->info.handle, &all);
    const uint64_t most = budget.heapBudget[heap], used = budget.heapUsage[heap];
    return most == 0 ? UINT64_MAX : most > used ? most - used : 0;
}

/* Allocates by the best wish that the device grants: a window into its memory may be full. */
static VkResult memory_take(struct vk_device *d, enum vk_memory_kind kind, const VkMemoryRequirements *need,
                            struct vk_buffer *b)
{
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = need->size};
    VkResult result = VK_ERROR_FEATURE_NOT_PRESENT;
    for (int i = 0; i < WISHES && result != VK_SUCCESS; i++) {
        bool again = i > 0 && wishes[kind][i] == wishes[kind][i - 1];
        if (again || !type_find(d, need->memoryTypeBits, wishes[kind][i], &info.memoryTypeIndex)) {
            continue;
        }
        bool fits = need->size <= heap_left(d, d->memory.memoryTypes[info.memoryTypeIndex].heapIndex);
        result = fits ? d->vk.AllocateMemory(d->handle, &info, NULL, &b->memory) : VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    if (result == VK_SUCCESS) {
        b->local = (d->memory.memoryTypes[info.memoryTypeIndex].propertyFlags & LOCAL) != 0;
    }
    return result;
}

static enum pen_status memory_bind(struct vk_device *d, enum vk_memory_kind kind, struct vk_buffer *b,
                                   struct pen_error *reterr)
{
    VkMemoryRequirements need;
    d->vk.GetBufferMemoryRequirements(d->handle, b->handle, &need);
    VkResult result = memory_take(d, kind, &need, b);
    if (result == VK_ERROR_FEATURE_NOT_PRESENT) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: no memory type of the device fits a buffer");
    }
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) {
        atomic_fetch_add(&d->refused, 1);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                             "vulkan: %.100s has no room for %" PRIu64
                             " bytes more within its memory budget: end what else uses it, or load fewer models",
                             d->info.name, (uint64_t)need.size);
    }
    if (result == VK_SUCCESS) {
        result = d->vk.BindBufferMemory(d->handle, b->handle, b->memory, 0);
    }
    if (result == VK_SUCCESS && kind != VK_MEMORY_DEVICE && kind != VK_MEMORY_INBOX) {
        result = d->vk.MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &b->mapped);
    }
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "allocating device memory", reterr);
}

/* One that was freed before. What it held is still there, as undefined as in new memory. */
static bool pooled_take(struct vk_device *d, enum vk_memory_kind kind, VkDeviceSize bytes, struct vk_buffer *ret_buffer)
{
    struct vk_pooled item;
    if (d->pool.most == 0 || !vk_pool_take(&d->pool, kind, bytes, &item)) {
        return false;
    }
    *ret_buffer = (struct vk_buffer){.handle = item.handle,
                                     .memory = item.memory,
                                     .bytes = bytes,
                                     .room = item.bytes,
                                     .kind = kind,
                                     .mapped = item.mapped,
                                     .local = item.local};
    return true;
}

static bool pooled_give(struct vk_device *d, const struct vk_buffer *b)
{
    const struct vk_pooled item = {.handle = b->handle,
                                   .memory = b->memory,
                                   .bytes = b->room,
                                   .mapped = b->mapped,
                                   .local = b->local,
                                   .kind = b->kind};
    return d->pool.most > 0 && b->memory != VK_NULL_HANDLE && vk_pool_give(&d->pool, &item);
}

static void buffer_destroy(struct vk_device *d, const struct vk_buffer *b)
{
    d->vk.DestroyBuffer(d->handle, b->handle, NULL);
    d->vk.FreeMemory(d->handle, b->memory, NULL); /* unmaps too */
    const uint64_t before = atomic_fetch_sub(&d->bytes, b->room);
    const uint64_t all = atomic_fetch_sub(&backend_device_bytes, b->room);
    PEN_ASSERT(before >= b->room && all >= b->room, "a buffer that goes was counted");
}

enum pen_status vk_buffer_new(struct vk_device *d, enum vk_memory_kind kind, VkDeviceSize bytes, const char *name,
                              struct vk_buffer *ret_buffer, struct pen_error *reterr)
{
    struct vk_buffer b = {.bytes = bytes, .room = bytes, .kind = kind};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    const uint32_t families[] = {d->family, d->ferry_family};
    if (d->ferry_family != d->family && (kind == VK_MEMORY_UPLOAD || kind == VK_MEMORY_INBOX)) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    if (bytes > d->max_allocation) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "vulkan: %" PRIu64 " bytes (%s) exceed the device's largest allocation of %" PRIu64,
                             (uint64_t)bytes, name, d->max_allocation);
    }
    if (pooled_take(d, kind, bytes, ret_buffer)) {
        vk_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)(uintptr_t)ret_buffer->handle, name);
        return PEN_OK;
    }
    VkResult result = d->vk.CreateBuffer(d->handle, &info, NULL, &b.handle);
    if (result != VK_SUCCESS) {
        return vk_fail(result, "vkCreateBuffer", reterr);
    }
    enum pen_status status = memory_bind(d, kind, &b, reterr);
    atomic_fetch_add(&d->bytes, bytes);
    atomic_fetch_add(&backend_device_bytes, bytes);
    if (status != PEN_OK) {
        buffer_destroy(d, &b);
        return status;
    }
    vk_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)(uintptr_t)b.handle, name);
    *ret_buffer = b;
    return PEN_OK;
}

void vk_buffer_fini(struct vk_device *d, struct vk_buffer *b)
{
    if (b->handle == VK_NULL_HANDLE) {
        return;
    }
    if (!pooled_give(d, b)) {
        buffer_destroy(d, b);
    }
    *b = (struct vk_buffer){0};
}

VkDeviceSize vk_slice_align(const struct vk_device *d)
{
    VkDeviceSize align = d->limits.minStorageBufferOffsetAlignment;
    return align < 64 ? 64 : align;
}

static enum pen_status block_add(struct vk_device *d, struct vk_blocks *b, VkDeviceSize least, struct pen_error *reterr)
{
    VkDeviceSize bytes = b->count == 0 ? VK_BLOCK_FIRST : 2 * b->items[b->count - 1].bytes;
    bytes = bytes > VK_BLOCK_MOST ? VK_BLOCK_MOST : bytes;
    bytes = bytes > d->max_allocation ? d->max_allocation : bytes;
    bytes = bytes < least ? least : bytes;
    if (b->count == b->room) {
        uint32_t room = b->room == 0 ? 8 : 2 * b->room;
        struct vk_buffer *items = realloc(b->items, room * sizeof *items);
        if (items == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a list of blocks");
        }
        b->items = items;
        b->room = room;
    }
    enum pen_status status = vk_buffer_new(d, VK_MEMORY_DEVICE, bytes, "weights", &b->items[b->count], reterr);
    if (status == PEN_OK) {
        b->count++;
        b->used = 0;
        b->bytes += bytes;
    }
    return status;
}

enum pen_status vk_blocks_take(struct vk_device *d, struct vk_blocks *b, VkDeviceSize bytes, struct vk_slice *ret_slice,
                               struct pen_error *reterr)
{
    VkDeviceSize align = vk_slice_align(d), whole = (bytes + align - 1) / align * align;
    if (bytes > d->limits.maxStorageBufferRange) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "vulkan: a tensor of %" PRIu64 " bytes exceeds the device's buffer range of %u",
                             (uint64_t)bytes, d->limits.maxStorageBufferRange);
    }
    whole = whole == 0 ? align : whole;
    if (b->count == 0 || b->used + whole > b->items[b->count - 1].bytes) {
        enum pen_status status = block_add(d, b, whole, reterr);
        if (status != PEN_OK) {
            return status;
        }
    }
    *ret_slice = (struct vk_slice){b->items[b->count - 1].handle, b->used, (bytes + 3) / 4 * 4};
    b->used += whole;
    PEN_ASSERT(b->used <= b->items[b->count - 1].bytes && ret_slice->offset % align == 0,
               "a slice lies in its block, aligned as the device wants it");
    return PEN_OK;
}

void vk_blocks_fini(struct vk_device *d, struct vk_blocks *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        vk_buffer_fini(d, &b->items[i]);
    }
    free(b->items);
    *b = (struct vk_blocks){0};
}
