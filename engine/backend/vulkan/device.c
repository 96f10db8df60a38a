#include "backend/vulkan/device.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/vulkan/bf16.h"
#include "backend/vulkan/pipeline.h"

/* The first family that computes; one without graphics wins: it does not share its queue with a display. */
static bool family_find(struct vk_device *d, uint32_t *ret_family)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    bool found = false;
    d->vk.GetPhysicalDeviceQueueFamilyProperties(d->info.handle, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        bool computes = (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && families[i].queueCount > 0;
        bool alone = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0;
        if (computes && (!found || alone)) {
            *ret_family = i;
            d->timestamp_bits = families[i].timestampValidBits;
            if (alone) {
                return true;
            }
            found = true;
        }
    }
    return found;
}

/* One that copies and does nothing else: it works beside the one that computes. */
static uint32_t ferry_find(const struct vk_device *d)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32, i = 0;
    d->vk.GetPhysicalDeviceQueueFamilyProperties(d->info.handle, &count, families);
    while (i < count && ((families[i].queueFlags & VK_QUEUE_TRANSFER_BIT) == 0 || families[i].queueCount == 0 ||
                         (families[i].queueFlags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) != 0)) {
        i++;
    }
    return i < count ? i : d->family;
}

static void limits_read(struct vk_device *d)
{
    VkPhysicalDeviceMaintenance3Properties m3 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &m3};
    d->vk.GetPhysicalDeviceProperties2(d->info.handle, &p);
    d->vk.GetPhysicalDeviceMemoryProperties(d->info.handle, &d->memory);
    d->limits = p.properties.limits;
    d->max_allocation = m3.maxMemoryAllocationSize;
}

static enum pen_status open_device(struct vk_device *d, struct pen_error *reterr)
{
    float priority = 1.0f;
    const VkDeviceQueueCreateInfo queues[] = {{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                               .queueFamilyIndex = d->family,
                                               .queueCount = 1,
                                               .pQueuePriorities = &priority},
                                              {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                               .queueFamilyIndex = d->ferry_family,
                                               .queueCount = 1,
                                               .pQueuePriorities = &priority}};
    union vk_coopmat_feature coopmat;
    const bool half_math = d->form == SHADER_F16_MATH || (d->f16 && d->coopmat.size.rows != 0);
    const bool bf16 = d->bf16 && d->coopmat.size.rows != 0;
    struct vk_coopmat2_switch coopmat2;
    struct vk_bf16_switch brain;
    const char *extensions[6];
    uint32_t extension_count = 0;
    const bool subgroups = d->coopmat.kind != VK_COOPMAT_NONE && d->info.subgroups_full;
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = d->info.subgroups_fixed,
        .computeFullSubgroups = VK_TRUE};
    void *const last = subgroups ? &control : NULL;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .pNext = vk_coopmat_feature(
            d->coopmat.kind, &coopmat,
            vk_coopmat2_feature(&d->coopmat2, &coopmat2, bf16 ? vk_bf16_feature(&brain, last) : last)),
        .shaderIntegerDotProduct = VK_TRUE};
    if (d->coopmat.kind != VK_COOPMAT_NONE) {
        extensions[extension_count++] = d->coopmat.kind == VK_COOPMAT_KHR ? VK_KHR_COOPMAT_NAME : VK_NV_COOPMAT_NAME;
    }
    if (d->coopmat2.form != VK_COOPMAT2_NONE) {
        extensions[extension_count++] = VK_COOPMAT2_NAME;
    }
    if (bf16) {
        extensions[extension_count++] = VK_BF16_NAME;
    }
    if (subgroups) {
        extensions[extension_count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    }
    if (d->dot8) {
        extensions[extension_count++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    }
    if (d->import_align != 0) {
        extensions[extension_count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    }
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                            .pNext = d->dot8 ? &dot : dot.pNext,
                                            .timelineSemaphore = VK_TRUE,
                                            .storageBuffer8BitAccess = VK_TRUE,
                                            .shaderFloat16 = half_math,
                                            .shaderInt8 = d->coopmat.bytes.rows != 0,
                                            .vulkanMemoryModel = d->coopmat.kind != VK_COOPMAT_NONE,
                                            .vulkanMemoryModelDeviceScope = d->coopmat.kind != VK_COOPMAT_NONE};
    /* f16 tensors of the graph are moved and cast in every precision. */
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12,
                                            .storageBuffer16BitAccess = d->info.f16_storage};
    /* Indices are checked before a run or in the shader; this bounds what a driver's own mistake could reach. */
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &v11,
                                          .features = {.robustBufferAccess = d->instance->validate}};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = d->ferry_family != d->family ? 2 : 1,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = extension_count,
                               .ppEnabledExtensionNames = extensions};
    VkResult result = d->vk.CreateDevice(d->info.handle, &info, NULL, &d->handle);
    if (result != VK_SUCCESS) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the Vulkan device \"%s\" cannot be opened: %s", d->info.name,
                             vk_result_text(result));
    }
    enum pen_status status = vk_loader_device(&d->vk, d->handle, reterr);
    if (status == PEN_OK) {
        d->vk.GetDeviceQueue(d->handle, d->family, 0, &d->queue);
        d->vk.GetDeviceQueue(d->handle, d->ferry_family, 0, &d->ferry_queue);
    }
    return status;
}

uint32_t vk_precisions(const struct vk_device_info *info, bool stand_in)
{
    uint32_t has = 1u << PEN_PRECISION_F32 | 1u << PEN_PRECISION_INT8; /* bytes: a device without them is unfit */
    has |= info->f16_storage ? 1u << PEN_PRECISION_F16_STORAGE : 0;
    has |= info->coopmat.size.rows != 0 ? 1u << PEN_PRECISION_F16_MMA : 0;
    has |= info->coopmat.bf16.rows != 0 || stand_in ? 1u << PEN_PRECISION_BF16 : 0;
    return has | (info->f16_storage && info->f16_math ? 1u << PEN_PRECISION_F16_MATH : 0);
}

/* Products of bytes are in every precision. */
static void coopmat_set(struct vk_device *d, enum pen_precision precision)
{
    const bool halves = precision == PEN_PRECISION_F16_MMA || precision == PEN_PRECISION_F16_MATH;
    d->coopmat = d->info.coopmat;
    d->coopmat.size = halves ? d->coopmat.size : d->bf16 ? d->coopmat.bf16 : (struct vk_matrix_size){0};
    if (d->coopmat.size.rows == 0 && d->coopmat.bytes.rows == 0) {
        d->coopmat.kind = VK_COOPMAT_NONE;
    }
    if (halves) {
        d->coopmat2 = d->info.coopmat2;
    }
}

enum pen_status vk_device_new(struct vk_instance *in, const struct vk_device_info *info,
                              const struct vk_device_wishes *wishes, struct vk_device **ret_device,
                              struct pen_error *reterr)
{
    enum pen_precision precision = wishes->precision;
    struct vk_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a Vulkan device");
    }
    atomic_init(&d->references, 1);
    d->instance = in;
    d->vk = in->vk;
    d->info = *info;
    d->dot8 = info->dot8_listed;
    d->import_align = wishes->import ? info->import_align : 0;
    d->f16 = precision >= PEN_PRECISION_F16_STORAGE && precision <= PEN_PRECISION_F16_MATH;
    d->bf16 = precision == PEN_PRECISION_BF16;
    d->form = precision == PEN_PRECISION_F16_MATH ? SHADER_F16_MATH : d->f16 ? SHADER_F16 : SHADER_F32;
    coopmat_set(d, precision);
    pthread_mutex_init(&d->queue_lock, NULL);
    vk_pool_init(&d->pool, wishes->pool_bytes);
    limits_read(d);
    enum pen_status status = PEN_OK;
    if (!family_find(d, &d->family)) {
        status = pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the Vulkan device \"%s\" has no queue that computes",
                               d->info.name);
    }
    d->ferry_family = status == PEN_OK && wishes->ferry ? ferry_find(d) : d->family;
    if (status == PEN_OK) {
        status = open_device(d, reterr);
    }
    if (status == PEN_OK) {
        status = vk_pipelines_new(d, wishes->cache_dir, &d->pipelines, reterr);
    }
    if (status != PEN_OK) {
        vk_device_release(d);
        return status;
    }
    *ret_device = d;
    return PEN_OK;
}

struct vk_device *vk_device_retain(struct vk_device *d)
{
    atomic_fetch_add(&d->references, 1);
    return d;
}

void vk_device_release(struct vk_device *d)
{
    if (d == NULL) {
        return;
    }
    const unsigned references = atomic_fetch_sub(&d->references, 1);
    PEN_ASSERT(references > 0, "a device is released once for each reference");
    if (references != 1) {
        return;
    }
    PEN_ASSERT(atomic_load(&d->in_flight) == 0, "a device goes when no run is on it");
    vk_pipelines_free(d->pipelines);
    vk_pool_fini(&d->pool, &d->vk, d->handle);
    if (d->handle != VK_NULL_HANDLE && d->vk.DestroyDevice != NULL) {
        d->vk.DestroyDevice(d->handle, NULL);
    }
    pthread_mutex_destroy(&d->queue_lock);
    free(d);
}

enum pen_status vk_timeline_new(struct vk_device *d, VkSemaphore *ret_semaphore, struct pen_error *reterr)
{
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result = d->vk.CreateSemaphore(d->handle, &info, NULL, ret_semaphore);
    return result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkCreateSemaphore", reterr);
}

static enum pen_status outcome(struct vk_device *d, VkResult result, const char *what, struct pen_error *reterr)
{
    if (result == VK_SUCCESS) {
        return PEN_OK;
    }
    if (result == VK_ERROR_DEVICE_LOST) {
        atomic_store(&d->lost, true);
    }
    return vk_fail(result, what, reterr);
}

enum pen_status vk_submit_to(struct vk_device *d, const struct vk_submission *s, struct pen_error *reterr)
{
    const uint32_t waits = s->wait != VK_NULL_HANDLE;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .waitSemaphoreValueCount = waits,
                                                    .pWaitSemaphoreValues = &s->wait_value,
                                                    .signalSemaphoreValueCount = 1,
                                                    .pSignalSemaphoreValues = &s->value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = waits,
                               .pWaitSemaphores = &s->wait,
                               .pWaitDstStageMask = &stage,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &s->commands,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &s->semaphore};
    atomic_fetch_add(&d->submits, 1);
    pthread_mutex_lock(&d->queue_lock);
    VkResult result = d->vk.QueueSubmit(s->queue, 1, &info, VK_NULL_HANDLE);
    pthread_mutex_unlock(&d->queue_lock);
    return outcome(d, result, "vkQueueSubmit", reterr);
}

enum pen_status vk_submit(struct vk_device *d, VkCommandBuffer commands, VkSemaphore semaphore, uint64_t value,
                          struct pen_error *reterr)
{
    const struct vk_submission s = {.queue = d->queue, .commands = commands, .semaphore = semaphore, .value = value};
    return vk_submit_to(d, &s, reterr);
}

enum pen_status vk_wait(struct vk_device *d, VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns,
                        struct pen_error *reterr)
{
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &value};
    VkResult result = d->vk.WaitSemaphores(d->handle, &info, timeout_ns);
    if (result == VK_TIMEOUT) {
        return pen_error_set(reterr, PEN_ERR_TIMEOUT, "vulkan: the device is still busy");
    }
    return outcome(d, result, "vkWaitSemaphores", reterr);
}
