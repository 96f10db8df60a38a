#include "backend/vulkan/import.h"

#include <unistd.h>

#include "assertion.h"

#define HANDLE_TYPE VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
#define LOCAL       VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define COHERENT    (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

/* Nobody flushes: host and device must see each other's writes. The device's own memory wins. */
static bool type_find(const struct vk_device *d, uint32_t allowed, uint32_t *ret_type)
{
    bool found = false;
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = d->memory.memoryTypes[i].propertyFlags;
        const bool fits = (allowed & 1u << i) != 0 && (flags & COHERENT) == COHERENT;
        if (fits && (!found || (flags & LOCAL) != 0)) {
            *ret_type = i;
            found = true;
        }
    }
    return found;
}

static VkResult buffer_make(struct vk_device *d, struct vk_import *m)
{
    const uint32_t families[] = {d->family, d->ferry_family};
    const bool shared = d->ferry_family != d->family;
    const VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                       .handleTypes = HANDLE_TYPE};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .pNext = &external,
                                     .size = m->bytes,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                                     .sharingMode = shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
                                     .queueFamilyIndexCount = shared ? 2 : 0,
                                     .pQueueFamilyIndices = families};
    return d->vk.CreateBuffer(d->handle, &info, NULL, &m->handle);
}

static VkResult memory_take(struct vk_device *d, struct vk_import *m)
{
    VkMemoryHostPointerPropertiesEXT may = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements need;
    uint32_t type = 0;
    VkResult result = d->vk.GetMemoryHostPointerPropertiesEXT(d->handle, HANDLE_TYPE, m->pages, &may);
    d->vk.GetBufferMemoryRequirements(d->handle, m->handle, &need);
    if (result != VK_SUCCESS) {
        return result;
    }
    if (need.size > m->bytes || !type_find(d, need.memoryTypeBits & may.memoryTypeBits, &type)) {
        return VK_ERROR_FEATURE_NOT_PRESENT;
    }
    const VkImportMemoryHostPointerInfoEXT from = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                   .handleType = HANDLE_TYPE,
                                                   .pHostPointer = m->pages};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &from,
                                       .allocationSize = m->bytes,
                                       .memoryTypeIndex = type};
    m->local = (d->memory.memoryTypes[type].propertyFlags & LOCAL) != 0;
    result = d->vk.AllocateMemory(d->handle, &info, NULL, &m->memory);
    return result == VK_SUCCESS ? d->vk.BindBufferMemory(d->handle, m->handle, m->memory, 0) : result;
}

bool vk_import_new(struct vk_device *d, void *data, size_t bytes, struct vk_import *ret_import)
{
    const long page = sysconf(_SC_PAGESIZE);
    const uint64_t align = d->import_align;
    if (align == 0 || page <= 0 || align > (uint64_t)page || bytes == 0) {
        return false; /* what lies beside our pages is not ours to import */
    }
    const uintptr_t whole = (uintptr_t)page, first = (uintptr_t)data / whole * whole,
                    end = ((uintptr_t)data + bytes + whole - 1) / whole * whole;
    struct vk_import m = {.pages = (uint8_t *)data - ((uintptr_t)data - first), .bytes = end - first};
    if (m.bytes > d->max_allocation) {
        return false;
    }
    VkResult result = buffer_make(d, &m);
    if (result == VK_SUCCESS) {
        result = memory_take(d, &m);
    }
    if (result != VK_SUCCESS) {
        vk_import_fini(d, &m);
        return false;
    }
    vk_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)(uintptr_t)m.handle, "memory of the host");
    *ret_import = m;
    return true;
}

void vk_import_fini(struct vk_device *d, struct vk_import *m)
{
    d->vk.DestroyBuffer(d->handle, m->handle, NULL);
    d->vk.FreeMemory(d->handle, m->memory, NULL);
    *m = (struct vk_import){0};
}
