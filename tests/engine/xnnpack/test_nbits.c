/* Products with weights of 2, 4 and 8 bits: few rows and many, odd sizes, zero points in bits and in floats, a bias. */
#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32
#define U8  PEN_DTYPE_U8

static void nbits_check(int64_t bits, int64_t block, int64_t rows, int64_t k, int64_t n, int kind)
{
    const int64_t blocks = (k + block - 1) / block, zero_row = (blocks * bits + 7) / 8;
    struct cross *c = cross_new(OP_MatMulNBits);
    cross_input(c, F32, 3, (int64_t[]){1, rows, k}, false);
    cross_input(c, U8, 3, (int64_t[]){n, blocks, block * bits / 8}, true);
    cross_range(c, 0.001f, 0.02f / (float)(1 << bits));
    cross_input(c, F32, 1, (int64_t[]){n * blocks}, true);
    if (kind == 1) {
        cross_input(c, U8, 1, (int64_t[]){n * zero_row}, true);
    } else if (kind == 2) {
        cross_range(c, 0.0f, (float)(1 << bits));
        cross_input(c, F32, 1, (int64_t[]){n * blocks}, true);
    } else {
        cross_omit(c);
    }
    cross_omit(c);
    cross_range(c, -1.0f, 1.0f);
    if (rows % 2 == 0) {
        cross_input(c, F32, 1, (int64_t[]){n}, true);
    }
    cross_int(c, ATTR_K, k);
    cross_int(c, ATTR_N, n);
    cross_int(c, ATTR_bits, bits);
    cross_int(c, ATTR_block_size, block);
    cross_check(c);
}

Test(xnnpack_nbits, every_width_block_and_number_of_rows)
{
    static const int64_t bits[] = {2, 4, 8}, blocks[] = {16, 32, 128}, rows[] = {1, 2, 3, 4, 14, 31};
    for (int i = 0; i < 3; i++) {
        for (int b = 0; b < 3; b++) {
            for (int r = 0; r < 6; r++) {
                int64_t k = blocks[b] * cross_pick(1, 4) + (r % 3 == 2 ? cross_pick(0, 3) * 2 : 0);
                nbits_check(bits[i], blocks[b], rows[r], k, cross_pick(1, 75), (i + b + r) % 3);
            }
        }
    }
}

Test(xnnpack_nbits, more_than_one_block_of_the_product)
{
    nbits_check(4, 32, 16, 640, 33, 1);
    nbits_check(4, 64, 5, 300, 40, 0);
    nbits_check(8, 16, 29, 513, 65, 2);
}
