/* Which family runs a product, by class of device, features and table; the cooperative matrices' sizes and the KHR form of their shader. No device is needed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/bf16.h"
#include "backend/vulkan/coopmat.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/shader.h"

static enum vk_family family(const struct vk_kernels *k, enum vk_product_kind kind, size_t rows, size_t outs,
                             size_t depth)
{
    const struct vk_product_shape shape = {kind, rows, outs, depth, 1};
    return vk_choose(k, &shape).family;
}

Test(vulkan_kernels, the_rules_of_hardware)
{
    struct vk_kernels k = {.device = VK_CLASS_NVIDIA};
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 1, 1000, 2048), VK_FAMILY_GEMV);
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 900, 1, 2048), VK_FAMILY_GEMV);
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 49, 512, 4608), VK_FAMILY_SPLIT);
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 12544, 64, 576), VK_FAMILY_TILED);
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 49, 8, 27), VK_FAMILY_SIMPLE);
    cr_assert_eq(family(&k, VK_PRODUCT_BATCH, 64, 64, 4096), VK_FAMILY_TILED);
}

Test(vulkan_kernels, software_keeps_to_simple_until_a_table_says_otherwise)
{
    struct vk_kernels k = {.device = VK_CLASS_SOFTWARE};
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, 1, 1000, 2048, 1};
    cr_assert_eq(vk_choose(&k, &shape).family, VK_FAMILY_SIMPLE);
    k.tuned[vk_class_of(&shape)] = VK_FAMILY_GEMV;
    cr_assert_eq(vk_choose(&k, &shape).family, VK_FAMILY_GEMV);
    k.tuned[vk_class_of(&shape)] = VK_FAMILY_CM; /* from another precision: cannot run here */
    cr_assert_eq(vk_choose(&k, &shape).family, VK_FAMILY_SIMPLE);
    k.only = VK_FAMILY_TILED;
    cr_assert_eq(vk_choose(&k, &shape).family, VK_FAMILY_TILED);
}

Test(vulkan_kernels, cooperative_matrices_where_the_device_has_them)
{
    struct vk_kernels k = {.device = VK_CLASS_AMD, .cm = true};
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 12544, 64, 576), VK_FAMILY_CM);
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 1, 1000, 2048), VK_FAMILY_GEMV);
    cr_assert_eq(family(&k, VK_PRODUCT_BATCH, 512, 64, 512), VK_FAMILY_CM);
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 49, 512, 4608), VK_FAMILY_CM, "its depth is cut, too");
    k.cm = false;
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 12544, 64, 576), VK_FAMILY_TILED);
    k.only = VK_FAMILY_CM;
    cr_assert_eq(family(&k, VK_PRODUCT_WINDOW, 12544, 64, 576), VK_FAMILY_SIMPLE);
}

Test(vulkan_kernels, tiles_of_cooperative_matrices)
{
    struct vk_kernels k = {
        .device = VK_CLASS_NVIDIA, .cm = true, .subgroup = 32, .invocations = 1024, .shared_bytes = 49152};
    const struct vk_product_shape large = {VK_PRODUCT_MATRIX, 4096, 4096, 4096, 1},
                                  few = {VK_PRODUCT_WINDOW, 6272, 256, 2304, 1},
                                  narrow = {VK_PRODUCT_WINDOW, 100352, 64, 576, 1};
    struct vk_choice c = vk_choice_of(&k, VK_FAMILY_CM, &large);
    cr_assert(c.tile == 256 && c.outs == 128 && c.width == 64 && c.down == 4 && c.depth == 32 && c.swizzle == 8);
    c = vk_choice_of(&k, VK_FAMILY_CM, &few);
    cr_assert(c.tile == 64 && c.outs == 64 && c.width == 32 && c.stages == 2,
              "98 large tiles leave multiprocessors idle");
    c = vk_choice_of(&k, VK_FAMILY_CM, &narrow);
    cr_assert_eq(c.outs, 64);
    k.device = VK_CLASS_AMD;
    c = vk_choice_of(&k, VK_FAMILY_CM, &large);
    cr_assert(c.tile == 128 && c.outs == 128 && c.stages == 2, "each class of devices has tiles of its own");
    k.shared_bytes = 32768;
    c = vk_choice_of(&k, VK_FAMILY_CM, &large);
    cr_assert(c.tile == 128 && c.stages == 1, "two stages of large tiles do not fit");
    k.shared_bytes = 16384;
    c = vk_choice_of(&k, VK_FAMILY_CM, &large);
    cr_assert(c.tile == 64 && c.stages == 1);
    k.shared_bytes = 49152;
    k.subgroup = 64;
    k.invocations = 128;
    cr_assert_eq(vk_choice_of(&k, VK_FAMILY_CM, &large).tile, 64);
}

/* A class of products in the table: its tile where it fits the device, else by the rules. */
Test(vulkan_kernels, the_table_names_a_tile)
{
    struct vk_kernels k = {
        .device = VK_CLASS_NVIDIA, .cm = true, .subgroup = 32, .invocations = 1024, .shared_bytes = 49152};
    const struct vk_product_shape large = {VK_PRODUCT_MATRIX, 4096, 4096, 4096, 1},
                                  deep = {VK_PRODUCT_WINDOW, 49, 512, 4608, 1};
    char text[32];
    uint32_t seen = 0;
    for (uint32_t i = 0; i < vk_cm_tiles(); i++) {
        k.tuned[vk_class_of(&large)] = vk_tuned_of(VK_FAMILY_CM, i + 1);
        cr_assert(vk_tuned_valid(VK_PRODUCT_MATRIX, k.tuned[vk_class_of(&large)]));
        const struct vk_choice c = vk_choose(&k, &large);
        vk_tuned_text(VK_PRODUCT_MATRIX, k.tuned[vk_class_of(&large)], text, sizeof text);
        char want[32];
        snprintf(want, sizeof want, "cm %ux%ux%u", c.tile, c.outs, c.depth);
        cr_assert_str_eq(text, want);
        seen |= c.tile;
        cr_assert_eq(c.splits, 1);
    }
    cr_assert_eq(seen, 32u | 64u | 128u | 256u);
    k.shared_bytes = 32768;
    k.tuned[vk_class_of(&large)] = vk_tuned_of(VK_FAMILY_CM, 1); /* 256 x 256 x 32 takes more */
    cr_assert_neq(vk_choose(&k, &large).outs, 256);
    cr_assert_not(vk_tuned_valid(VK_PRODUCT_MATRIX, vk_tuned_of(VK_FAMILY_TILED, 1)));
    cr_assert_not(vk_tuned_valid(VK_PRODUCT_MATRIX, vk_tuned_of(VK_FAMILY_CM, vk_cm_tiles() + 1)));
    cr_assert_eq(vk_choose(&k, &deep).splits, 16, "8 tiles of a device with 128 places");
    vk_tuned_text(VK_PRODUCT_MATRIX, VK_FAMILY_SPLIT, text, sizeof text);
    cr_assert_str_eq(text, "split");
    cr_assert(vk_tuned_valid(VK_PRODUCT_BYTES, vk_tuned_of(VK_FAMILY_TILED, 1)));
    cr_assert_not(vk_tuned_valid(VK_PRODUCT_BYTE_WINDOWS, vk_tuned_of(VK_FAMILY_TILED, 2)));
    vk_tuned_text(VK_PRODUCT_BYTES, vk_tuned_of(VK_FAMILY_TILED, 1), text, sizeof text);
    cr_assert_str_eq(text, "tiled plain");
    vk_tuned_text(VK_PRODUCT_BYTES, vk_tuned_of(VK_FAMILY_CM, 9), text, sizeof text);
    cr_assert_str_eq(text, "cm 64x64x64", "steps of bytes are twice as deep");
}

Test(vulkan_kernels, the_depth_is_cut_as_far_as_the_device_is_idle)
{
    struct vk_kernels k = {.device = VK_CLASS_NVIDIA};
    const struct vk_product_shape small = {VK_PRODUCT_WINDOW, 49, 512, 4608, 1},
                                  wide = {VK_PRODUCT_WINDOW, 196, 512, 4608, 1},
                                  shallow = {VK_PRODUCT_WINDOW, 49, 64, 300, 1};
    cr_assert_eq(vk_choice_of(&k, VK_FAMILY_SPLIT, &small).splits, 16);
    cr_assert_eq(vk_choice_of(&k, VK_FAMILY_SPLIT, &wide).splits, 4);
    cr_assert_eq(vk_choice_of(&k, VK_FAMILY_SPLIT, &shallow).splits, 2);
    cr_assert_eq(vk_choice_of(&k, VK_FAMILY_TILED, &small).splits, 1);
}

/* As many as fill the device, but no more than are worth it. */
Test(vulkan_kernels, pieces_of_work_that_leaves_a_device_idle)
{
    struct vk_kernels k = {.device = VK_CLASS_NVIDIA};
    cr_expect_eq(vk_pieces_of(&k, 8, 100), 16);
    cr_expect_eq(vk_pieces_of(&k, 32, 100), 4);
    cr_expect_eq(vk_pieces_of(&k, 32, 3), 3);
    cr_expect_eq(vk_pieces_of(&k, 1, 100), 16, "the most");
    cr_expect_eq(vk_pieces_of(&k, 65, 100), 1, "more than half is busy");
    cr_expect_eq(vk_pieces_of(&k, 8, 1), 1);
    k.device = VK_CLASS_SOFTWARE;
    cr_expect_eq(vk_pieces_of(&k, 1, 100), 1);
    k.splits = 5;
    cr_expect_eq(vk_pieces_of(&k, 1, 1), 5, "asked for");
}

Test(vulkan_kernels, every_class_has_a_number_and_a_name)
{
    static const size_t sizes[] = {1, 4, 8, 31, 32, 64, 128, 255, 256, 512, 2047, 2048, 1 << 20};
    char text[96];
    for (uint32_t kind = 0; kind < VK_PRODUCT_KINDS; kind++) {
        for (size_t i = 0; i < 13 * 13 * 13; i++) {
            const struct vk_product_shape s = {(enum vk_product_kind)kind, sizes[i % 13], sizes[i / 13 % 13],
                                               sizes[i / 169], 1};
            cr_assert_lt(vk_class_of(&s), VK_CLASSES);
        }
    }
    const struct vk_product_shape s = {VK_PRODUCT_WINDOW, 49, 512, 4608, 1};
    vk_class_text(vk_class_of(&s), text, sizeof text);
    cr_assert_str_eq(text, "window rows 9-64 outs 129-512 depth 2048-");
    enum vk_family f = VK_FAMILY_COUNT;
    cr_assert(vk_family_read("split", &f) && f == VK_FAMILY_SPLIT);
    cr_assert(vk_family_read(NULL, &f) && f == VK_FAMILY_AUTO);
    cr_assert_not(vk_family_read("winograd", &f));
}

Test(vulkan_kernels, vendors_have_classes)
{
    cr_assert_eq(vk_device_class_of(0x10DE, false), VK_CLASS_NVIDIA);
    cr_assert_eq(vk_device_class_of(0x1002, false), VK_CLASS_AMD);
    cr_assert_eq(vk_device_class_of(0x8086, false), VK_CLASS_INTEL);
    cr_assert_eq(vk_device_class_of(0x5143, false), VK_CLASS_OTHER);
    cr_assert_eq(vk_device_class_of(0x10005, true), VK_CLASS_SOFTWARE);
}

Test(vulkan_kernels, the_size_of_the_matrices)
{
    static const struct vk_coopmat_property list[] = {
        {16, 16, 16, 0, 0, 0, 0, 3},                                                           /* f16 sums */
        {16, 16, 32, 3, 3, 5, 5, 3},                                                           /* integers */
        {64, 64, 64, 0, 0, 1, 1, 3},                                                           /* too large */
        {16, 8, 16, 0, 0, 1, 1, 3},  {8, 16, 16, 0, 0, 1, 1, 3},  {16, 16, 16, 0, 0, 1, 1, 2}, /* of a workgroup */
        {16, 16, 16, 0, 0, 1, 1, 3}, {32, 32, 16, 0, 0, 1, 1, 3},
    };
    struct vk_matrix_size size = {0};
    cr_assert(vk_coopmat_pick(list, 8, VK_MATRIX_HALVES, 32, &size));
    cr_assert(size.rows == 16 && size.outs == 16 && size.depth == 16 && size.subgroup == 32);
    cr_assert(vk_coopmat_pick(list, 5, VK_MATRIX_HALVES, 8, &size));
    cr_assert(size.rows == 16 && size.outs == 8 && size.depth == 16 && size.subgroup == 8);
    cr_assert_not(vk_coopmat_pick(list, 3, VK_MATRIX_HALVES, 32, &size));
    VkPhysicalDeviceLimits limits = {.maxComputeWorkGroupInvocations = 1024,
                                     .maxComputeWorkGroupSize = {1024, 1024, 64},
                                     .maxComputeSharedMemorySize = 32768};
    cr_assert(vk_coopmat_limits(64, &limits));
    cr_assert_not(vk_coopmat_limits(128, &limits));
    limits.maxComputeSharedMemorySize = 16384;
    cr_assert_not(vk_coopmat_limits(32, &limits));
}

Test(vulkan_kernels, the_size_of_the_matrices_of_bytes)
{
    static const struct vk_coopmat_property list[] = {
        {16, 16, 16, 0, 0, 1, 1, 3}, /* halves */
        {16, 16, 32, 7, 7, 9, 9, 3}, /* without signs */
        {16, 16, 32, 3, 7, 5, 5, 3}, /* one side without */
        {16, 16, 32, 3, 3, 5, 3, 3}, /* sums that are cut to bytes */
        {64, 16, 32, 3, 3, 5, 5, 3}, /* too large */
        {16, 16, 32, 3, 3, 5, 5, 2}, /* of a workgroup */
        {8, 8, 32, 3, 3, 5, 5, 3},   {32, 32, 64, 3, 3, 5, 5, 3}, {16, 16, 32, 3, 3, 5, 5, 3},
    };
    struct vk_matrix_size size = {0};
    cr_assert(vk_coopmat_pick(list, 9, VK_MATRIX_BYTES, 32, &size));
    cr_assert(size.rows == 16 && size.outs == 16 && size.depth == 32 && size.subgroup == 32);
    cr_assert(vk_coopmat_pick(list, 8, VK_MATRIX_BYTES, 16, &size));
    cr_assert(size.rows == 32 && size.outs == 32 && size.depth == 64 && size.subgroup == 16);
    cr_assert(vk_coopmat_pick(list, 7, VK_MATRIX_BYTES, 16, &size));
    cr_assert(size.rows == 8 && size.outs == 8 && size.depth == 32);
    cr_assert_not(vk_coopmat_pick(list, 6, VK_MATRIX_BYTES, 32, &size));
}

Test(vulkan_kernels, tiles_of_bytes)
{
    struct vk_kernels k = {.device = VK_CLASS_NVIDIA,
                           .cm = true,
                           .weights = VK_WEIGHTS_BYTES,
                           .subgroup = 32,
                           .invocations = 1024,
                           .shared_bytes = 49152,
                           .matrix_rows = 16,
                           .matrix_outs = 16,
                           .matrix_depth = 32};
    const struct vk_product_shape large = {VK_PRODUCT_MATRIX, 4096, 4096, 4096, 1},
                                  deep = {VK_PRODUCT_WINDOW, 49, 512, 4608, 1};
    struct vk_choice c = vk_choose(&k, &large);
    cr_assert(c.family == VK_FAMILY_CM && c.tile == 256 && c.outs == 128 && c.depth == 64 && c.stages == 1);
    c = vk_choose(&k, &deep);
    cr_assert(c.family == VK_FAMILY_CM && c.splits == 9, "8 tiles of a device with 128 places; a piece is 512 deep");
    cr_assert_eq(vk_choose(&k, &large).splits, 1);
    k.splits = 4;
    cr_assert_eq(vk_choose(&k, &deep).splits, 4);
    k.splits = 0;
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 64, 64, 32), VK_FAMILY_CM);
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 64, 64, 31), VK_FAMILY_TILED, "half of a matrix would be empty");
    cr_assert_eq(family(&k, VK_PRODUCT_MATRIX, 1, 1000, 2048), VK_FAMILY_GEMV);
    cr_assert(vk_cm_tile_tried(&k, 1) && !vk_cm_tile_tried(&k, 7) && !vk_cm_tile_tried(&k, vk_cm_tiles()));
    k.matrix_depth = 64;
    cr_assert_not(vk_cm_tile_fits(&k, 10), "its steps are 32 bytes deep");
    k.device = VK_CLASS_SOFTWARE;
    cr_assert(vk_cm_tile_tried(&k, 8) && !vk_cm_tile_tried(&k, 4), "the larger ones compile for minutes");
    cr_assert_eq(vk_choose(&k, &large).family, VK_FAMILY_SIMPLE);
    k.only = VK_FAMILY_CM;
    cr_assert_eq(vk_choose(&k, &large).family, VK_FAMILY_CM);
}

/* Instructions of a module by number. */
static size_t count_of(const uint32_t *words, size_t count, uint32_t op)
{
    size_t found = 0;
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        cr_assert_gt(words[at] >> 16, 0);
        found += (words[at] & 0xFFFFu) == op;
    }
    return found;
}

static const uint32_t *instruction_of(const uint32_t *words, size_t count, uint32_t op)
{
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        if ((words[at] & 0xFFFFu) == op) {
            return words + at;
        }
    }
    return NULL;
}

/* The id of a 32-bit constant. */
static uint32_t constant_of(const uint32_t *words, size_t count, uint32_t id)
{
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        if ((words[at] & 0xFFFFu) == 43 && words[at + 2] == id) {
            return words[at + 3];
        }
    }
    cr_assert_fail("no constant has id %u", id);
    return 0;
}

/* The KHR form of a shader, compared with that of NV; to be freed. */
static uint32_t *khr_of(enum shader shader, enum shader_form form, size_t *ret_count)
{
    const uint32_t *nv = vk_shader_table[shader].words[form];
    size_t nv_count = vk_shader_table[shader].bytes[form] / 4, count = 0;
    uint32_t *khr = NULL;
    cr_assert(vk_shader_table[shader].matrices);
    cr_assert(vk_coopmat_khr(nv, nv_count, &khr, &count));
    for (uint32_t op = 5358; op <= 5362; op++) {
        cr_assert_eq(count_of(khr, count, op), 0, "an instruction %u of NV is left", op);
    }
    cr_assert_eq(count_of(khr, count, 4456), 3);
    for (uint32_t i = 0; i < 4; i++) { /* type, load, store, product: as many as before */
        cr_assert_eq(count_of(khr, count, 4456 + i), count_of(nv, nv_count, 5358 + i));
    }
    uint32_t uses = 0;
    for (size_t at = 5; at < count; at += khr[at] >> 16) {
        if ((khr[at] & 0xFFFFu) == 4456) {
            cr_assert_eq(khr[at] >> 16, 7);
            uses |= 1u << constant_of(khr, count, khr[at + 6]);
        }
    }
    cr_assert_eq(uses, 7, "left, right and sum are three types");
    const uint32_t *load = instruction_of(khr, count, 4457), *store = instruction_of(khr, count, 4458);
    cr_assert_eq(constant_of(khr, count, load[4]), 0); /* by rows */
    cr_assert_eq(constant_of(khr, count, store[3]), 0);
    cr_assert_neq(load[5], 0, "the pitch of rows, which is made of constants");
    cr_assert_neq(store[4], 0);
    cr_assert_not_null(memmem(khr, count * 4, "SPV_KHR_cooperative_matrix", 27));
    cr_assert_null(memmem(khr, count * 4, "SPV_NV_cooperative_matrix", 26));
    cr_assert_eq(khr[3], nv[3] + 3);
    *ret_count = count;
    return khr;
}

/* How many loads are by columns. */
static size_t by_columns(const uint32_t *words, size_t count)
{
    size_t found = 0;
    for (size_t at = 5; at < count; at += words[at] >> 16) {
        found += (words[at] & 0xFFFFu) == 4457 && constant_of(words, count, words[at + 4]) == 1;
    }
    return found;
}

Test(vulkan_kernels, the_khr_form_of_the_shader)
{
    size_t count = 0;
    cr_assert_null(vk_shader_table[SHADER_conv_cm].words[SHADER_F32]);
    uint32_t *khr = khr_of(SHADER_conv_cm, SHADER_F16, &count);
    cr_assert_eq(by_columns(khr, count), 0);
    cr_assert_eq(instruction_of(khr, count, 4459)[0] >> 16, 6, "a product of floats says nothing of signs");
    free(khr);
}

Test(vulkan_kernels, the_khr_form_of_the_shader_of_codes)
{
    size_t count = 0;
    uint32_t *khr = khr_of(SHADER_nbits_cm, SHADER_F16, &count);
    cr_assert_eq(by_columns(khr, count), 1, "the weights");
    free(khr);
}

Test(vulkan_kernels, the_khr_form_of_the_shader_of_bytes)
{
    size_t count = 0;
    uint32_t *khr = khr_of(SHADER_qconv_cm, SHADER_F32, &count);
    const uint32_t *product = instruction_of(khr, count, 4459);
    cr_assert_eq(by_columns(khr, count), 1, "the weights");
    cr_assert_eq(product[0] >> 16, 7);
    cr_assert_eq(product[6], 15u, "all four matrices have signs");
    free(khr);
}

/* Kept as SPIR-V: it is in KHR's form already, of floats that are stored as f32. */
Test(vulkan_kernels, the_shader_of_bf16)
{
    const struct shader_code *code = &vk_shader_table[SHADER_conv_cm_bf16],
                             *loops = &vk_shader_table[SHADER_conv_cm_bf16_scalar];
    const uint32_t *words = code->words[SHADER_F32];
    cr_assert(words != NULL && code->words[SHADER_F16] == NULL && code->matrices);
    cr_expect_eq(words[1], 0x00010600u);
    cr_expect_not_null(memmem(words, code->bytes[SHADER_F32], "SPV_KHR_bfloat16", 17));
    cr_expect_eq(count_of(words, code->bytes[SHADER_F32] / 4, 4456), 3, "left, right and sum");
    cr_expect(loops->words[SHADER_F32] != NULL && loops->words[SHADER_F16] == NULL && !loops->matrices);
}

Test(vulkan_kernels, a_size_of_bf16)
{
    static const struct vk_coopmat_property list[] = {{16, 16, 16, 0, 0, 1, 1, 3},
                                                      {16, 16, 8, VK_BF16_COMPONENT, VK_BF16_COMPONENT, 1, 1, 3},
                                                      {16, 16, 16, VK_BF16_COMPONENT, VK_BF16_COMPONENT, 1, 1, 2},
                                                      {16, 16, 16, VK_BF16_COMPONENT, 0, 1, 1, 3},
                                                      {16, 16, 16, VK_BF16_COMPONENT, VK_BF16_COMPONENT, 1, 1, 3}};
    struct vk_matrix_size size = {0};
    cr_assert(vk_coopmat_pick(list, 4, VK_MATRIX_BF16, 32, &size) && size.depth == 8);
    cr_assert(vk_coopmat_pick(list, 5, VK_MATRIX_BF16, 32, &size) && size.depth == 16 && size.subgroup == 32);
    cr_assert_not(vk_coopmat_pick(list, 1, VK_MATRIX_BF16, 32, &size));
}

Test(vulkan_kernels, a_module_that_is_cut_or_strange_is_refused)
{
    const struct shader_code *code = &vk_shader_table[SHADER_conv_cm];
    size_t nv_count = code->bytes[SHADER_F16] / 4, count = 0;
    uint32_t *copy = malloc(code->bytes[SHADER_F16]), *khr = NULL;
    for (size_t cut = 0; cut < nv_count; cut += 7) {
        memcpy(copy, code->words[SHADER_F16], 4 * cut);
        if (vk_coopmat_khr(copy, cut, &khr, &count)) { /* cut between two instructions, behind the last product */
            free(khr);
        }
    }
    memcpy(copy, code->words[SHADER_F16], 4 * nv_count);
    copy[5] = 0; /* an instruction of no words */
    cr_assert_not(vk_coopmat_khr(copy, nv_count, &khr, &count));
    free(copy);
}
