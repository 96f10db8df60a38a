/*
 * lossy_vulkan.c - libvulkan.so.1 in front of the real one: while the file LOSSY_WHEN is there, every LOSSY_EVERY-th submit to a queue fails as if the device were
 * lost. For tests: a program finds it by LD_LIBRARY_PATH. Everything else is the real loader's.
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkGetInstanceProcAddr real_instance;
static PFN_vkGetDeviceProcAddr real_device;
static PFN_vkQueueSubmit real_submit;

static VkResult VKAPI_CALL lossy_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    static atomic_uint submits;
    const char *every = getenv("LOSSY_EVERY"), *when = getenv("LOSSY_WHEN");
    const unsigned after = every != NULL ? (unsigned)strtoul(every, NULL, 10) : 0;
    if (after > 0 && when != NULL && access(when, F_OK) == 0 && (atomic_fetch_add(&submits, 1) + 1) % after == 0) {
        return VK_ERROR_DEVICE_LOST;
    }
    return real_submit(queue, count, infos, fence);
}

static PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name)
{
    PFN_vkVoidFunction found = real_device(device, name);
    if (found != NULL && strcmp(name, "vkQueueSubmit") == 0) {
        real_submit = (PFN_vkQueueSubmit)found;
        return (PFN_vkVoidFunction)lossy_submit;
    }
    return found;
}

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (real_instance == NULL) {
        void *library = dlopen(LOSSY_REAL, RTLD_NOW | RTLD_LOCAL);
        void *symbol = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&real_instance, &symbol, sizeof symbol);
    }
    PFN_vkVoidFunction found = real_instance != NULL ? real_instance(instance, name) : NULL;
    if (found != NULL && strcmp(name, "vkGetDeviceProcAddr") == 0) {
        real_device = (PFN_vkGetDeviceProcAddr)found;
        return (PFN_vkVoidFunction)device_function;
    }
    return found;
}
