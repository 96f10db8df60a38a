#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
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
