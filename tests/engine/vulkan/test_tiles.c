/* Tiles of cooperative matrices, with plain loops in the matrices' place where the device has none: tails on all sides, bands of workgroups, the depth in pieces, batches. */
#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

static void product(int64_t rows, int64_t depth, int64_t outs)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_range(c, -0.3f, 0.3f);
    cross_input(c, F32, 2, (int64_t[]){rows, depth}, false);
    cross_input(c, F32, 2, (int64_t[]){depth, outs}, true);
    cross_check(c);
}

static void batch(int64_t count, int64_t rows, int64_t depth, int64_t outs)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_range(c, -0.3f, 0.3f);
    cross_input(c, F32, 4, (int64_t[]){2, count, rows, depth}, false);
    cross_input(c, F32, 3, (int64_t[]){count, depth, outs}, false);
    cross_check(c);
}

static struct backend *opened(const char *family)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, family);
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    return b;
}

/* The deepest, the one of fewest rows. A software device compiles the large ones for half a minute: test_long.c has them. */
Test(vulkan_tiles, of_other_sizes, .timeout = 300)
{
    static const uint32_t numbers[] = {7, 9};
    struct backend *b = opened("cm");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        cr_assert(vk_cm_tile_fits(&b->kernels, numbers[i]));
        b->kernels.tile = numbers[i] + 1;
        product(135, 72, 70);
    }
    device_close(b);
}

Test(vulkan_tiles, the_depth_in_pieces_and_rows_in_whole_eights, .timeout = 300)
{
    struct backend *b = opened("cm");
    for (uint32_t splits = 1; splits < 9; splits += 3) {
        b->kernels.splits = splits;
        product(70, 256, 64); /* of 7 pieces of 64 three have nothing */
        product(37, 301, 45);
    }
    device_close(b);
}

/* By plain loops, or by matrices of a subgroup in the place of those of a workgroup: tails, whole tiles, pieces of the depth, batches that share their right sides. */
Test(vulkan_tiles, of_a_workgroup, .timeout = 300)
{
    struct backend *b = opened("cm2");
    const unsigned before = vk_backend_products(b, VK_FAMILY_CM2);
    product(70, 75, 45);
    product(128, 64, 96);
    product(33, 8, 1);
    b->kernels.splits = 3;
    product(40, 301, 48);
    product(70, 72, 45); /* of three pieces of 24, each one step that is not whole */
    b->kernels.splits = 0;
    batch(3, 24, 40, 33);
    cr_expect_geq(vk_backend_products(b, VK_FAMILY_CM2), before + 6);
    const unsigned others = vk_backend_products(b, VK_FAMILY_SIMPLE);
    batch(3, 5, 7, 9); /* its matrices begin anywhere */
    cr_expect_gt(vk_backend_products(b, VK_FAMILY_SIMPLE), others);
    device_close(b);
}
