/*
 * coopmat2.h - matrices of a whole workgroup: what a device offers of VK_NV_cooperative_matrix2, and which form of family `cm2` it can run.
 *
 * The extension is younger than Debian 12's headers; coopmat2.c has its numbers and structs. It builds on VK_KHR_cooperative_matrix, and its shaders are SPIR-V 1.6: instance
 * and device must be of Vulkan 1.3. A device is chosen by what it lists, whoever makes it.
 * Threads: any (pure functions, but vk_coopmat2_read).
 */
#ifndef VULKAN_COOPMAT2_H
#define VULKAN_COOPMAT2_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/vulkan/loader.h"

struct vk_device_info;
struct vk_instance;

#define VK_COOPMAT2_NAME "VK_NV_cooperative_matrix2"

enum vk_coopmat2_form {
    VK_COOPMAT2_NONE,
    VK_COOPMAT2_STAGED, /* matrices of a subgroup, brought by our own loads: for tests on drivers that have no more */
    VK_COOPMAT2_TENSOR  /* matrices of a workgroup, brought by tensor addressing */
};

/* Sides of matrices are multiples of these: f16 in, f32 sums, f16 results. rows 0: none with so many invocations. */
struct vk_granule {
    uint32_t rows, outs, depth, invocations;
};
#define VK_GRANULES 2 /* workgroups of 128 and of 256 invocations; STAGED has the first alone, of one subgroup */

struct vk_coopmat2 {
    enum vk_coopmat2_form form;
    struct vk_granule granules[VK_GRANULES];
    uint32_t side_most; /* of a matrix */
};

/* One row of what a driver lists, types and scopes as in coopmat.h; scope 2: a workgroup. */
struct vk_coopmat2_property {
    uint32_t m, n, k;
    uint32_t a, b, c, result;
    uint32_t scope, invocations;
};
/* The features that kernels of the family may use. */
struct vk_coopmat2_features {
    bool workgroup, flexible, per_element, tensor;
};
/* The best form by features and rows. */
struct vk_coopmat2 vk_coopmat2_pick(const struct vk_coopmat2_features *features,
                                    const struct vk_coopmat2_property *list, uint32_t count, uint32_t subgroup);

/* Fills info->coopmat2. Needs its features and cooperative matrices. */
void vk_coopmat2_read(struct vk_instance *in, struct vk_device_info *info);
/* "tensor 128: 16x16x16, 256: 32x16x16", "none" */
void vk_coopmat2_text(const struct vk_coopmat2 *c, char *text, size_t bytes);

/* What switches its features on, to be chained when the device is opened; `next` for NONE. Borrowed: the caller's storage. */
struct vk_coopmat2_switch {
    struct vk_coopmat2_bits {
        VkStructureType sType;
        void *pNext;
        VkBool32 workgroup, flexible, reductions, conversions, per_element, tensor, block_loads;
    } matrices;
    VkPhysicalDeviceMaintenance4Features sizes; /* SPIR-V 1.6 gives the size of a workgroup by id */
};
void *vk_coopmat2_feature(const struct vk_coopmat2 *c, struct vk_coopmat2_switch *storage, void *next);

#endif
