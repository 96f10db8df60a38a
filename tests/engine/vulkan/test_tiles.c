/* Every tile of cooperative matrices, with plain loops in the matrices' place: tails on all sides, bands of workgroups, the depth in pieces, batches. */
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

static struct backend *opened(void)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, "cm");
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    return b;
}

/* The deepest, the one of fewest rows. A software device compiles the large ones for half a minute: test_long.c has them. */
Test(vulkan_tiles, of_other_sizes, .timeout = 300)
{
    static const uint32_t numbers[] = {7, 9};
    struct backend *b = opened();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        cr_assert(vk_cm_tile_fits(&b->kernels, numbers[i]));
        b->kernels.tile = numbers[i] + 1;
        product(135, 72, 70);
    }
    device_close(b);
}

Test(vulkan_tiles, the_depth_in_pieces_and_rows_in_whole_eights, .timeout = 300)
{
    struct backend *b = opened();
    for (uint32_t splits = 1; splits < 9; splits += 3) {
        b->kernels.splits = splits;
        product(70, 256, 64); /* of 7 pieces of 64 three have nothing */
        product(37, 301, 45);
    }
    device_close(b);
}
