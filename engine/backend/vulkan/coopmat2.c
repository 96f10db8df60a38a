#include "backend/vulkan/coopmat2.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/vulkan/instance.h"

#define CM2_FEATURES   ((VkStructureType)1000593000)
#define CM2_ROWS       ((VkStructureType)1000593001)
#define CM2_PROPERTIES ((VkStructureType)1000593002)

struct cm2_row {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    uint32_t a, b, c, result;
    VkBool32 saturating;
    uint32_t scope, invocations;
};
struct cm2_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t workgroup_most, side_most, shared_reserved;
};
typedef VkResult(VKAPI_PTR *cm2_list_function)(VkPhysicalDevice device, uint32_t *count, struct cm2_row *list);

#define LIST_MOST 256u

enum { TYPE_F16 = 0, TYPE_F32 = 1, SCOPE_WORKGROUP = 2, SCOPE_SUBGROUP = 3 };

/* ---- the choice ---- */

/* The finest row with f16 in and this type of sum. */
static const struct vk_coopmat2_property *finest(const struct vk_coopmat2_property *list, uint32_t count, uint32_t sum,
                                                 uint32_t scope, uint32_t invocations)
{
    const struct vk_coopmat2_property *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct vk_coopmat2_property *p = &list[i];
        bool suits = p->a == TYPE_F16 && p->b == TYPE_F16 && p->c == sum && p->result == sum && p->scope == scope &&
                     (scope == SCOPE_SUBGROUP || p->invocations == invocations) && p->m > 0 && p->n > 0 && p->k > 0;
        if (suits && (best == NULL || p->m * p->n * p->k < best->m * best->n * best->k)) {
            best = p;
        }
    }
    return best;
}

/* A multiple of both, where one is a multiple of the other; else 0. */
static uint32_t both(uint32_t a, uint32_t b)
{
    const uint32_t more = a > b ? a : b, less = a > b ? b : a;
    return more % less == 0 ? more : 0;
}

/* Results are f16: they leave as a matrix of that type, which must be in the list, too. */
static struct vk_granule granule_of(const struct vk_coopmat2_property *list, uint32_t count, uint32_t scope,
                                    uint32_t invocations)
{
    const struct vk_coopmat2_property *p = finest(list, count, TYPE_F32, scope, invocations),
                                      *q = finest(list, count, TYPE_F16, scope, invocations);
    if (p == NULL || q == NULL) {
        return (struct vk_granule){0};
    }
    const struct vk_granule g = {both(p->m, q->m), both(p->n, q->n), p->k, invocations};
    return g.rows != 0 && g.outs != 0 ? g : (struct vk_granule){0};
}

struct vk_coopmat2 vk_coopmat2_pick(const struct vk_coopmat2_features *features,
                                    const struct vk_coopmat2_property *list, uint32_t count, uint32_t subgroup)
{
    struct vk_coopmat2 c = {0};
    if (!features->flexible || !features->per_element) {
        return c;
    }
    if (features->workgroup && features->tensor) {
        c.granules[0] = granule_of(list, count, SCOPE_WORKGROUP, 128);
        c.granules[1] = granule_of(list, count, SCOPE_WORKGROUP, 256);
        c.form = c.granules[0].rows > 0 || c.granules[1].rows > 0 ? VK_COOPMAT2_TENSOR : VK_COOPMAT2_NONE;
    }
    if (c.form == VK_COOPMAT2_NONE) {
        c.granules[0] = granule_of(list, count, SCOPE_SUBGROUP, subgroup);
        c.form = c.granules[0].rows > 0 ? VK_COOPMAT2_STAGED : VK_COOPMAT2_NONE;
    }
    return c;
}

/* ---- what a driver lists ---- */

static uint32_t rows_list(struct vk_instance *in, VkPhysicalDevice device, struct vk_coopmat2_property *list)
{
    union {
        PFN_vkVoidFunction any;
        cm2_list_function list;
    } f = {
        in->vk.GetInstanceProcAddr(in->handle, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV")};
    struct cm2_row *all = calloc(LIST_MOST, sizeof *all);
    uint32_t count = LIST_MOST;
    for (uint32_t i = 0; all != NULL && i < LIST_MOST; i++) {
        all[i].sType = CM2_ROWS;
    }
    VkResult result = all != NULL && f.any != NULL ? f.list(device, &count, all) : VK_ERROR_UNKNOWN;
    count = result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct vk_coopmat2_property){all[i].m, all[i].n,      all[i].k,     all[i].a,          all[i].b,
                                                all[i].c, all[i].result, all[i].scope, all[i].invocations};
    }
    free(all);
    return count;
}

/* A validation layer from before the extension takes every use of it for an error. */
static bool layer_knows(const struct vk_instance *in)
{
    return !in->validate || in->layer_version >= VK_MAKE_API_VERSION(0, 1, 4, 303);
}

void vk_coopmat2_read(struct vk_instance *in, struct vk_device_info *info)
{
    struct vk_coopmat2_property list[LIST_MOST];
    struct vk_coopmat2_bits has = {.sType = CM2_FEATURES};
    struct cm2_properties limits = {.sType = CM2_PROPERTIES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &has};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &limits};
    info->coopmat2 = (struct vk_coopmat2){0};
    if (info->coopmat.kind != VK_COOPMAT_KHR || in->api_version < VK_API_VERSION_1_3 ||
        info->api_version < VK_API_VERSION_1_3 || !layer_knows(in) ||
        !vk_extension_there(&in->vk, info->handle, VK_COOPMAT2_NAME)) {
        return;
    }
    in->vk.GetPhysicalDeviceFeatures2(info->handle, &features);
    in->vk.GetPhysicalDeviceProperties2(info->handle, &properties);
    const struct vk_coopmat2_features may = {has.workgroup, has.flexible, has.per_element, has.tensor};
    const uint32_t count = rows_list(in, info->handle, list);
    info->coopmat2 = vk_coopmat2_pick(&may, list, count, info->subgroup_size);
    info->coopmat2.side_most = limits.side_most;
}

void vk_coopmat2_text(const struct vk_coopmat2 *c, char *text, size_t bytes)
{
    static const char *const names[] = {"none", "staged", "tensor"};
    const char *between = "";
    size_t used = (size_t)snprintf(text, bytes, "%s", names[c->form]);
    for (uint32_t i = 0; i < VK_GRANULES && c->form != VK_COOPMAT2_NONE; i++) {
        const struct vk_granule *g = &c->granules[i];
        if (g->rows > 0 && used < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "%s %u: %ux%ux%u", between, g->invocations, g->rows,
                                     g->outs, g->depth);
            between = ",";
        }
    }
}

void *vk_coopmat2_feature(const struct vk_coopmat2 *c, struct vk_coopmat2_switch *storage, void *next)
{
    if (c->form == VK_COOPMAT2_NONE) {
        return next;
    }
    const VkBool32 tensor = c->form == VK_COOPMAT2_TENSOR;
    storage->sizes = (VkPhysicalDeviceMaintenance4Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, .pNext = next, .maintenance4 = VK_TRUE};
    storage->matrices = (struct vk_coopmat2_bits){.sType = CM2_FEATURES,
                                                  .pNext = &storage->sizes,
                                                  .workgroup = tensor,
                                                  .flexible = VK_TRUE,
                                                  .per_element = VK_TRUE,
                                                  .tensor = tensor};
    return &storage->matrices;
}
