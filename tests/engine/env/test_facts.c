/*
 * test_facts.c - what is found out about the processor and the device is so. A fact of facts.def about them without a sample in tests/engine/env/facts.def fails.
 *
 * The processor is compared with /proc/cpuinfo, which the kernel writes. The device is a driver of this file, which has one thing less each time.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "backend/vulkan/bf16.h"
#include "backend/vulkan/device.h"
#include "env/env.h"

static const char *const sampled[] = {
#define CPU_FACT(fact, word) #fact,
#define VK_FACT(fact, needs) #fact,
#define OWN_FACT(fact)       #fact,
#include "facts.def"
#undef CPU_FACT
#undef VK_FACT
#undef OWN_FACT
};

Test(facts, each_has_a_sample)
{
    size_t count = 0;
    for (size_t i = 0; env_fact_name(i) != NULL; i++) {
        const char *name = env_fact_name(i);
        size_t s = 0;
        if (strncmp(name, "cpu_", 4) != 0 && strncmp(name, "vk_", 3) != 0) {
            continue;
        }
        while (s < sizeof sampled / sizeof sampled[0] && strcmp(sampled[s], name) != 0) {
            s++;
        }
        count++;
        cr_expect_lt(s, sizeof sampled / sizeof sampled[0], "the fact %s has no sample", name);
    }
    cr_expect_eq(count, sizeof sampled / sizeof sampled[0]);
}

/* ---- the processor ---- */

static struct pen_env *env_open(void)
{
    struct pen_env *env = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK);
    return env;
}

static bool on(const struct pen_env *env, const char *fact)
{
    const char *value = pen_env_get(env, fact);
    return value != NULL && strcmp(value, "on") == 0;
}

#ifdef __x86_64__
/* The flags of the first processor, with a blank on both sides. */
static char *kernel_flags(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    cr_assert_not_null(f);
    while (!found && getline(&line, &room, f) > 0) {
        found = strncmp(line, "flags", 5) == 0;
    }
    fclose(f);
    cr_assert(found);
    line[strcspn(line, "\n")] = ' ';
    return line;
}

Test(facts, the_processor_has_what_the_kernel_says)
{
    static const struct {
        const char *fact, *word;
    } rows[] = {
#define CPU_FACT(fact, word) {#fact, word},
#define VK_FACT(fact, needs)
#define OWN_FACT(fact)
#include "facts.def"
#undef CPU_FACT
#undef VK_FACT
#undef OWN_FACT
    };
    struct pen_env *env = env_open();
    char *flags = kernel_flags();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", rows[i].word);
        cr_expect_eq(on(env, rows[i].fact), strstr(flags, word) != NULL, "%s", rows[i].fact);
    }
    free(flags);
    pen_env_free(env);
}
#endif

Test(facts, cpu_isa_cpu_neon_cpu_count_cpu_cores)
{
    struct pen_env *env = env_open();
    const char *isa = pen_env_get(env, "cpu_isa");
    cpu_set_t set;
    char count[16];
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    snprintf(count, sizeof count, "%d", CPU_COUNT(&set));
    cr_expect_str_eq(pen_env_get(env, "cpu_count"), count);
    const int cores = atoi(pen_env_get(env, "cpu_cores"));
    cr_expect(cores >= 1 && cores <= CPU_COUNT(&set), "%d cores of %s processors", cores, count);
#if defined(__x86_64__)
    cr_expect_null(pen_env_get(env, "cpu_neon"));
    cr_expect_eq(strncmp(isa, "avx512", 6) == 0, on(env, "cpu_avx512"));
    cr_expect_eq(strcmp(isa, "avx512vnni") == 0, on(env, "cpu_avx512") && on(env, "cpu_avx512vnni"));
#elif defined(__aarch64__)
    cr_expect(on(env, "cpu_neon") && strcmp(isa, "neon") == 0);
#endif
    pen_env_free(env);
}

/* What the program was told by the kernel; elsewhere there are no such facts. */
Test(facts, cpu_arm_dot_cpu_arm_i8mm_cpu_arm_bf16)
{
    static const char *const names[] = {"cpu_arm_dot", "cpu_arm_i8mm", "cpu_arm_bf16"};
    struct pen_env *env = env_open();
#if defined(__aarch64__)
    const bool has[] = {(getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0, (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0,
                        (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0};
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(on(env, names[i]), has[i], "%s", names[i]);
    }
#else
    for (size_t i = 0; i < 3; i++) {
        cr_expect_null(pen_env_get(env, names[i]));
    }
#endif
    pen_env_free(env);
}

/* ---- a device that lacks what `lacks` has ---- */

enum needs {
    NEEDS_F16_STORAGE = 1,
    NEEDS_F16_MATH = 2,
    NEEDS_I8_STORAGE = 4,
    NEEDS_I8 = 8,
    NEEDS_DOT8 = 16,
    NEEDS_DOT8_FAST = 32,
    NEEDS_PUSH = 64,
    NEEDS_ADDRESS = 128,
    NEEDS_COOPMAT = 256,
    NEEDS_MODEL = 512,
    NEEDS_SUBGROUPS = 1024,
    NEEDS_TIMELINE = 2048,
    NEEDS_COOPMAT2 = 4096,
    NEEDS_KHR = 8192, /* the cooperative matrices by their younger extension, too */
    NEEDS_BF16 = 16384,
    NEEDS_BF16_MATRICES = 32768, /* the extension has a feature of its own for them */
    NEEDS_PAGES = 65536,
    NEEDS_IMPORT = 131072, /* buffers may lie in pages of the host */
    NEEDS_COUNT = 18
};

static unsigned lacks;

/* All of them. */
static bool has(unsigned need)
{
    return (lacks & need) == 0;
}

static VkResult VKAPI_CALL list_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
    (void)instance;
    *count = 1;
    memset(devices, 0, sizeof *devices);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL list_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                           VkExtensionProperties *all)
{
    static const struct {
        const char *name;
        unsigned need;
    } rows[] = {{"VK_KHR_push_descriptor", NEEDS_PUSH},      {"VK_KHR_shader_integer_dot_product", 0},
                {"VK_EXT_subgroup_size_control", 0},         {"VK_KHR_cooperative_matrix", NEEDS_COOPMAT | NEEDS_KHR},
                {"VK_NV_cooperative_matrix", NEEDS_COOPMAT}, {"VK_NV_cooperative_matrix2", NEEDS_COOPMAT2},
                {"VK_KHR_shader_bfloat16", NEEDS_BF16},      {"VK_EXT_external_memory_host", NEEDS_PAGES}};
    uint32_t room = *count;
    (void)device;
    (void)layer;
    *count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!has(rows[i].need)) {
            continue;
        }
        if (all != NULL && *count < room) {
            snprintf(all[*count].extensionName, sizeof all->extensionName, "%s", rows[i].name);
        }
        (*count)++;
    }
    return VK_SUCCESS;
}

/* Structs of Vulkan begin with their type and the next one. */
struct link {
    VkStructureType type;
    struct link *next;
};

static void VKAPI_CALL tell_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features)
{
    (void)device;
    for (struct link *l = features->pNext; l != NULL; l = l->next) {
        void *s = l;
        if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES) {
            ((VkPhysicalDeviceVulkan11Features *)s)->storageBuffer16BitAccess = has(NEEDS_F16_STORAGE);
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
            VkPhysicalDeviceVulkan12Features *v12 = s;
            v12->shaderFloat16 = has(NEEDS_F16_MATH);
            v12->storageBuffer8BitAccess = has(NEEDS_I8_STORAGE);
            v12->shaderInt8 = has(NEEDS_I8);
            v12->vulkanMemoryModel = v12->vulkanMemoryModelDeviceScope = has(NEEDS_MODEL);
            v12->bufferDeviceAddress = has(NEEDS_ADDRESS);
            v12->timelineSemaphore = has(NEEDS_TIMELINE);
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES) {
            ((VkPhysicalDeviceShaderIntegerDotProductFeatures *)s)->shaderIntegerDotProduct = has(NEEDS_DOT8);
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            ((VkPhysicalDeviceSubgroupSizeControlFeatures *)s)->computeFullSubgroups = VK_TRUE;
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV ||
                   l->type == (VkStructureType)1000506000) { /* of KHR: the same members */
            ((VkPhysicalDeviceCooperativeMatrixFeaturesNV *)s)->cooperativeMatrix = VK_TRUE;
        } else if (l->type == (VkStructureType)1000593000) {
            memset(l + 1, 0xFF, sizeof(struct vk_coopmat2_bits) - sizeof *l); /* all features */
        } else if (l->type == (VkStructureType)1000141000) {
            ((struct vk_bf16_bits *)s)->type = VK_TRUE;
            ((struct vk_bf16_bits *)s)->cooperative_matrix = has(NEEDS_BF16_MATRICES);
        }
    }
}

static void VKAPI_CALL tell_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *p)
{
    (void)device;
    p->properties.apiVersion = VK_API_VERSION_1_2;
    p->properties.limits.maxComputeWorkGroupInvocations = p->properties.limits.maxComputeWorkGroupSize[0] = 1024;
    p->properties.limits.maxComputeSharedMemorySize = 65536;
    for (struct link *l = p->pNext; l != NULL; l = l->next) {
        void *s = l;
        if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            VkPhysicalDeviceSubgroupProperties *subgroup = s;
            subgroup->subgroupSize = 24;
            subgroup->supportedOperations = has(NEEDS_SUBGROUPS) ? VK_SUBGROUP_FEATURE_ARITHMETIC_BIT : 0;
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) {
            ((VkPhysicalDeviceShaderIntegerDotProductProperties *)s)->integerDotProduct4x8BitPackedSignedAccelerated =
                has(NEEDS_DOT8_FAST);
        } else if (l->type == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT) {
            ((VkPhysicalDeviceExternalMemoryHostPropertiesEXT *)s)->minImportedHostPointerAlignment = 4096;
        } else if (l->type == (VkStructureType)1000593002) {
            ((uint32_t *)(l + 1))[1] = 512; /* the longest side */
        }
    }
}

static void VKAPI_CALL tell_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *memory)
{
    (void)device;
    memset(memory, 0, sizeof *memory);
}

static void VKAPI_CALL tell_buffers(VkPhysicalDevice device, const VkPhysicalDeviceExternalBufferInfo *info,
                                    VkExternalBufferProperties *properties)
{
    (void)device;
    cr_expect_eq(info->handleType, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT);
    properties->externalMemoryProperties.externalMemoryFeatures =
        has(NEEDS_IMPORT) ? VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT : 0;
}

static VkResult VKAPI_CALL list_matrices(VkPhysicalDevice device, uint32_t *count,
                                         VkCooperativeMatrixPropertiesNV *list)
{
    (void)device;
    *count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        bool bytes = i > 0 && i < 3; /* the second row of bytes is a saturating one, the last is not of a subgroup */
        list[i] = (VkCooperativeMatrixPropertiesNV){
            .MSize = 16,
            .NSize = 16,
            .KSize = bytes ? 32 : 16,
            .AType = bytes ? VK_COMPONENT_TYPE_SINT8_NV : VK_COMPONENT_TYPE_FLOAT16_NV,
            .BType = bytes ? VK_COMPONENT_TYPE_SINT8_NV : VK_COMPONENT_TYPE_FLOAT16_NV,
            .CType = bytes ? VK_COMPONENT_TYPE_SINT32_NV : VK_COMPONENT_TYPE_FLOAT32_NV,
            .DType = bytes ? VK_COMPONENT_TYPE_SINT32_NV : VK_COMPONENT_TYPE_FLOAT32_NV,
            .scope = i < 3 ? VK_SCOPE_SUBGROUP_NV : VK_SCOPE_DEVICE_NV};
    }
    return VK_SUCCESS;
}

/* f16 with f32 sums and f16 results, in workgroups of 128 and 256. */
static VkResult VKAPI_CALL list_flexible(VkPhysicalDevice device, uint32_t *count, void *list)
{
    (void)device;
    *count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t sum = i % 2, invocations = i < 2 ? 128 : 256;
        const uint32_t row[] = {16, 16, 16, 0, 0, sum, sum, 0, VK_SCOPE_WORKGROUP_NV, invocations};
        memcpy((uint8_t *)list + i * (sizeof(struct link) + sizeof row) + sizeof(struct link), row, sizeof row);
    }
    return VK_SUCCESS;
}

/* VkCooperativeMatrixPropertiesKHR, which is younger than the headers. */
struct khr_property {
    VkStructureType type;
    void *next;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturating;
    uint32_t scope;
};

static VkResult VKAPI_CALL list_khr_matrices(VkPhysicalDevice device, uint32_t *count, struct khr_property *list)
{
    VkCooperativeMatrixPropertiesNV all[4];
    list_matrices(device, count, all);
    for (uint32_t i = 0; i < *count; i++) {
        list[i] = (struct khr_property){.m = all[i].MSize,
                                        .n = all[i].NSize,
                                        .k = all[i].KSize,
                                        .a = (uint32_t)all[i].AType,
                                        .b = (uint32_t)all[i].BType,
                                        .c = (uint32_t)all[i].CType,
                                        .result = (uint32_t)all[i].DType,
                                        .saturating = i == 2,
                                        .scope = (uint32_t)all[i].scope};
    }
    list[*count] = list[0];
    list[*count].a = list[*count].b = VK_BF16_COMPONENT;
    (*count)++;
    return VK_SUCCESS;
}

static PFN_vkVoidFunction VKAPI_CALL function_find(VkInstance instance, const char *name)
{
    union {
        PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV list;
        PFN_vkVoidFunction any;
    } nv = {list_matrices};
    union {
        VkResult(VKAPI_PTR *list)(VkPhysicalDevice, uint32_t *, struct khr_property *);
        PFN_vkVoidFunction any;
    } khr = {list_khr_matrices};
    union {
        VkResult(VKAPI_PTR *list)(VkPhysicalDevice device, uint32_t *count, void *list);
        PFN_vkVoidFunction any;
    } flexible = {list_flexible};
    (void)instance;
    return strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV") == 0                     ? nv.any
           : strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR") == 0                  ? khr.any
           : strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV") == 0 ? flexible.any
                                                                                                     : NULL;
}

static struct vk_device_info device_without(unsigned what)
{
    static struct vk_device_info infos[VK_DEVICES_MAX];
    struct vk_instance in = {.vk = {.GetInstanceProcAddr = function_find,
                                    .EnumeratePhysicalDevices = list_devices,
                                    .EnumerateDeviceExtensionProperties = list_extensions,
                                    .GetPhysicalDeviceExternalBufferProperties = tell_buffers,
                                    .GetPhysicalDeviceFeatures2 = tell_features,
                                    .GetPhysicalDeviceProperties2 = tell_properties,
                                    .GetPhysicalDeviceMemoryProperties = tell_memory}};
    struct pen_error error = {0};
    uint32_t count = 0;
    lacks = what;
    cr_assert_eq(vk_instance_devices(&in, infos, &count, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(count, 1u);
    return infos[0];
}

struct asked {
    const char *name;
    char value[256];
};

static void hear(void *context, const char *name, const char *value)
{
    struct asked *asked = context;
    if (strcmp(name, asked->name) == 0) {
        snprintf(asked->value, sizeof asked->value, "%s", value);
    }
}

static const char *value_of(const struct vk_device_info *info, const char *name)
{
    static struct asked asked;
    asked = (struct asked){.name = name};
    vk_features_say(info, hear, &asked);
    return asked.value;
}

Test(facts, a_device_has_what_its_driver_says_and_nothing_else)
{
    static const struct {
        const char *fact;
        unsigned needs;
    } rows[] = {
#define CPU_FACT(fact, word)
#define VK_FACT(fact, needs) {#fact, needs},
#define OWN_FACT(fact)
#include "facts.def"
#undef CPU_FACT
#undef VK_FACT
#undef OWN_FACT
    };
    for (unsigned without = 0; without <= NEEDS_COUNT; without++) {
        unsigned missing = without > 0 ? 1u << (without - 1) : 0;
        struct vk_device_info info = device_without(missing);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            cr_expect_str_eq(value_of(&info, rows[i].fact), (rows[i].needs & missing) == 0 ? "on" : "off",
                             "%s without %u", rows[i].fact, missing);
        }
    }
}

#define KINDS "f16 f16 f32 16x16x16, s8 s8 s32 16x16x32, bf16 bf16 f32 16x16x16"

Test(facts, vk_coopmat_vk_coopmat_kinds)
{
    struct vk_device_info info = device_without(0);
    cr_expect_str_eq(value_of(&info, "vk_coopmat"), "khr 16x16x16, bytes 16x16x32");
    cr_expect_str_eq(value_of(&info, "vk_coopmat_kinds"), KINDS);
    info = device_without(NEEDS_F16_MATH);
    cr_expect_str_eq(value_of(&info, "vk_coopmat"), "khr bytes 16x16x32");
    info = device_without(NEEDS_KHR);
    cr_expect_str_eq(value_of(&info, "vk_coopmat"), "nv 16x16x16");
    info = device_without(NEEDS_MODEL);
    cr_expect_str_eq(value_of(&info, "vk_coopmat"), "none", "we cannot use them");
    cr_expect_str_eq(value_of(&info, "vk_coopmat_kinds"), KINDS, "they are there");
    info = device_without(NEEDS_COOPMAT);
    cr_expect_str_eq(value_of(&info, "vk_coopmat_kinds"), "none");
}

/* They take KHR's matrices, Vulkan 1.3 on both sides, the extension with its feature, and no layer from before it. */
Test(facts, vk_coopmat_bf16f32)
{
    const struct vk_instance in = {.vk = {.GetInstanceProcAddr = function_find,
                                          .EnumerateDeviceExtensionProperties = list_extensions,
                                          .GetPhysicalDeviceFeatures2 = tell_features},
                                   .layer_version = VK_MAKE_API_VERSION(0, 1, 4, 320),
                                   .api_version = VK_API_VERSION_1_3};
    const VkPhysicalDeviceLimits limits = {.maxComputeWorkGroupInvocations = 1024,
                                           .maxComputeWorkGroupSize = {1024, 1, 1},
                                           .maxComputeSharedMemorySize = 65536};
    static const unsigned missing[] = {0, NEEDS_BF16, NEEDS_BF16_MATRICES, NEEDS_KHR, 0, 0, 0};
    struct vk_device_info info = device_without(0);
    cr_expect_str_eq(value_of(&info, "vk_coopmat_bf16f32"), "off", "a driver of 1.2");
    for (unsigned i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        struct vk_instance other = in;
        struct vk_device_info device = info;
        lacks = missing[i];
        device.api_version = i == 4 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3;
        other.api_version = i == 5 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3;
        other.validate = i == 6;
        vk_coopmat_read(&other, &device, &limits);
        cr_expect_str_eq(value_of(&device, "vk_coopmat_bf16f32"), i == 0 ? "on" : "off", "%u", i);
        cr_expect_eq((vk_precisions(&device, false) & 1u << PEN_PRECISION_BF16) != 0, i == 0, "%u", i);
        cr_expect(i != 0 || strcmp(value_of(&device, "vk_coopmat"), "khr 16x16x16, bytes 16x16x32, bf16 16x16x16") == 0,
                  "%s", value_of(&device, "vk_coopmat"));
    }
}

/* It takes KHR's matrices, Vulkan 1.3 on both sides, the extension, and no layer from before it. */
Test(facts, vk_coopmat2)
{
    struct vk_instance in = {.vk = {.GetInstanceProcAddr = function_find,
                                    .EnumerateDeviceExtensionProperties = list_extensions,
                                    .GetPhysicalDeviceFeatures2 = tell_features,
                                    .GetPhysicalDeviceProperties2 = tell_properties},
                             .api_version = VK_API_VERSION_1_3};
    struct vk_device_info info = device_without(0);
    cr_expect_str_eq(value_of(&info, "vk_coopmat2"), "none", "a driver of 1.2");
    info.coopmat.kind = VK_COOPMAT_KHR;
    info.api_version = VK_API_VERSION_1_3;
    vk_coopmat2_read(&in, &info);
    cr_expect_str_eq(value_of(&info, "vk_coopmat2"), "tensor 128: 16x16x16, 256: 16x16x16");
    cr_expect_eq(info.coopmat2.side_most, 512u);
    for (int without = 0; without < 5; without++) {
        struct vk_instance other = in;
        struct vk_device_info device = info;
        lacks = without == 0 ? NEEDS_COOPMAT2 : 0;
        device.coopmat.kind = without == 1 ? VK_COOPMAT_NV : VK_COOPMAT_KHR;
        device.api_version = without == 2 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3;
        other.api_version = without == 3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3;
        other.validate = without == 4;
        other.layer_version = VK_MAKE_API_VERSION(0, 1, 3, 290);
        vk_coopmat2_read(&other, &device);
        cr_expect_str_eq(value_of(&device, "vk_coopmat2"), "none", "without %d", without);
    }
}

Test(facts, vk_subgroup_size_vk_timeline)
{
    struct vk_device_info info = device_without(0);
    cr_expect_str_eq(value_of(&info, "vk_subgroup_size"), "24");
    cr_expect_str_eq(value_of(&info, "vk_timeline"), "on");
    cr_expect_null(info.unfit);
    info = device_without(NEEDS_TIMELINE);
    cr_expect_str_eq(info.unfit, "it has no timeline semaphores");
}
