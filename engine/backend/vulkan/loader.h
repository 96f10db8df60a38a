/*
 * loader.h - libvulkan, found at run time: a worker on a host without it starts all the same, and a build needs only the headers.
 *
 * Threads: one-at-a-time; what is loaded is read-only afterwards.
 */
#ifndef VULKAN_LOADER_H
#define VULKAN_LOADER_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include <stdbool.h>

#include "penstock/status.h"

/* One instance's, then one device's functions. Tests replace members to make the device fail. */
struct vk_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define VK_GLOBAL(name)    PFN_vk##name name;
#define VK_INSTANCE(name)  PFN_vk##name name;
#define VK_OPTIONAL(name)  PFN_vk##name name;
#define VK_DEVICE(name)    PFN_vk##name name;
#define VK_EXTENSION(name) PFN_vk##name name;
#include "backend/vulkan/functions.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_OPTIONAL
#undef VK_DEVICE
#undef VK_EXTENSION
};

/* Opens libvulkan.so.1 and fills the global functions. PEN_ERR_UNAVAILABLE with a sentence when there is none. `ret_library` for vk_loader_close. */
enum pen_status vk_loader_open(struct vk_functions *vk, void **ret_library, struct pen_error *reterr);
enum pen_status vk_loader_instance(struct vk_functions *vk, VkInstance instance, struct pen_error *reterr);
enum pen_status vk_loader_device(struct vk_functions *vk, VkDevice device, struct pen_error *reterr);
void vk_loader_close(void *library); /* NULL is fine */

/* The device offers this extension. */
bool vk_extension_there(const struct vk_functions *vk, VkPhysicalDevice device, const char *name);

const char *vk_result_text(VkResult result);
/* PEN_ERR_DEVICE_LOST, PEN_ERR_NO_MEMORY or PEN_ERR_INTERNAL with "vulkan: WHAT failed: RESULT". */
enum pen_status vk_fail(VkResult result, const char *what, struct pen_error *reterr);

#endif
