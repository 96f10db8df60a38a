#include "backend/vulkan/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef void (*any_function)(void);

/* A function pointer into a member of any function type: ISO C has no cast between dlsym's void pointer and a function. */
static void member_set(void *member, any_function function)
{
    memcpy(member, &function, sizeof function);
}

static enum pen_status missing(const char *name, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the Vulkan driver has no %s: version 1.2 is needed", name);
}

enum pen_status vk_loader_open(struct vk_functions *vk, void **ret_library, struct pen_error *reterr)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                             "libvulkan.so.1 cannot be loaded: install the Vulkan loader (libvulkan1) and a driver");
    }
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
    memcpy(&vk->GetInstanceProcAddr, &symbol, sizeof symbol);
    if (symbol == NULL) {
        dlclose(library);
        return missing("vkGetInstanceProcAddr", reterr);
    }
#define VK_GLOBAL(name)                                                                                                \
    member_set((void *)&vk->name, vk->GetInstanceProcAddr(NULL, "vk" #name));                                          \
    if (vk->name == NULL) {                                                                                            \
        dlclose(library);                                                                                              \
        return missing("vk" #name, reterr);                                                                            \
    }
#define VK_INSTANCE(name)
#define VK_OPTIONAL(name)
#define VK_DEVICE(name)
#define VK_EXTENSION(name)
#include "backend/vulkan/functions.def"
#undef VK_GLOBAL
#undef VK_INSTANCE
#undef VK_OPTIONAL
    *ret_library = library;
    return PEN_OK;
}

#if defined(__SANITIZE_ADDRESS__)
#define DRIVERS_MAX 16

struct drivers {
    const char *names[DRIVERS_MAX];
    size_t count;
};

static int driver_note(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct drivers *drivers = context;
    (void)bytes;
    if (drivers->count < DRIVERS_MAX && (strstr(info->dlpi_name, "libvulkan") || strstr(info->dlpi_name, "libVkLayer")))
        drivers->names[drivers->count++] = info->dlpi_name;
    return 0;
}

/* Drivers leak a little. The leak check at the end can tell theirs from ours only while they are mapped, so they stay. */
static void drivers_keep(void)
{
    struct drivers drivers = {.count = 0};
    dl_iterate_phdr(driver_note, &drivers);
    for (size_t i = 0; i < drivers.count; i++)
        dlopen(drivers.names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
#else
static void drivers_keep(void)
{
}
#endif

enum pen_status vk_loader_instance(struct vk_functions *vk, VkInstance instance, struct pen_error *reterr)
{
    drivers_keep();
#define VK_GLOBAL(name)
#define VK_OPTIONAL(name) member_set((void *)&vk->name, vk->GetInstanceProcAddr(instance, "vk" #name));
#define VK_INSTANCE(name)                                                                                              \
    member_set((void *)&vk->name, vk->GetInstanceProcAddr(instance, "vk" #name));                                      \
    if (vk->name == NULL) {                                                                                            \
        return missing("vk" #name, reterr);                                                                            \
    }
#include "backend/vulkan/functions.def"
#undef VK_INSTANCE
#undef VK_OPTIONAL
#undef VK_DEVICE
#undef VK_EXTENSION
    return PEN_OK;
}

enum pen_status vk_loader_device(struct vk_functions *vk, VkDevice device, struct pen_error *reterr)
{
#define VK_INSTANCE(name)
#define VK_OPTIONAL(name)
#define VK_EXTENSION(name) member_set((void *)&vk->name, vk->GetDeviceProcAddr(device, "vk" #name));
#define VK_DEVICE(name)                                                                                                \
    member_set((void *)&vk->name, vk->GetDeviceProcAddr(device, "vk" #name));                                          \
    if (vk->name == NULL) {                                                                                            \
        return missing("vk" #name, reterr);                                                                            \
    }
#include "backend/vulkan/functions.def"
    return PEN_OK;
}

void vk_loader_close(void *library)
{
    if (library != NULL) {
        dlclose(library);
    }
}

const char *vk_result_text(VkResult result)
{
    static const struct {
        VkResult result;
        const char *text;
    } texts[] = {
        {VK_SUCCESS, "success"},
        {VK_TIMEOUT, "time-out"},
        {VK_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
        {VK_ERROR_INITIALIZATION_FAILED, "initialisation failed"},
        {VK_ERROR_DEVICE_LOST, "device lost"},
        {VK_ERROR_LAYER_NOT_PRESENT, "layer not present"},
        {VK_ERROR_EXTENSION_NOT_PRESENT, "extension not present"},
        {VK_ERROR_FEATURE_NOT_PRESENT, "feature not present"},
        {VK_ERROR_INCOMPATIBLE_DRIVER, "no driver fits"},
        {VK_ERROR_TOO_MANY_OBJECTS, "too many objects"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].result == result) {
            return texts[i].text;
        }
    }
    return "unknown error";
}

enum pen_status vk_fail(VkResult result, const char *what, struct pen_error *reterr)
{
    enum pen_status status = PEN_ERR_INTERNAL;
    if (result == VK_ERROR_DEVICE_LOST) {
        status = PEN_ERR_DEVICE_LOST;
    } else if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
               result == VK_ERROR_TOO_MANY_OBJECTS) {
        status = PEN_ERR_NO_MEMORY;
    }
    return pen_error_set(reterr, status, "vulkan: %s failed: %s (%d)", what, vk_result_text(result), (int)result);
}

bool vk_extension_there(const struct vk_functions *vk, VkPhysicalDevice device, const char *name)
{
    uint32_t count = 0;
    bool found = false;
    if (vk->EnumerateDeviceExtensionProperties(device, NULL, &count, NULL) != VK_SUCCESS) {
        return false;
    }
    VkExtensionProperties *all = calloc((size_t)count + 1, sizeof *all);
    if (all != NULL && vk->EnumerateDeviceExtensionProperties(device, NULL, &count, all) == VK_SUCCESS) {
        for (uint32_t i = 0; i < count && !found; i++) {
            found = strcmp(all[i].extensionName, name) == 0;
        }
    }
    free(all);
    return found;
}
