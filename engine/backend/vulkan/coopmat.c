#include "backend/vulkan/coopmat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/bf16.h"
#include "backend/vulkan/instance.h"

/* VK_KHR_cooperative_matrix is younger than Debian 12's headers; these are its numbers. Its structs have the members of NV's (the properties one more at the end). */
#define KHR_FEATURES   ((VkStructureType)1000506000)
#define KHR_PROPERTIES ((VkStructureType)1000506001)

struct khr_property {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    uint32_t a, b, c, result;
    VkBool32 saturating;
    uint32_t scope;
};
typedef VkResult(VKAPI_PTR *khr_list_function)(VkPhysicalDevice device, uint32_t *count, struct khr_property *list);

#define LIST_MOST 256u

enum { SCOPE_SUBGROUP = 3 };

/* Types as the extensions number them. */
static const struct {
    uint32_t element, sum;
    uint32_t bytes; /* of an element */
} elements[] = {
    [VK_MATRIX_HALVES] = {0, 1, 2}, [VK_MATRIX_BYTES] = {3, 5, 1}, [VK_MATRIX_BF16] = {VK_BF16_COMPONENT, 1, 2}};

static bool suits(const struct vk_coopmat_property *p, enum vk_matrix_of of)
{
    const uint32_t element = elements[of].element, sum = elements[of].sum;
    return p->a == element && p->b == element && p->c == sum && p->result == sum && p->scope == SCOPE_SUBGROUP &&
           p->m > 0 && p->n >= 8 && p->k >= 8 && 32 % p->m == 0 && 32 % p->n == 0 &&
           64 / elements[of].bytes % p->k == 0; /* shared memory is written in eights */
}

/* How much a size is wanted. */
static uint32_t worth(const struct vk_coopmat_property *p, enum vk_matrix_of of)
{
    return p->m == 16 && p->n == 16 && p->k * elements[of].bytes == 32 ? UINT32_MAX : p->m * p->n * p->k;
}

bool vk_coopmat_pick(const struct vk_coopmat_property *list, uint32_t count, enum vk_matrix_of of, uint32_t subgroup,
                     struct vk_matrix_size *ret_size)
{
    const struct vk_coopmat_property *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (suits(&list[i], of) && (best == NULL || worth(&list[i], of) > worth(best, of))) {
            best = &list[i];
        }
    }
    if (best == NULL) {
        return false;
    }
    *ret_size = (struct vk_matrix_size){best->m, best->n, best->k, subgroup};
    return true;
}

#define SHARED_BYTES 28672u /* of conv_cm.glsl and qconv_cm.glsl, rounded up */

bool vk_coopmat_limits(uint32_t subgroup, const VkPhysicalDeviceLimits *limits)
{
    return subgroup >= 8 && subgroup <= 64 && 4 * subgroup <= limits->maxComputeWorkGroupInvocations &&
           4 * subgroup <= limits->maxComputeWorkGroupSize[0] && limits->maxComputeSharedMemorySize >= SHARED_BYTES;
}

/* ---- what a driver lists ---- */

static uint32_t khr_list(struct vk_instance *in, VkPhysicalDevice device, struct vk_coopmat_property *list)
{
    union {
        PFN_vkVoidFunction any;
        khr_list_function list;
    } f = {in->vk.GetInstanceProcAddr(in->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")};
    struct khr_property *all = calloc(LIST_MOST, sizeof *all);
    uint32_t count = LIST_MOST;
    for (uint32_t i = 0; all != NULL && i < LIST_MOST; i++) {
        all[i].sType = KHR_PROPERTIES;
    }
    VkResult result = all != NULL && f.any != NULL ? f.list(device, &count, all) : VK_ERROR_UNKNOWN;
    count = result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct vk_coopmat_property){all[i].m, all[i].n, all[i].k,      all[i].a,
                                               all[i].b, all[i].c, all[i].result, all[i].scope};
    }
    free(all);
    return count;
}

static uint32_t nv_list(struct vk_instance *in, VkPhysicalDevice device, struct vk_coopmat_property *list)
{
    union {
        PFN_vkVoidFunction any;
        PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV list;
    } f = {in->vk.GetInstanceProcAddr(in->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV")};
    VkCooperativeMatrixPropertiesNV *all = calloc(LIST_MOST, sizeof *all);
    uint32_t count = LIST_MOST;
    for (uint32_t i = 0; all != NULL && i < LIST_MOST; i++) {
        all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
    }
    VkResult result = all != NULL && f.any != NULL ? f.list(device, &count, all) : VK_ERROR_UNKNOWN;
    count = result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct vk_coopmat_property){all[i].MSize,           all[i].NSize,           all[i].KSize,
                                               (uint32_t)all[i].AType, (uint32_t)all[i].BType, (uint32_t)all[i].CType,
                                               (uint32_t)all[i].DType, (uint32_t)all[i].scope};
    }
    free(all);
    return count;
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"f16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"};
    return type < sizeof names / sizeof names[0] ? names[type] : type == VK_BF16_COMPONENT ? "bf16" : "other";
}

/* Saturating ones are listed a second time. */
static bool listed_before(const struct vk_coopmat_property *list, uint32_t i)
{
    uint32_t j = 0;
    while (j < i &&
           (list[j].m != list[i].m || list[j].n != list[i].n || list[j].k != list[i].k || list[j].a != list[i].a ||
            list[j].b != list[i].b || list[j].result != list[i].result || list[j].scope != list[i].scope)) {
        j++;
    }
    return j < i;
}

void vk_coopmat_kinds_text(const struct vk_coopmat_property *list, uint32_t count, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        char one[64];
        const struct vk_coopmat_property *p = &list[i];
        int n = snprintf(one, sizeof one, "%s %s %s %ux%ux%u", type_name(p->a), type_name(p->b), type_name(p->result),
                         p->m, p->n, p->k);
        if (p->scope != SCOPE_SUBGROUP || listed_before(list, i) || n < 0 || used + (size_t)n + 3 > bytes) {
            continue;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", one);
    }
}

/* Sizes that suit, where the shaders with them have all that they need. False: none. */
static bool sizes_pick(struct vk_instance *in, const struct vk_coopmat_property *list, uint32_t count, bool khr,
                       struct vk_device_info *info)
{
    struct vk_coopmat *c = &info->coopmat;
    const bool halves = info->f16_storage && info->f16_math &&
                        vk_coopmat_pick(list, count, VK_MATRIX_HALVES, info->subgroup_size, &c->size);
    const bool bytes =
        khr && info->i8_arithmetic && vk_coopmat_pick(list, count, VK_MATRIX_BYTES, info->subgroup_size, &c->bytes);
    const bool bf16 =
        khr && vk_bf16_there(in, info) && vk_coopmat_pick(list, count, VK_MATRIX_BF16, info->subgroup_size, &c->bf16);
    return halves || bytes || bf16;
}

/* The extension and its feature are there; whether it lists a size that suits. */
static bool kind_read(struct vk_instance *in, struct vk_device_info *info, enum vk_coopmat_kind kind)
{
    struct vk_coopmat_property list[LIST_MOST];
    union vk_coopmat_feature feature;
    bool khr = kind == VK_COOPMAT_KHR;
    if (!vk_extension_there(&in->vk, info->handle, khr ? VK_KHR_COOPMAT_NAME : VK_NV_COOPMAT_NAME)) {
        return false;
    }
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = vk_coopmat_feature(kind, &feature, NULL)};
    feature.nv.cooperativeMatrix = VK_FALSE;
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    uint32_t count = khr ? khr_list(in, info->handle, list) : nv_list(in, info->handle, list);
    if (feature.nv.cooperativeMatrix && info->coopmat_kinds[0] == '\0') {
        vk_coopmat_kinds_text(list, count, info->coopmat_kinds, sizeof info->coopmat_kinds);
    }
    return feature.nv.cooperativeMatrix && sizes_pick(in, list, count, khr, info);
}

/* A validation layer from before the extension takes every use of it for an error. */
static bool layer_knows_khr(const struct vk_instance *in)
{
    return !in->validate || in->layer_version >= VK_MAKE_API_VERSION(0, 1, 3, 255);
}

void vk_coopmat_read(struct vk_instance *in, struct vk_device_info *info, const VkPhysicalDeviceLimits *limits)
{
    bool khr = layer_knows_khr(in) && info->subgroups_full && kind_read(in, info, VK_COOPMAT_KHR);
    bool nv = !khr && kind_read(in, info, VK_COOPMAT_NV);
    bool usable = info->memory_model && vk_coopmat_limits(info->subgroup_size, limits);
    if (!usable || (!khr && !nv)) {
        info->coopmat = (struct vk_coopmat){0};
        return;
    }
    info->coopmat.kind = khr ? VK_COOPMAT_KHR : VK_COOPMAT_NV;
}

void vk_coopmat_text(const struct vk_coopmat *c, char *text, size_t bytes)
{
    if (c->kind == VK_COOPMAT_NONE) {
        snprintf(text, bytes, "none");
    } else {
        const struct vk_matrix_size *const sizes[] = {&c->size, &c->bytes, &c->bf16};
        static const char *const names[] = {"", " bytes", " bf16"};
        const char *between = "";
        int used = snprintf(text, bytes, "%s", c->kind == VK_COOPMAT_KHR ? "khr" : "nv");
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            if (sizes[i]->rows != 0 && (size_t)used < bytes) {
                used += snprintf(text + used, bytes - (size_t)used, "%s%s %ux%ux%u", between, names[i], sizes[i]->rows,
                                 sizes[i]->outs, sizes[i]->depth);
                between = ",";
            }
        }
    }
}

void *vk_coopmat_feature(enum vk_coopmat_kind kind, union vk_coopmat_feature *storage, void *next)
{
    if (kind == VK_COOPMAT_NONE) {
        return next;
    }
    storage->nv = (VkPhysicalDeviceCooperativeMatrixFeaturesNV){
        .sType =
            kind == VK_COOPMAT_KHR ? KHR_FEATURES : VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
        .pNext = next,
        .cooperativeMatrix = VK_TRUE};
    return &storage->nv;
}
