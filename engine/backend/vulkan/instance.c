#include "backend/vulkan/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "VK_LAYER_KHRONOS_validation"

static VKAPI_ATTR VkBool32 VKAPI_CALL message_heard(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                    VkDebugUtilsMessageTypeFlagsEXT types,
                                                    const VkDebugUtilsMessengerCallbackDataEXT *data, void *context)
{
    struct vk_instance *in = context;
    (void)severity;
    (void)types;
    if (atomic_load(&in->messages) == 0) {
        snprintf(in->first_message, sizeof in->first_message, "%s", data->pMessage);
    }
    atomic_fetch_add(&in->messages, 1);
    return VK_FALSE;
}

static VkDebugUtilsMessengerCreateInfoEXT messenger_info(struct vk_instance *in)
{
    return (VkDebugUtilsMessengerCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = message_heard,
        .pUserData = in,
    };
}

/* Also notes its version. */
static bool layer_there(struct vk_instance *in)
{
    VkLayerProperties layers[64];
    uint32_t count = 64;
    VkResult result = in->vk.EnumerateInstanceLayerProperties(&count, layers);
    for (uint32_t i = 0; (result == VK_SUCCESS || result == VK_INCOMPLETE) && i < count; i++) {
        if (strcmp(layers[i].layerName, LAYER) == 0) {
            in->layer_version = layers[i].specVersion;
            return true;
        }
    }
    return false;
}

static enum pen_status instance_create(struct vk_instance *in, struct pen_error *reterr)
{
    const char *layer = LAYER, *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    uint32_t version = 0;
    if (in->vk.EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the Vulkan loader is older than 1.2: install a newer one");
    }
    if (in->validate && !layer_there(in)) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                             "Vulkan validation was asked for, but the layer %s is not installed", LAYER);
    }
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(in);
    in->api_version = version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
    VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "penstock", .apiVersion = in->api_version};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pNext = in->validate ? &messenger : NULL,
                                 .pApplicationInfo = &app,
                                 .enabledLayerCount = in->validate,
                                 .ppEnabledLayerNames = &layer,
                                 .enabledExtensionCount = in->validate,
                                 .ppEnabledExtensionNames = &extension};
    VkResult result = in->vk.CreateInstance(&info, NULL, &in->handle);
    if (result != VK_SUCCESS) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no Vulkan instance: %s; is a driver installed?",
                             vk_result_text(result));
    }
    enum pen_status status = vk_loader_instance(&in->vk, in->handle, reterr);
    if (status == PEN_OK && in->validate && in->vk.CreateDebugUtilsMessengerEXT != NULL) {
        result = in->vk.CreateDebugUtilsMessengerEXT(in->handle, &messenger, NULL, &in->messenger);
        status = result == VK_SUCCESS ? PEN_OK : vk_fail(result, "vkCreateDebugUtilsMessengerEXT", reterr);
    }
    return status;
}

enum pen_status vk_instance_new(bool validate, struct vk_instance **ret_instance, struct pen_error *reterr)
{
    struct vk_instance *in = calloc(1, sizeof *in);
    if (in == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a Vulkan instance");
    }
    in->validate = validate;
    enum pen_status status = vk_loader_open(&in->vk, &in->library, reterr);
    if (status == PEN_OK) {
        status = instance_create(in, reterr);
    }
    if (status != PEN_OK) {
        vk_instance_free(in);
        return status;
    }
    *ret_instance = in;
    return PEN_OK;
}

void vk_instance_free(struct vk_instance *in)
{
    if (in == NULL) {
        return;
    }
    if (in->messenger != VK_NULL_HANDLE) {
        in->vk.DestroyDebugUtilsMessengerEXT(in->handle, in->messenger, NULL);
    }
    if (in->handle != VK_NULL_HANDLE && in->vk.DestroyInstance != NULL) {
        in->vk.DestroyInstance(in->handle, NULL);
    }
    vk_loader_close(in->library);
    free(in);
}

enum pen_status vk_instance_check(struct vk_instance *in, struct pen_error *reterr)
{
    unsigned count = atomic_load(&in->messages);
    return count == 0 ? PEN_OK
                      : pen_error_set(reterr, PEN_ERR_INTERNAL, "%u messages of Vulkan validation, the first: %s",
                                      count, in->first_message);
}

static uint64_t local_memory(const VkPhysicalDeviceMemoryProperties *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++) {
        if ((m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 && m->memoryHeaps[i].size > most) {
            most = m->memoryHeaps[i].size;
        }
    }
    return most;
}

/* By the extension or by Vulkan 1.3, where it is in the core; the feature says whether it is switched on in the driver. */
static void dot_read(struct vk_instance *in, struct vk_device_info *info)
{
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &dot};
    VkPhysicalDeviceShaderIntegerDotProductProperties fast = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &fast};
    bool listed = vk_extension_there(&in->vk, info->handle, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    if (info->api_version < VK_API_VERSION_1_3 && !listed) {
        return;
    }
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    in->vk.GetPhysicalDeviceProperties2(info->handle, &properties);
    info->dot8 = dot.shaderIntegerDotProduct;
    info->dot8_listed =
        listed && info->dot8; /* our instance may be one of 1.2: only as an extension is it switched on */
    info->dot8_fast = info->dot8 && fast.integerDotProduct4x8BitPackedSignedAccelerated;
}

/* VK_EXT_external_memory_host, for buffers such as ours. */
static void import_read(struct vk_instance *in, struct vk_device_info *info)
{
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
    const VkPhysicalDeviceExternalBufferInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage =
            VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
    VkExternalBufferProperties may = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    if (!vk_extension_there(&in->vk, info->handle, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
        return;
    }
    in->vk.GetPhysicalDeviceProperties2(info->handle, &properties);
    in->vk.GetPhysicalDeviceExternalBufferProperties(info->handle, &buffer, &may);
    const VkExternalMemoryFeatureFlags features = may.externalMemoryProperties.externalMemoryFeatures;
    if ((features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0 &&
        (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) == 0) {
        info->import_align = host.minImportedHostPointerAlignment;
    }
}

/* Where pipelines may choose, subgroup_size is only the usual size. */
static void subgroups_read(struct vk_instance *in, struct vk_device_info *info)
{
    VkPhysicalDeviceSubgroupSizeControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &control};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
    if (!vk_extension_there(&in->vk, info->handle, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
        return;
    }
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    in->vk.GetPhysicalDeviceProperties2(info->handle, &properties);
    info->subgroups_full = control.computeFullSubgroups;
    info->subgroups_fixed =
        control.subgroupSizeControl && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
        info->subgroup_size >= sizes.minSubgroupSize && info->subgroup_size <= sizes.maxSubgroupSize;
}

static void features_read(struct vk_instance *in, struct vk_device_info *info)
{
    VkPhysicalDeviceVulkan12Features v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &v12};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    info->f16_storage = v11.storageBuffer16BitAccess;
    info->f16_math = v12.shaderFloat16;
    info->i8_storage = v12.storageBuffer8BitAccess;
    info->i8_arithmetic = v12.shaderInt8;
    info->memory_model = v12.vulkanMemoryModel && v12.vulkanMemoryModelDeviceScope; /* our atomics are of that scope */
    info->buffer_address = v12.bufferDeviceAddress;
    info->push_descriptors = vk_extension_there(&in->vk, info->handle, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    info->memory_budget = vk_extension_there(&in->vk, info->handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    dot_read(in, info);
    import_read(in, info);
    subgroups_read(in, info);
    if (!v12.timelineSemaphore) {
        info->unfit = "it has no timeline semaphores";
    } else if (!v12.storageBuffer8BitAccess) {
        info->unfit = "it cannot address bytes in storage buffers";
    }
}

static void info_read(struct vk_instance *in, VkPhysicalDevice device, uint32_t index, struct vk_device_info *info)
{
    VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = &subgroup};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, .pNext = &driver};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    VkPhysicalDeviceMemoryProperties memory;
    in->vk.GetPhysicalDeviceProperties2(device, &p);
    in->vk.GetPhysicalDeviceMemoryProperties(device, &memory);
    *info = (struct vk_device_info){.handle = device,
                                    .index = index,
                                    .type = p.properties.deviceType,
                                    .vendor_id = p.properties.vendorID,
                                    .driver = driver.driverID,
                                    .driver_version = p.properties.driverVersion,
                                    .api_version = p.properties.apiVersion,
                                    .memory_bytes = local_memory(&memory),
                                    .subgroup_size = subgroup.subgroupSize};
    info->subgroup_arith = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
    memcpy(info->name, p.properties.deviceName, sizeof info->name);
    memcpy(info->uuid, id.deviceUUID, sizeof info->uuid);
    memcpy(info->driver_name, driver.driverName, sizeof info->driver_name);
    memcpy(info->driver_info, driver.driverInfo, sizeof info->driver_info);
    for (size_t i = 0; i < VK_UUID_SIZE; i++) {
        snprintf(info->uuid_text + 2 * i, 3, "%02x", id.deviceUUID[i]);
    }
    if (info->api_version < VK_API_VERSION_1_2) {
        info->unfit = "its driver is older than Vulkan 1.2";
    } else {
        features_read(in, info);
        vk_coopmat_read(in, info, &p.properties.limits);
        vk_coopmat2_read(in, info);
    }
}

enum pen_status vk_instance_devices(struct vk_instance *in, struct vk_device_info *infos, uint32_t *ret_count,
                                    struct pen_error *reterr)
{
    VkPhysicalDevice devices[VK_DEVICES_MAX];
    uint32_t count = VK_DEVICES_MAX;
    VkResult result = in->vk.EnumeratePhysicalDevices(in->handle, &count, devices);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "Vulkan lists no devices: %s", vk_result_text(result));
    }
    for (uint32_t i = 0; i < count; i++) {
        info_read(in, devices[i], i, &infos[i]);
    }
    *ret_count = count;
    return PEN_OK;
}

void vk_features_say(const struct vk_device_info *info, void (*say)(void *context, const char *name, const char *value),
                     void *context)
{
    const struct {
        const char *name;
        bool there;
    } features[] = {{"vk_f16_storage", info->f16_storage},
                    {"vk_f16_math", info->f16_math},
                    {"vk_i8_storage", info->i8_storage},
                    {"vk_dot8", info->dot8},
                    {"vk_dot8_fast", info->dot8_fast},
                    {"vk_i8_math", info->i8_storage && info->i8_arithmetic && info->dot8},
                    {"vk_push_descriptors", info->push_descriptors},
                    {"vk_buffer_address", info->buffer_address},
                    {"vk_host_memory", info->import_align != 0},
                    {"vk_coopmat_f16f32", info->coopmat.size.rows != 0},
                    {"vk_coopmat_s8s32", info->coopmat.bytes.rows != 0},
                    {"vk_coopmat_bf16f32", info->coopmat.bf16.rows != 0},
                    {"vk_subgroup_arith", info->subgroup_arith},
                    {"vk_timeline", true}}; /* without it the device is unfit */
    char coopmat[80], coopmat2[64], size[16];
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        say(context, features[i].name, features[i].there ? "on" : "off");
    }
    vk_coopmat_text(&info->coopmat, coopmat, sizeof coopmat);
    say(context, "vk_coopmat", coopmat);
    vk_coopmat2_text(&info->coopmat2, coopmat2, sizeof coopmat2);
    say(context, "vk_coopmat2", coopmat2);
    say(context, "vk_coopmat_kinds", info->coopmat_kinds[0] != '\0' ? info->coopmat_kinds : "none");
    snprintf(size, sizeof size, "%u", info->subgroup_size);
    say(context, "vk_subgroup_size", size);
}
