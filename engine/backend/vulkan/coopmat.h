/*
 * coopmat.h - cooperative matrices: what a device offers of them, by VK_KHR_cooperative_matrix or VK_NV_cooperative_matrix, and one shader for both.
 *
 * Debian 12's headers and glslc know only the NV extension. So the shader is written for that one, and its SPIR-V is turned into the KHR form, word by word, where a
 * device offers that. The two differ in the type (KHR names the use of a matrix: left, right or sum) and in how a layout is told.
 * Threads: any (pure functions, but vk_coopmat_read).
 */
#ifndef VULKAN_COOPMAT_H
#define VULKAN_COOPMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/vulkan/loader.h"

struct vk_device_info;
struct vk_instance;

#define VK_KHR_COOPMAT_NAME "VK_KHR_cooperative_matrix"
#define VK_NV_COOPMAT_NAME  "VK_NV_cooperative_matrix"

enum vk_coopmat_kind { VK_COOPMAT_NONE, VK_COOPMAT_NV, VK_COOPMAT_KHR };

/* rows x depth times depth x outs, by one subgroup. All 0: none. */
struct vk_matrix_size {
    uint32_t rows, outs, depth;
    uint32_t subgroup; /* invocations */
};

/* What a matrix's elements are: f16 with f32 sums; signed bytes with sums of 32 bits; bf16 with f32 sums. */
enum vk_matrix_of { VK_MATRIX_HALVES, VK_MATRIX_BYTES, VK_MATRIX_BF16 };

struct vk_coopmat {
    enum vk_coopmat_kind kind;               /* NONE: all sizes are 0 */
    struct vk_matrix_size size, bytes, bf16; /* size: of halves. Those of bytes and of bf16 only by KHR */
};

/* One row of what a driver lists; both extensions number types and scopes alike. */
struct vk_coopmat_property {
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* 0 f16, 1 f32, 3 s8, 5 s32, VK_BF16_COMPONENT */
    uint32_t scope;           /* 3 subgroup */
};

/*
 * 16 x 16 and 32 bytes deep when there is one, else the largest whose rows and outputs divide 32, the part of a subgroup in conv_cm.glsl and qconv_cm.glsl, and whose
 * depth divides 64 bytes; outputs and depth in eights. False: none suits.
 */
bool vk_coopmat_pick(const struct vk_coopmat_property *list, uint32_t count, enum vk_matrix_of of, uint32_t subgroup,
                     struct vk_matrix_size *ret_size);
/* Everything the shader needs besides a size: subgroup, workgroup and shared memory within the limits. */
bool vk_coopmat_limits(uint32_t subgroup, const VkPhysicalDeviceLimits *limits);
/* Fills info->coopmat. Needs its features and subgroup size. */
void vk_coopmat_read(struct vk_instance *in, struct vk_device_info *info, const VkPhysicalDeviceLimits *limits);
/* All rows of a list that are of a subgroup, each kind once: "f16 f16 f32 16x16x16, s8 s8 s32 16x16x32". */
void vk_coopmat_kinds_text(const struct vk_coopmat_property *list, uint32_t count, char *text, size_t bytes);
/* "khr 16x16x16", "khr 16x16x16, bytes 16x16x32, bf16 16x16x16", "khr bytes 16x16x32", "none" */
void vk_coopmat_text(const struct vk_coopmat *c, char *text, size_t bytes);

/* The feature struct of the extension, to be chained when the device is opened; NULL for NONE. Borrowed: the caller's storage. */
union vk_coopmat_feature {
    VkPhysicalDeviceCooperativeMatrixFeaturesNV nv; /* that of KHR has the same members */
};
void *vk_coopmat_feature(enum vk_coopmat_kind kind, union vk_coopmat_feature *storage, void *next);

/*
 * The KHR form of a module written for NV. Gives *ret_words (to be freed). False: no memory, or the module is not of the shape glslc makes.
 * Numbers of SPV_NV_cooperative_matrix and SPV_KHR_cooperative_matrix.
 */
bool vk_coopmat_khr(const uint32_t *words, size_t count, uint32_t **ret_words, size_t *ret_count);

#endif
