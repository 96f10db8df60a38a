#include "backend/vulkan/kept.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/vulkan/bound.h"
#include "backend/vulkan/halves.h"

struct backend_kept {
    struct vk_device *device; /* a reference; NULL: its backend has closed */
    struct vk_buffer buffer;
    size_t bytes; /* of the value on the host */
    bool half;    /* it lies here as f16 (halves.h) */
    struct backend_kept *next, *before;
};

/* All of the process: a backend that closes looks for its own. */
static struct {
    pthread_mutex_t lock;
    struct backend_kept *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- copies -------------------------------------------------------------------------------------------------------- */

struct copy {
    VkBuffer from, to;
    VkDeviceSize from_offset, to_offset, bytes;
};

/* What was written before is seen by the copy, and the copy by all that comes after, on the host as well. */
static void copy_record(struct vk_device *d, VkCommandBuffer commands, const struct copy *c)
{
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier before = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                    .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT},
                          after = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                                                    VK_ACCESS_HOST_READ_BIT};
    const VkBufferCopy region = {c->from_offset, c->to_offset, c->bytes};
    d->vk.CmdPipelineBarrier(commands, work, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
    d->vk.CmdCopyBuffer(commands, c->from, c->to, 1, &region);
    d->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, work | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after,
                             0, NULL, 0, NULL);
}

static enum pen_status commands_make(struct vk_device *d, VkCommandPool pool, const struct copy *c,
                                     VkCommandBuffer *ret_commands, struct pen_error *reterr)
{
    const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult result = d->vk.AllocateCommandBuffers(d->handle, &info, ret_commands);
    if (result == VK_SUCCESS) {
        result = d->vk.BeginCommandBuffer(*ret_commands, &begin);
    }
    if (result == VK_SUCCESS) {
        copy_record(d, *ret_commands, c);
        result = d->vk.EndCommandBuffer(*ret_commands);
    }
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "recording a copy", reterr);
}

/* One copy on the device's queue, behind all that was submitted to it; waits for its end. */
static enum pen_status copy_now(struct vk_device *d, const struct copy *c, struct pen_error *reterr)
{
    const VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                          .queueFamilyIndex = d->family};
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    VkResult result = d->vk.CreateCommandPool(d->handle, &info, NULL, &pool);
    if (result != VK_SUCCESS) {
        return vk_fail(result, "vkCreateCommandPool", reterr);
    }
    enum pen_status status = vk_timeline_new(d, &semaphore, reterr);
    if (status == PEN_OK) {
        status = commands_make(d, pool, c, &commands, reterr);
    }
    if (status == PEN_OK) {
        status = vk_submit(d, commands, semaphore, 1, reterr);
    }
    if (status == PEN_OK) {
        status = vk_wait(d, semaphore, 1, UINT64_MAX, reterr);
    }
    if (semaphore != VK_NULL_HANDLE) {
        d->vk.DestroySemaphore(d->handle, semaphore, NULL);
    }
    d->vk.DestroyCommandPool(d->handle, pool, NULL);
    return status;
}

/* That it takes on the device. */
static VkDeviceSize whole_words(const struct backend_kept *kept)
{
    return (vk_halves_bytes(kept->bytes, kept->half) + 3) / 4 * 4;
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static void link_first(struct backend_kept *kept)
{
    pthread_mutex_lock(&all.lock);
    kept->next = all.first;
    if (kept->next != NULL) {
        kept->next->before = kept;
    }
    all.first = kept;
    pthread_mutex_unlock(&all.lock);
}

/* Under the lock. */
static void buffer_drop(struct backend_kept *kept)
{
    if (kept->device != NULL) {
        vk_buffer_fini(kept->device, &kept->buffer);
        vk_device_release(kept->device);
        kept->device = NULL;
    }
}

enum pen_status vk_kept_new(struct exec *exec, uint32_t index, struct backend_kept **ret_kept, struct pen_error *reterr)
{
    struct vk_device *d = exec->weights != NULL ? exec->weights->device : NULL;
    const struct vk_port *port = &exec->out[index];
    const uint32_t last = (exec->oldest + exec->window - 1) % exec->window;
    if (d == NULL || port->known != NULL || port->bytes == 0) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: the output is not in the device's memory");
    }
    struct backend_kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a result");
    }
    kept->bytes = port->bytes;
    kept->half = port->half;
    enum pen_status status = vk_buffer_new(d, VK_MEMORY_DEVICE, whole_words(kept), "a result", &kept->buffer, reterr);
    if (status == PEN_OK) {
        size_t at = 0;
        const struct copy copy = {.from = vk_bound_place(exec, false, port, last, &at).handle,
                                  .from_offset = at,
                                  .to = kept->buffer.handle,
                                  .bytes = whole_words(kept)};
        status = copy_now(d, &copy, reterr);
    }
    if (status != PEN_OK) {
        vk_buffer_fini(d, &kept->buffer);
        free(kept);
        return status;
    }
    kept->device = vk_device_retain(d);
    link_first(kept);
    *ret_kept = kept;
    return PEN_OK;
}

void vk_kept_free(struct backend_kept *kept)
{
    if (kept == NULL) {
        return;
    }
    pthread_mutex_lock(&all.lock);
    if (kept->before != NULL) {
        kept->before->next = kept->next;
    } else {
        PEN_ASSERT(all.first == kept, "a result without one before it is the first of all");
        all.first = kept->next;
    }
    if (kept->next != NULL) {
        kept->next->before = kept->before;
    }
    buffer_drop(kept);
    pthread_mutex_unlock(&all.lock);
    free(kept);
}

void vk_kept_close(const struct vk_instance *in)
{
    pthread_mutex_lock(&all.lock);
    for (struct backend_kept *kept = all.first; kept != NULL; kept = kept->next) {
        if (kept->device != NULL && kept->device->instance == in) {
            buffer_drop(kept);
        }
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- reads --------------------------------------------------------------------------------------------------------- */

static enum pen_status download(struct backend_kept *kept, void *data, struct pen_error *reterr)
{
    struct vk_buffer to = {.handle = VK_NULL_HANDLE};
    struct vk_device *d = kept->device;
    enum pen_status status =
        vk_buffer_new(d, VK_MEMORY_DOWNLOAD, whole_words(kept), "a result's way to the host", &to, reterr);
    if (status == PEN_OK) {
        const struct copy copy = {.from = kept->buffer.handle, .to = to.handle, .bytes = whole_words(kept)};
        status = copy_now(d, &copy, reterr);
    }
    if (status == PEN_OK) {
        vk_halves_get(data, to.mapped, kept->bytes, kept->half);
    }
    vk_buffer_fini(d, &to);
    return status;
}

/* Under the lock. */
static enum pen_status there(const struct backend_kept *kept, size_t bytes, struct pen_error *reterr)
{
    PEN_ASSERT(bytes == kept->bytes, "a result is read with its own size");
    return kept->device != NULL && !atomic_load(&kept->device->lost)
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_DEVICE_LOST,
                               "the result lay in the memory of a Vulkan device that was lost or closed since: run "
                               "the model again, or read results before");
}

enum pen_status vk_kept_read(struct backend_kept *kept, void *data, size_t bytes, struct pen_error *reterr)
{
    pthread_mutex_lock(&all.lock);
    enum pen_status status = there(kept, bytes, reterr);
    if (status == PEN_OK) {
        status = download(kept, data, reterr);
    }
    pthread_mutex_unlock(&all.lock);
    return status;
}

/* From a device to another one, or to an input in another form. */
static enum pen_status carry(struct backend_kept *kept, void *staging, bool half, struct pen_error *reterr)
{
    void *value = malloc(kept->bytes + 1);
    enum pen_status status = value != NULL ? download(kept, value, reterr)
                                           : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a result");
    if (status == PEN_OK) {
        vk_halves_put(staging, value, kept->bytes, half);
    }
    free(value);
    return status;
}

enum pen_status vk_kept_stage(struct backend_kept *kept, struct vk_device *d, const struct vk_buffer *staging,
                              size_t offset, const struct vk_port *port, struct pen_error *reterr)
{
    pthread_mutex_lock(&all.lock);
    enum pen_status status = there(kept, port->bytes, reterr);
    if (status == PEN_OK && kept->device == d && kept->half == port->half) {
        const struct copy copy = {
            .from = kept->buffer.handle, .to = staging->handle, .to_offset = offset, .bytes = whole_words(kept)};
        status = copy_now(d, &copy, reterr);
    } else if (status == PEN_OK) {
        status = carry(kept, (uint8_t *)staging->mapped + offset, port->half, reterr);
    }
    pthread_mutex_unlock(&all.lock);
    return status;
}
