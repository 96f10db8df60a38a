#include "backend/vulkan/debug.h"

#include <stdio.h>
#include <stdlib.h>

#include "assertion.h"

/* A long submit looks like a hang to a driver; a cancel is seen between submits. */
static uint32_t works_per_submit(const struct exec *e)
{
    uint32_t asked = e->plan->backend->config.vulkan.nodes_per_submit;
    return asked > 0 ? asked : 256;
}

static enum pen_status pools_make(struct exec *e, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    uint32_t bindings = 0;
    for (uint32_t i = 0; i < e->work_count; i++) {
        bindings += e->works[i].key.bindings;
    }
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, e->window * bindings + 1};
    VkDescriptorPoolCreateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = e->window * e->work_count + 1,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    VkCommandPoolCreateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = d->family};
    VkResult result = d->vk.CreateDescriptorPool(d->handle, &sets, NULL, &e->descriptors);
    if (result == VK_SUCCESS) {
        result = d->vk.CreateCommandPool(d->handle, &commands, NULL, &e->pool);
    }
    return result == VK_SUCCESS ? vk_timeline_new(d, &e->semaphore, reterr)
                                : vk_fail(result, "making pools of an exec", reterr);
}

static enum pen_status set_make(struct exec *e, const struct vk_work *w, const struct vk_pipeline *pipeline,
                                VkDescriptorSet *ret_set, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = e->descriptors,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &pipeline->set_layout};
    VkDescriptorBufferInfo buffers[VK_BINDINGS_MAX];
    VkWriteDescriptorSet writes[VK_BINDINGS_MAX];
    VkResult result = d->vk.AllocateDescriptorSets(d->handle, &info, ret_set);
    if (result != VK_SUCCESS) {
        return vk_fail(result, "vkAllocateDescriptorSets", reterr);
    }
    for (uint32_t i = 0; i < w->key.bindings; i++) {
        struct vk_slice s = vk_cell_slice(e, w->cells[i]);
        buffers[i] = (VkDescriptorBufferInfo){s.buffer, s.offset, s.bytes};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = *ret_set,
                                           .dstBinding = i,
                                           .descriptorCount = 1,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .pBufferInfo = &buffers[i]};
    }
    d->vk.UpdateDescriptorSets(d->handle, w->key.bindings, writes, 0, NULL);
    return PEN_OK;
}

/* The first run's set serves the others unless the work reads or writes the boundary, which lies elsewhere for each. */
static enum pen_status set_get(struct exec *e, const struct vk_work *w, const struct vk_pipeline *pipeline,
                               VkDescriptorSet *set, struct pen_error *reterr)
{
    bool staged = false;
    for (uint32_t i = 0; i < w->key.bindings; i++) {
        staged = staged || vk_cell_staged(e, w->cells[i]);
    }
    return e->region == 0 || staged ? set_make(e, w, pipeline, set, reterr) : PEN_OK;
}

static void copy_record(struct exec *e, const struct vk_work *w, VkCommandBuffer commands)
{
    struct vk_slice from = vk_cell_slice(e, w->cells[0]), to = vk_cell_slice(e, w->cells[1]);
    VkBufferCopy copy = {from.offset, to.offset, w->copy_bytes};
    e->weights->device->vk.CmdCopyBuffer(commands, from.buffer, to.buffer, 1, &copy);
}

static enum pen_status work_record(struct exec *e, const struct vk_work *w, VkDescriptorSet *set,
                                   VkCommandBuffer commands, struct pen_error *reterr)
{
    struct vk_device *d = e->weights->device;
    struct vk_pipeline pipeline;
    if (w->kind == VK_WORK_COPY) {
        copy_record(e, w, commands);
        return PEN_OK;
    }
    enum pen_status status = vk_pipelines_get(d->pipelines, &w->key, &pipeline, reterr);
    if (status == PEN_OK) {
        status = set_get(e, w, &pipeline, set, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    d->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
    d->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, 1, set, 0, NULL);
    if (w->push_words > 0) {
        d->vk.CmdPushConstants(commands, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, w->push_words * 4, w->push);
    }
    d->vk.CmdDispatch(commands, w->groups[0], w->groups[1], w->groups[2]);
    return PEN_OK;
}

/* Everything before is finished and seen by everything after. One barrier per level, whatever the number of buffers: drivers flush whole caches anyway. */
static void barrier(struct exec *e, VkCommandBuffer commands, bool to_host)
{
    VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                              .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                              .dstAccessMask = to_host
                                                   ? VK_ACCESS_HOST_READ_BIT
                                                   : VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    VkPipelineStageFlags device = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    e->weights->device->vk.CmdPipelineBarrier(commands, device, to_host ? VK_PIPELINE_STAGE_HOST_BIT : device, 0, 1,
                                              &memory, 0, NULL, 0, NULL);
}

/* While command buffers are recorded. */
struct recording {
    struct exec *e;
    VkDescriptorSet *sets; /* [work_count] of the latest region */
    uint32_t chunk;
};

/* Works from `first` on into one command buffer, whole levels, until it is full. *ret_next = the first that is not in it. The first barrier keeps the run before in
 * the queue off the activations. */
static enum pen_status chunk_record(struct recording *r, VkCommandBuffer commands, uint32_t first, uint32_t *ret_next,
                                    struct pen_error *reterr)
{
    struct exec *e = r->e;
    struct vk_device *d = e->weights->device;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkResult result = d->vk.BeginCommandBuffer(commands, &begin);
    enum pen_status status = result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkBeginCommandBuffer", reterr);
    uint32_t i = first;
    vk_debug_begin(e, commands, r->chunk, first);
    while (status == PEN_OK && i < e->work_count) {
        bool starts = i == 0 ? e->window > 1 : e->works[i].level != e->works[i - 1].level;
        if (starts && i - first >= works_per_submit(e)) {
            break;
        }
        if (starts || (i > first && e->queries != VK_NULL_HANDLE)) {
            barrier(e, commands, false);
        }
        status = work_record(e, &e->works[i], &r->sets[i], commands, reterr);
        vk_debug_stamp(e, commands, r->chunk, i++);
    }
    if (status == PEN_OK && i == e->work_count) {
        barrier(e, commands, true);
    }
    if (status == PEN_OK) {
        result = d->vk.EndCommandBuffer(commands);
        status = result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkEndCommandBuffer", reterr);
    }
    *ret_next = i;
    return status;
}

/* All command buffers of the run that works in region e->region. */
static enum pen_status run_record(struct recording *r, struct pen_error *reterr)
{
    struct exec *e = r->e;
    struct vk_device *d = e->weights->device;
    VkCommandBuffer *commands = calloc(e->work_count / works_per_submit(e) + 1, sizeof *commands);
    enum pen_status status = PEN_OK;
    if (commands == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for command buffers");
    }
    e->runs[e->region].commands = commands;
    r->chunk = 0;
    for (uint32_t i = 0; status == PEN_OK && (i < e->work_count || r->chunk == 0); r->chunk++) {
        VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = e->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
        PEN_ASSERT(r->chunk <= e->work_count / works_per_submit(e), "all command buffers but the last one are full");
        VkResult result = d->vk.AllocateCommandBuffers(d->handle, &info, &commands[r->chunk]);
        status = result == VK_SUCCESS ? chunk_record(r, commands[r->chunk], i, &i, reterr)
                                      : vk_fail(result, "vkAllocateCommandBuffers", reterr);
    }
    PEN_ASSERT(e->region == 0 || status != PEN_OK || e->chunk_count == r->chunk,
               "every run of an exec has the same command buffers");
    e->chunk_count = r->chunk;
    return status;
}

void vk_record_wipe(struct exec *e)
{
    struct vk_device *d = e->weights->device;
    d->vk.DestroyCommandPool(d->handle, e->pool, NULL);
    d->vk.DestroyDescriptorPool(d->handle, e->descriptors, NULL);
    d->vk.DestroySemaphore(d->handle, e->semaphore, NULL);
    e->pool = VK_NULL_HANDLE;
    e->descriptors = VK_NULL_HANDLE;
    e->semaphore = VK_NULL_HANDLE;
    for (uint32_t i = 0; i < VK_WINDOW_MAX; i++) {
        free((void *)e->runs[i].commands);
        e->runs[i].commands = NULL;
    }
}

enum pen_status vk_record(struct exec *e, struct pen_error *reterr)
{
    struct recording r = {.e = e, .sets = calloc((size_t)e->work_count + 1, sizeof *r.sets)};
    enum pen_status status = pools_make(e, reterr);
    if (status == PEN_OK) {
        status = vk_debug_times_new(e, reterr);
    }
    if (status == PEN_OK && r.sets == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for descriptor sets");
    }
    for (; status == PEN_OK && e->region < e->window; e->region++) {
        status = run_record(&r, reterr);
    }
    e->region = 0;
    free((void *)r.sets);
    return status;
}
