#include "backend/vulkan/plan.h"

#define REASON_BYTES 256

enum pen_status vk_backend_choose(struct vk_instance *in, const struct pen_vulkan_options *options,
                                  struct vk_device_info *ret_info, struct pen_error *reterr)
{
    struct vk_device_info infos[VK_DEVICES_MAX];
    char why[REASON_BYTES * 3];
    uint32_t count = 0, index = 0;
    enum pen_status status = vk_instance_devices(in, infos, &count, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (!vk_device_choose(infos, count, options->device, options->allow_software, &index, why, sizeof why)) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "%s", why);
    }
    *ret_info = infos[index];
    return PEN_OK;
}

enum pen_precision vk_backend_precision(const struct backend *b)
{
    bool floats = b->config.precision >= PEN_PRECISION_F32 && b->config.precision <= PEN_PRECISION_BF16;
    return floats ? b->config.precision : PEN_PRECISION_F32;
}

enum pen_status vk_backend_device_open(struct backend *b, struct vk_device **ret_device, struct pen_error *reterr)
{
    struct pen_vulkan_options options = b->config.vulkan;
    struct vk_device_info info;
    enum pen_status status = vk_backend_choose(b->instance, &options, &info, reterr);
    enum pen_precision precision = vk_backend_precision(b);
    if (status == PEN_OK && (vk_precisions(&info, b->cm_named) & 1u << precision) == 0) {
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                               "the Vulkan device \"%s\" has not what this precision needs: `penstock-engine info` "
                               "lists its precisions",
                               info.name);
    }
    const struct vk_device_wishes wishes = {.precision = precision,
                                            .cache_dir = b->cache_dir,
                                            .pool_bytes = options.pool_trim_bytes,
                                            .ferry = options.upload_queue != PEN_UPLOAD_OFF,
                                            .import = options.host_import != PEN_HOST_IMPORT_OFF};
    return status == PEN_OK ? vk_device_new(b->instance, &info, &wishes, ret_device, reterr) : status;
}

enum pen_status vk_backend_device(struct backend *b, struct vk_device **ret_device, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    pthread_mutex_lock(&b->lock);
    if (atomic_load(&b->device->lost)) {
        struct vk_device *fresh = NULL;
        struct pen_error why = {0};
        status = vk_backend_device_open(b, &fresh, &why);
        if (status == PEN_OK) {
            atomic_fetch_add(&b->compiled_before, vk_pipelines_made(b->device->pipelines));
            vk_device_release(b->device);
            b->device = fresh;
            atomic_fetch_add(&b->losses, 1);
        } else {
            status = pen_error_set(reterr, PEN_ERR_DEVICE_LOST,
                                   "the Vulkan device was lost and does not open again: %s", why.text);
        }
    }
    if (status == PEN_OK) {
        *ret_device = vk_device_retain(b->device);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}
