#include "backend/vulkan/bf16.h"

#include "backend/vulkan/instance.h"

#define BF16_FEATURES ((VkStructureType)1000141000)

/* A validation layer from before the extension takes every use of it for an error, and so do the first ones that have it (Vulkan-ValidationLayers #10308). */
static bool layer_knows(const struct vk_instance *in)
{
    return !in->validate || in->layer_version >= VK_MAKE_API_VERSION(0, 1, 4, 321);
}

bool vk_bf16_there(struct vk_instance *in, const struct vk_device_info *info)
{
    struct vk_bf16_bits has = {.sType = BF16_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &has};
    if (in->api_version < VK_API_VERSION_1_3 || info->api_version < VK_API_VERSION_1_3 || !layer_knows(in) ||
        !vk_extension_there(&in->vk, info->handle, VK_BF16_NAME)) {
        return false;
    }
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    return has.type && has.cooperative_matrix;
}

void *vk_bf16_feature(struct vk_bf16_switch *storage, void *next)
{
    storage->sizes = (VkPhysicalDeviceMaintenance4Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, .pNext = next, .maintenance4 = VK_TRUE};
    storage->types = (struct vk_bf16_bits){
        .sType = BF16_FEATURES, .pNext = &storage->sizes, .type = VK_TRUE, .cooperative_matrix = VK_TRUE};
    return &storage->types;
}
