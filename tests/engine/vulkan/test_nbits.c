#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "device.h"

#define F32 PEN_DTYPE_F32
#define U8  PEN_DTYPE_U8

/* Weights of 2, 4 and 8 bits, with and without zero points, by each family. */

static void nbits(int64_t rows, int64_t k, int64_t n, int64_t bits, int64_t block, int zeros, bool bias)
{
    const int64_t blocks = (k + block - 1) / block;
    struct cross *c = cross_new(OP_MatMulNBits);
    cross_input(c, F32, 2, (int64_t[]){rows, k}, false);
    cross_input(c, U8, 3, (int64_t[]){n, blocks, block * bits / 8}, true);
    cross_range(c, 0.0002f, 0.001f);
    cross_input(c, F32, 1, (int64_t[]){n * blocks}, true);
    if (zeros == 1) {
        cross_input(c, U8, 1, (int64_t[]){n * ((blocks * bits + 7) / 8)}, true);
    } else if (zeros == 2) {
        cross_range(c, 1.0f, 3.0f);
        cross_input(c, F32, 1, (int64_t[]){n * blocks}, true);
    } else {
        cross_omit(c);
    }
    cross_omit(c);
    if (bias) {
        cross_range(c, -1.0f, 1.0f);
        cross_input(c, F32, 1, (int64_t[]){n}, true);
    } else {
        cross_omit(c);
    }
    cross_int(c, ATTR_K, k);
    cross_int(c, ATTR_N, n);
    cross_int(c, ATTR_bits, bits);
    cross_int(c, ATTR_block_size, block);
    cross_check(c);
}

static void nbits_rows(void)
{
    nbits(1, 256, 70, 4, 32, 0, false);
    nbits(3, 200, 33, 4, 16, 1, true);
    nbits(37, 130, 65, 4, 64, 1, true);
    nbits(5, 96, 20, 8, 32, 1, false);
    nbits(70, 80, 66, 2, 16, 2, true);
    nbits(2, 1100, 9, 8, 16, 0, true);
}

Test(vulkan_nbits, weights_of_few_bits, .timeout = 300)
{
    static const struct {
        enum pen_precision precision;
        const char *kernels;
    } all[] = {{PEN_PRECISION_F32, "simple"},
               {PEN_PRECISION_F32, "tiled"},
               {PEN_PRECISION_F32, "gemv"},
               {PEN_PRECISION_F16_STORAGE, "gemv"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool full = all[i].precision == PEN_PRECISION_F32;
        struct backend *b = device_open(all[i].precision, all[i].kernels);
        cross_backend(&backend_vulkan, b, full ? 1e-5 : 2e-3, full ? 1e-4 : 1e-2);
        nbits_rows();
        device_close(b);
    }
}

/* What family `cm` may meet: rows in whole steps, tails on all sides, eights that are half a word, one word and two. */
static void matrix_rows(void)
{
    nbits(70, 128, 66, 4, 32, 1, true);
    nbits(37, 130, 65, 4, 64, 1, false);
    nbits(33, 96, 20, 8, 32, 0, true);
    nbits(20, 84, 70, 2, 16, 2, true);
}

static struct backend *opened(void)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, "cm");
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    return b;
}

/* By cooperative matrices, or the loops that stand in for them. */
Test(vulkan_nbits, cooperative_matrices, .timeout = 600)
{
    struct backend *b = opened();
    matrix_rows();
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), 4);
    b->kernels.tile = 7 + 1; /* the deepest */
    nbits(70, 200, 70, 4, 32, 1, true);
    b->kernels.tile = 0;
    b->kernels.splits = 3; /* pieces of the depth */
    nbits(40, 256, 66, 4, 32, 1, true);
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), 6);
    device_close(b);
}

static float scales[2 * 40];

static void scaled(float scale)
{
    struct cross *c = cross_new(OP_MatMulNBits);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        scales[i] = i == 7 ? scale : 0.0003f;
    }
    cross_range(c, -0.001f, 0.001f);
    cross_input(c, F32, 2, (int64_t[]){20, 64}, false);
    cross_input(c, U8, 3, (int64_t[]){40, 2, 32}, true);
    cross_data(c, F32, 1, (int64_t[]){2 * 40}, scales, true);
    cross_int(c, ATTR_K, 64);
    cross_int(c, ATTR_N, 40);
    cross_int(c, ATTR_bits, 8);
    cross_int(c, ATTR_block_size, 32);
    cross_check(c);
}

/* The weights that codes stand for may be beyond f16, though their scales are not. */
Test(vulkan_nbits, weights_beyond_f16_are_not_multiplied_as_f16, .timeout = 300)
{
    struct backend *b = opened();
    scaled(0.001f);
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), 1);
    scaled(1000.0f);
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), 1);
    device_close(b);
}
