/* Family `cm2` by rules, tables and what a driver lists: no device is needed. test_tiles.c runs its kernels. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/cm2_tiles.h"
#include "backend/vulkan/coopmat2.h"
#include "backend/vulkan/shader.h"

static struct vk_kernels device_of(enum vk_device_class class_of)
{
    return (struct vk_kernels){.device = class_of,
                               .cm = true,
                               .cm2 = true,
                               .subgroup = 32,
                               .invocations = 1024,
                               .shared_bytes = 49152,
                               .cm2_granules = {{16, 16, 16, 128}, {32, 16, 16, 256}},
                               .cm2_side_most = 1024};
}

static enum vk_family family(const struct vk_kernels *k, enum vk_product_kind kind, size_t rows, size_t outs,
                             size_t depth)
{
    const struct vk_product_shape shape = {kind, rows, outs, depth, 1};
    return vk_choose(k, &shape).family;
}

Test(vulkan_cm2, products_of_matrices_take_it_before_cm)
{
    struct vk_kernels k = device_of(VK_CLASS_NVIDIA);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 64, 64, 64), VK_FAMILY_CM2);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 4096, 4096, 4096), VK_FAMILY_CM2);
    cr_expect_eq(family(&k, VK_PRODUCT_BATCH, 128, 64, 64), VK_FAMILY_CM2);
    cr_expect_eq(family(&k, VK_PRODUCT_BATCH, 65, 65, 65), VK_FAMILY_CM, "its matrices begin anywhere");
    cr_expect_eq(family(&k, VK_PRODUCT_WINDOW, 4096, 64, 576), VK_FAMILY_CM);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 63, 64, 64), VK_FAMILY_CM);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 64, 63, 64), VK_FAMILY_CM);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 64, 64, 63), VK_FAMILY_CM);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 1, 1000, 2048), VK_FAMILY_GEMV);
    k.only = VK_FAMILY_CM2;
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 5, 7, 9), VK_FAMILY_CM2, "asked for by name");
    cr_expect_eq(family(&k, VK_PRODUCT_WINDOW, 4096, 64, 576), VK_FAMILY_SIMPLE);
    k.only = VK_FAMILY_AUTO;
    k.families_off = 1u << VK_FAMILY_CM2;
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 4096, 4096, 4096), VK_FAMILY_CM);
    k.families_off = 0;
    k.cm2 = false;
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 4096, 4096, 4096), VK_FAMILY_CM);
    k = device_of(VK_CLASS_SOFTWARE);
    cr_expect_eq(family(&k, VK_PRODUCT_MATRIX, 4096, 4096, 4096), VK_FAMILY_SIMPLE);
}

Test(vulkan_cm2, the_tile_by_the_size_of_the_product)
{
    static const struct {
        size_t rows, outs, depth;
        uint32_t tile, tile_outs, tile_depth, invocations, splits;
    } rows[] = {
        {4096, 4096, 4096, 128, 256, 64, 256, 1}, {4096, 2048, 512, 128, 256, 64, 256, 1},
        {100000, 64, 512, 128, 64, 64, 256, 1},   {64, 32768, 512, 64, 128, 64, 256, 1},
        {512, 512, 512, 64, 64, 64, 128, 2},      {128, 128, 8192, 64, 64, 64, 128, 16},
        {100000, 128, 512, 256, 128, 64, 256, 1},
    };
    const struct vk_kernels k = device_of(VK_CLASS_NVIDIA);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct vk_product_shape s = {VK_PRODUCT_MATRIX, rows[i].rows, rows[i].outs, rows[i].depth, 1};
        const struct vk_choice c = vk_choose(&k, &s);
        cr_expect(c.family == VK_FAMILY_CM2 && c.tile == rows[i].tile && c.outs == rows[i].tile_outs &&
                      c.depth == rows[i].tile_depth && c.invocations == rows[i].invocations &&
                      c.splits == rows[i].splits && c.swizzle == 8,
                  "row %zu: %ux%ux%u, %u invocations, %u pieces", i, c.tile, c.outs, c.depth, c.invocations, c.splits);
    }
}

Test(vulkan_cm2, a_tile_that_the_matrices_cannot_have)
{
    const struct vk_product_shape large = {VK_PRODUCT_MATRIX, 4096, 4096, 4096, 1},
                                  small = {VK_PRODUCT_MATRIX, 128, 128, 128, 1};
    struct vk_kernels k = device_of(VK_CLASS_NVIDIA);
    k.cm2_granules[0].rows = 0; /* workgroups of 256 alone */
    cr_expect_eq(vk_choose(&k, &small).invocations, 256);
    k.cm2_granules[1].outs = 128;
    cr_expect(vk_choose(&k, &large).outs == 256 && vk_choose(&k, &small).outs == 128);
    k.cm2_side_most = 128;
    cr_expect_eq(vk_choose(&k, &large).outs, 128);
    k.cm2_off = 1u << 2;
    cr_expect_eq(vk_choose(&k, &large).tile, 64, "128 x 128 x 64 was wrong");
    k.cm2_granules[1].rows = 96;
    cr_expect_eq(vk_choose(&k, &large).family, VK_FAMILY_CM, "no tile is left");
    k = device_of(VK_CLASS_NVIDIA);
    k.invocations = 128;
    cr_expect_eq(vk_choose(&k, &large).invocations, 128);
    k.cm2_off = ~0u;
    cr_expect_not(vk_family_fits(&k, VK_FAMILY_CM2, &large));
}

Test(vulkan_cm2, the_table_names_a_tile)
{
    const struct vk_product_shape large = {VK_PRODUCT_MATRIX, 4096, 4096, 4096, 1};
    struct vk_kernels k = device_of(VK_CLASS_NVIDIA);
    char text[32], want[32];
    k.cm2_granules[0] = (struct vk_granule){8, 8, 8, 128}; /* fine enough for all */
    for (uint32_t i = 0; i < vk_tiles_of(VK_FAMILY_CM2); i++) {
        const uint8_t tuned = vk_tuned_of(VK_FAMILY_CM2, i + 1);
        k.tuned[vk_class_of(&large)] = tuned;
        cr_assert(vk_tuned_valid(VK_PRODUCT_MATRIX, tuned) && vk_tuned_family(tuned) == VK_FAMILY_CM2);
        const struct vk_choice c = vk_choose(&k, &large);
        vk_tuned_text(VK_PRODUCT_MATRIX, tuned, text, sizeof text);
        snprintf(want, sizeof want, "cm2 %ux%ux%u", c.tile, c.outs, c.depth);
        cr_expect_str_eq(text, want);
    }
    k.cm2_off = 1;
    k.tuned[vk_class_of(&large)] = vk_tuned_of(VK_FAMILY_CM2, 1);
    cr_expect_neq(vk_choose(&k, &large).outs, 256 * (vk_choose(&k, &large).tile == 128), "the rules' instead");
    cr_expect_not(vk_tuned_valid(VK_PRODUCT_MATRIX, vk_tuned_of(VK_FAMILY_CM2, vk_tiles_of(VK_FAMILY_CM2) + 1)));
    cr_expect_eq(vk_tiles_of(VK_FAMILY_TILED), 0);
}

enum { F16 = 0, F32 = 1, WORKGROUP = 2, SUBGROUP = 3 };

Test(vulkan_cm2, the_form_by_what_a_driver_lists)
{
    static const struct vk_coopmat2_property list[] = {
        {16, 16, 32, 3, 3, 5, 5, WORKGROUP, 128},         {32, 32, 16, F16, F16, F32, F32, WORKGROUP, 128},
        {16, 16, 16, F16, F16, F32, F32, WORKGROUP, 128}, {16, 32, 16, F16, F16, F16, F16, WORKGROUP, 128},
        {32, 16, 16, F16, F16, F32, F32, WORKGROUP, 256}, {16, 16, 16, F16, F16, F16, F16, WORKGROUP, 256},
        {8, 8, 8, F16, F16, F32, F32, SUBGROUP, 0},       {8, 8, 8, F16, F16, F16, F16, SUBGROUP, 0},
    };
    const uint32_t all = sizeof list / sizeof list[0];
    struct vk_coopmat2_features has = {true, true, true, true};
    char text[64];
    struct vk_coopmat2 c = vk_coopmat2_pick(&has, list, all, 32);
    vk_coopmat2_text(&c, text, sizeof text);
    cr_expect_str_eq(text, "tensor 128: 16x32x16, 256: 32x16x16");
    c = vk_coopmat2_pick(&has, list, 3, 32);
    cr_expect_eq(c.form, VK_COOPMAT2_NONE, "no f16 results");
    c = vk_coopmat2_pick(&has, list, 4, 32);
    vk_coopmat2_text(&c, text, sizeof text);
    cr_expect_str_eq(text, "tensor 128: 16x32x16");
    for (int without = 0; without < 4; without++) {
        has = (struct vk_coopmat2_features){without != 0, without != 1, without != 2, without != 3};
        c = vk_coopmat2_pick(&has, list, all, 8);
        vk_coopmat2_text(&c, text, sizeof text);
        cr_expect_str_eq(text, without == 0 || without == 3 ? "staged 8: 8x8x8" : "none", "without %d", without);
    }
}

/* What is chained when a device is opened, and nothing where the family is off. */
Test(vulkan_cm2, features_are_switched_on)
{
    struct vk_coopmat2_switch storage;
    int behind = 0;
    struct vk_coopmat2 c = {.form = VK_COOPMAT2_NONE};
    cr_expect_eq(vk_coopmat2_feature(&c, &storage, &behind), &behind);
    c.form = VK_COOPMAT2_STAGED;
    cr_expect_eq(vk_coopmat2_feature(&c, &storage, &behind), (void *)&storage.matrices);
    cr_expect_eq(storage.matrices.pNext, (void *)&storage.sizes);
    cr_expect_eq(storage.sizes.pNext, (void *)&behind);
    cr_expect(storage.matrices.flexible && storage.matrices.per_element && !storage.matrices.tensor);
    c.form = VK_COOPMAT2_TENSOR;
    vk_coopmat2_feature(&c, &storage, NULL);
    cr_expect(storage.matrices.workgroup && storage.matrices.tensor && !storage.matrices.block_loads);
}

/* Its shaders lie in the repository: they are SPIR-V 1.6, and have no names that make them larger. */
Test(vulkan_cm2, the_kept_modules)
{
    static const enum shader kept[] = {SHADER_conv_cm2, SHADER_conv_cm2_staged};
    for (int i = 0; i < 2; i++) {
        const struct shader_code *code = &vk_shader_table[kept[i]];
        const uint32_t *words = code->words[SHADER_F16];
        cr_assert_not_null(words);
        cr_assert(code->words[SHADER_F32] == NULL && code->matrices);
        cr_expect(words[0] == 0x07230203 && words[1] == 0x00010600);
        cr_expect_not_null(memmem(words, code->bytes[SHADER_F16], "SPV_NV_cooperative_matrix2", 27));
        for (size_t at = 5; at < code->bytes[SHADER_F16] / 4; at += words[at] >> 16) {
            cr_assert_gt(words[at] >> 16, 0);
            cr_expect_neq(words[at] & 0xFFFFu, 5, "a name of an id");
        }
    }
}
