/*
 * bf16.h - whether a device multiplies bf16 in cooperative matrices: VK_KHR_shader_bfloat16, beside VK_KHR_cooperative_matrix.
 *
 * The extension is younger than Debian 12's headers and glslc: bf16.c has its numbers, and the shader is kept as SPIR-V 1.6 (ops/kept), so instance and device must be
 * of Vulkan 1.3. Floats stay f32 in every buffer but that of packed weights; the shader rounds them on their way into shared memory.
 * Threads: any (pure functions, but vk_bf16_there).
 */
#ifndef VULKAN_BF16_H
#define VULKAN_BF16_H

#include <stdbool.h>

#include "backend/vulkan/loader.h"

struct vk_device_info;
struct vk_instance;

#define VK_BF16_NAME      "VK_KHR_shader_bfloat16"
#define VK_BF16_COMPONENT 1000141000u /* bf16 in what a driver lists of cooperative matrices */

/* The device has the extension and its matrices, and no validation layer is in use that does not know them. */
bool vk_bf16_there(struct vk_instance *in, const struct vk_device_info *info);

/* What switches its features on, to be chained when the device is opened. Borrowed: the caller's storage. */
struct vk_bf16_switch {
    struct vk_bf16_bits {
        VkStructureType sType;
        void *pNext;
        VkBool32 type, dot_product, cooperative_matrix;
    } types;
    VkPhysicalDeviceMaintenance4Features sizes; /* SPIR-V 1.6 gives the size of a workgroup by id */
};
void *vk_bf16_feature(struct vk_bf16_switch *storage, void *next);

#endif
