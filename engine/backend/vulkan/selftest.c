#include "backend/vulkan/selftest.h"

#include <stdio.h>

#include "backend/vulkan/plan.h"
#include "backend/vulkan/verdicts.h"
#include "graph/kept.h"

/* Sizes with tails on every side: each number of rows of an invocation, large tiles of family cm, batches. The first is all that a device on the CPU runs. */
static const struct vk_product_shape shapes[] = {
    {VK_PRODUCT_MATRIX, 37, 45, 301, 1}, {VK_PRODUCT_MATRIX, 3, 45, 301, 1},   {VK_PRODUCT_MATRIX, 70, 68, 64, 1},
    {VK_PRODUCT_MATRIX, 515, 36, 48, 1}, {VK_PRODUCT_MATRIX, 200, 136, 80, 1}, {VK_PRODUCT_BATCH, 37, 45, 64, 2},
    {VK_PRODUCT_BATCH, 66, 65, 33, 2},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Without it the precision has nothing to offer: simple kernels, and in bf16 the matrices. */
static bool needed(const struct backend *b, enum vk_family family)
{
    return family == VK_FAMILY_SIMPLE || (family == VK_FAMILY_CM && b->device->bf16);
}

/* A wrong family is noted and left out. all: at every shape. */
static enum pen_status family_test(struct backend *b, enum vk_family family, bool all, struct pen_error *reterr)
{
    const double bound = vk_selftest_bound(b);
    const enum vk_family only = b->kernels.only;
    double worst = 0.0;
    bool tried = false;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < (all ? SHAPES : 1) && status == PEN_OK && worst <= bound; i++) {
        bool batch = shapes[i].kind == VK_PRODUCT_BATCH;
        if (vk_family_fits(&b->kernels, family, &shapes[i]) && (!batch || KEPT(vulkan_MatMul))) {
            b->kernels.only = family;
            status = vk_selftest_shape(b, &shapes[i], vk_family_name(family), &worst, reterr);
            b->kernels.only = only;
            tried = true;
        }
    }
    char wrong[80] = "not survived by the device";
    const bool lost = (b->kernels.families_off & 1u << family) != 0, right = worst <= bound && !lost;
    if (!lost) {
        vk_selftest_text(worst, vk_selftest_bound(b), wrong, sizeof wrong);
    }
    if (status == PEN_OK && tried) {
        vk_selftest_note(b, vk_family_name(family), right ? NULL : wrong);
        b->kernels.families_off |= right ? 0 : 1u << family;
    }
    if (status == PEN_OK && !right && (needed(b, family) || family == only)) {
        status = vk_selftest_refuse(b, vk_family_name(family), wrong, reterr);
    }
    return status;
}

/* The simple family, to which others fall back, and the one asked for, or every one that the rules may choose here. */
static enum pen_status floats_test(struct backend *b, struct pen_error *reterr)
{
    const enum vk_family only = b->kernels.only;
    const enum vk_device_class device = b->kernels.device;
    const bool all = vk_selftest_all(b);
    enum pen_status status = PEN_OK;
    b->kernels.device = VK_CLASS_SOFTWARE; /* small products have large tiles, too */
    for (uint32_t f = VK_FAMILY_SIMPLE; f < VK_FAMILY_COUNT && status == PEN_OK; f++) {
        bool named = needed(b, (enum vk_family)f) || f == (uint32_t)only;
        if (f == VK_FAMILY_CM2) {
            continue; /* selftest_cm2.c */
        }
        if (named || (only == VK_FAMILY_AUTO && all)) {
            status = family_test(b, (enum vk_family)f, all, reterr);
        }
    }
    b->kernels.device = device;
    return status;
}

enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (KEPT(vulkan_MatMul) || KEPT(vulkan_Conv)) { /* else a build without products */
        status = floats_test(b, reterr);
        status = status == PEN_OK ? vk_selftest_cm2(b, reterr) : status;
    }
    if (status == PEN_OK) {
        status = vk_selftest_ops(b, reterr);
    }
    status = status == PEN_OK ? vk_selftest_attention(b, reterr) : status;
    return status == PEN_OK ? vk_selftest_bytes(b, reterr) : status;
}
