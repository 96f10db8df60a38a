#include "backend/vulkan/ferry.h"

#include "assertion.h"
#include "backend/vulkan/halves.h"

#define LEAST                                                                                                          \
    ((size_t)64                                                                                                        \
     << 10) /* bytes of a run's inputs: below them a submit more costs what the copy beside the run before saves */

static bool wanted(const struct exec *e)
{
    const struct vk_device *d = e->weights->device;
    switch (e->plan->backend->config.vulkan.upload_queue) {
    case PEN_UPLOAD_OFF:
        return false;
    case PEN_UPLOAD_ALWAYS:
        return true;
    default:
        return d->ferry_family != d->family && e->window > 1 && !e->staging_in.local && e->stride_in >= LEAST;
    }
}

/* The whole region in one copy, unless some of it is elsewhere. */
static void copies_add(const struct exec *e, uint32_t place)
{
    const struct vk_device *d = e->weights->device;
    const VkCommandBuffer commands = e->ferry.commands[place];
    const VkDeviceSize from = place * e->stride_in;
    const VkBufferCopy region = {from, from, e->stride_in};
    if (e->import.handle == VK_NULL_HANDLE) {
        d->vk.CmdCopyBuffer(commands, e->staging_in.handle, e->ferry.inbox.handle, 1, &region);
        return;
    }
    for (uint32_t i = 0; i < e->plan->part.in_count; i++) {
        const struct vk_port *port = &e->in[i];
        const VkDeviceSize bytes = (vk_halves_bytes(port->bytes, port->half) + 3) / 4 * 4;
        const VkBufferCopy copy = {port->imported ? port->imported_at : from + port->offset, from + port->offset,
                                   bytes};
        if (port->known == NULL && bytes > 0) {
            d->vk.CmdCopyBuffer(commands, port->imported ? e->import.handle : e->staging_in.handle,
                                e->ferry.inbox.handle, 1, &copy);
        }
    }
}

/* One command buffer for each place of the ring. */
static VkResult copies_record(struct exec *e)
{
    const struct vk_device *d = e->weights->device;
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = e->ferry.pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = e->window};
    VkResult result = d->vk.AllocateCommandBuffers(d->handle, &info, e->ferry.commands);
    for (uint32_t i = 0; i < e->window && result == VK_SUCCESS; i++) {
        result = d->vk.BeginCommandBuffer(e->ferry.commands[i], &begin);
        if (result == VK_SUCCESS) {
            copies_add(e, i);
            result = d->vk.EndCommandBuffer(e->ferry.commands[i]);
        }
    }
    return result;
}

enum pen_status vk_ferry_record(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = d->ferry_family};
    if (e->ferry.inbox.handle == VK_NULL_HANDLE) {
        return PEN_OK;
    }
    PEN_ASSERT(e->ferry.value == 0, "nothing was sent by the copies that are recorded again");
    d->vk.DestroyCommandPool(d->handle, e->ferry.pool, NULL);
    e->ferry.pool = VK_NULL_HANDLE;
    VkResult result = d->vk.CreateCommandPool(d->handle, &pool, NULL, &e->ferry.pool);
    if (result == VK_SUCCESS) {
        result = copies_record(e);
    }
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "recording copies of inputs", reterr);
}

enum pen_status vk_ferry_make(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    const size_t bytes = e->window * e->stride_in;
    if (!wanted(e)) {
        return PEN_OK;
    }
    if (!allowance_take(e->env->allowance, bytes)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "vulkan: inputs need %zu bytes on the device, above the budget",
                             bytes);
    }
    enum pen_status status = vk_timeline_new(d, &e->ferry.semaphore, reterr);
    return status == PEN_OK ? vk_buffer_new(d, VK_MEMORY_INBOX, bytes, "inputs on the device", &e->ferry.inbox, reterr)
                            : status;
}

enum pen_status vk_ferry_send(struct exec *e, struct vk_run *run, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    if (e->ferry.inbox.handle == VK_NULL_HANDLE) {
        return PEN_OK;
    }
    const struct vk_submission way = {.queue = d->ferry_queue,
                                      .commands = e->ferry.commands[run - e->runs],
                                      .semaphore = e->ferry.semaphore,
                                      .value = e->ferry.value + 1};
    enum pen_status status = vk_submit_to(d, &way, reterr);
    if (status == PEN_OK) {
        run->ferried = ++e->ferry.value;
        atomic_fetch_add(&d->ferried, 1);
    }
    return status;
}

void vk_ferry_settle(struct exec *e, const struct vk_run *run)
{
    if (run->ferried > 0) {
        PEN_ASSERT(run->ferried <= e->ferry.value, "what is waited for was sent");
        vk_wait(e->weights->device, e->ferry.semaphore, run->ferried, UINT64_MAX, NULL);
    }
}

struct vk_buffer *vk_ferry_end(struct exec *e)
{
    return e->ferry.inbox.handle != VK_NULL_HANDLE ? &e->ferry.inbox : &e->staging_in;
}

/* Debian 12's lavapipe looks at a semaphore that a submit has waited for once more after that submit has told its own end. */
static void laggards_wait(struct vk_device *d)
{
    if (vk_device_software(&d->info)) {
        pthread_mutex_lock(&d->queue_lock);
        d->vk.DeviceWaitIdle(d->handle);
        pthread_mutex_unlock(&d->queue_lock);
    }
}

void vk_ferry_fini(struct exec *e)
{
    struct vk_device *d = e->weights->device;
    if (e->ferry.semaphore != VK_NULL_HANDLE && e->ferry.value > 0) {
        vk_wait(d, e->ferry.semaphore, e->ferry.value, UINT64_MAX, NULL);
        laggards_wait(d);
    }
    d->vk.DestroyCommandPool(d->handle, e->ferry.pool, NULL);
    d->vk.DestroySemaphore(d->handle, e->ferry.semaphore, NULL);
    vk_buffer_fini(d, &e->ferry.inbox);
}
