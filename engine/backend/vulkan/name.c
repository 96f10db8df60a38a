#include "backend/vulkan/device.h"

void vk_name(struct vk_device *d, VkObjectType type, uint64_t handle, const char *name)
{
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = name};
    if (d->instance->validate && d->vk.SetDebugUtilsObjectNameEXT != NULL) {
        d->vk.SetDebugUtilsObjectNameEXT(d->handle, &info);
    }
}
