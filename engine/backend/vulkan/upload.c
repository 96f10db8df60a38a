#include "backend/vulkan/memory.h"

#include <string.h>

#include "assertion.h"

enum pen_status vk_upload_init(struct vk_device *d, struct vk_upload *ret_upload, struct pen_error *reterr)
{
    struct vk_upload u = {.device = d};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = d->family};
    VkResult result = d->vk.CreateCommandPool(d->handle, &pool, NULL, &u.pool);
    if (result == VK_SUCCESS) {
        VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = u.pool,
                                                .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                .commandBufferCount = 1};
        result = d->vk.AllocateCommandBuffers(d->handle, &commands, &u.commands);
    }
    enum pen_status status = result == VK_SUCCESS ? PEN_OK : vk_fail(result, "making a command buffer", reterr);
    if (status == PEN_OK) {
        status = vk_timeline_new(d, &u.semaphore, reterr);
    }
    if (status == PEN_OK) {
        status = vk_buffer_new(d, VK_MEMORY_UPLOAD, VK_STAGING_BYTES, "staging of weights", &u.staging, reterr);
    }
    if (status != PEN_OK) {
        vk_upload_fini(&u);
        return status;
    }
    *ret_upload = u;
    return PEN_OK;
}

static enum pen_status begin(struct vk_upload *u, struct pen_error *reterr)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = u->recording ? VK_SUCCESS : u->device->vk.BeginCommandBuffer(u->commands, &info);
    u->recording = result == VK_SUCCESS;
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkBeginCommandBuffer", reterr);
}

enum pen_status vk_upload_add(struct vk_upload *u, const struct vk_slice *to, const void *data, size_t bytes,
                              struct pen_error *reterr)
{
    const uint8_t *from = data;
    size_t done = 0;
    PEN_ASSERT(bytes <= to->bytes && to->offset % 4 == 0, "what is uploaded fits its slice");
    while (done < bytes) {
        if (u->used + 4 > u->staging.bytes) {
            enum pen_status status = vk_upload_flush(u, reterr);
            if (status != PEN_OK) {
                return status;
            }
        }
        size_t room = (size_t)(u->staging.bytes - u->used);
        size_t part = bytes - done < room ? bytes - done : room;
        size_t whole = (part + 3) / 4 * 4; /* staging and slices are multiples of 4 */
        uint8_t *at = (uint8_t *)u->staging.mapped + u->used;
        memset(at + whole - 4, 0, 4);
        memcpy(at, from + done, part);
        enum pen_status status = begin(u, reterr);
        if (status != PEN_OK) {
            return status;
        }
        VkBufferCopy copy = {.srcOffset = u->used, .dstOffset = to->offset + done, .size = whole};
        u->device->vk.CmdCopyBuffer(u->commands, u->staging.handle, to->buffer, 1, &copy);
        u->used += whole;
        PEN_ASSERT(u->used <= u->staging.bytes && u->used % 4 == 0, "what is staged lies in the staging buffer");
        done += part;
    }
    return PEN_OK;
}

enum pen_status vk_upload_flush(struct vk_upload *u, struct pen_error *reterr)
{
    if (!u->recording) {
        return PEN_OK;
    }
    u->recording = false;
    u->used = 0;
    VkResult result = u->device->vk.EndCommandBuffer(u->commands);
    if (result != VK_SUCCESS) {
        return vk_fail(result, "vkEndCommandBuffer", reterr);
    }
    enum pen_status status = vk_submit(u->device, u->commands, u->semaphore, u->value + 1, reterr);
    if (status == PEN_OK) {
        u->value++;
        status = vk_wait(u->device, u->semaphore, u->value, UINT64_MAX, reterr);
    }
    return status;
}

void vk_upload_fini(struct vk_upload *u)
{
    struct vk_device *d = u->device;
    if (d == NULL) {
        return;
    }
    vk_buffer_fini(d, &u->staging);
    if (u->semaphore != VK_NULL_HANDLE) {
        d->vk.DestroySemaphore(d->handle, u->semaphore, NULL);
    }
    if (u->pool != VK_NULL_HANDLE) {
        d->vk.DestroyCommandPool(d->handle, u->pool, NULL);
    }
    *u = (struct vk_upload){0};
}
