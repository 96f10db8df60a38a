/*
 * vulkan/import.h - memory of the host that the device reads and writes where it lies (VK_EXT_external_memory_host).
 *
 * Its pages are the device's until vk_import_fini: whoever imports memory owns it, or knows that it stays. Memory that was unmapped and mapped again would be other
 * pages for the host, and the old ones for the device.
 * Threads: one-at-a-time per object.
 */
#ifndef VULKAN_IMPORT_H
#define VULKAN_IMPORT_H

#include "backend/vulkan/device.h"

struct vk_import {
    VkBuffer handle; /* VK_NULL_HANDLE: nothing is imported */
    VkDeviceMemory memory;
    uint8_t *pages;     /* the buffer's first byte on the host */
    VkDeviceSize bytes; /* whole pages */
    bool local;         /* device and host share their memory: kernels may work in it */
};

/* The pages around data. False: the device does not take them, and nothing has changed. */
bool vk_import_new(struct vk_device *d, void *data, size_t bytes, struct vk_import *ret_import);
void vk_import_fini(struct vk_device *d, struct vk_import *m); /* zeroed is fine */

#endif
