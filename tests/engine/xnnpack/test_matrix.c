#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static void gemm(int64_t m, int64_t k, int64_t n, int trans_a, int trans_b, int c_kind, bool constant)
{
    struct cross *c = cross_new(OP_Gemm);
    int64_t a[2] = {m, k}, at[2] = {k, m}, b[2] = {k, n}, bt[2] = {n, k};
    const int64_t kinds[5][2] = {{0, 0}, {1, n}, {m, n}, {m, 1}, {1, 1}};
    cross_input(c, F32, 2, trans_a ? at : a, false);
    cross_range(c, -0.1f, 0.1f); /* long sums stay small: their rounding errors too */
    cross_input(c, F32, 2, trans_b ? bt : b, constant);
    if (c_kind > 0) {
        cross_input(c, F32, 2, kinds[c_kind], constant);
        cross_float(c, ATTR_beta, 0.5f);
    }
    cross_int(c, ATTR_transA, trans_a);
    cross_int(c, ATTR_transB, trans_b);
    cross_float(c, ATTR_alpha, 1.5f);
    cross_check(c);
}

Test(xnnpack_gemm, every_form)
{
    for (int form = 0; form < 40; form++) {
        gemm(13, 21, 37, form & 1, form >> 1 & 1, form / 8, (form >> 2 & 1) != 0);
    }
}

Test(xnnpack_gemm, sizes)
{
    const int64_t sizes[][3] = {{1, 2048, 1000}, {1, 1, 1}, {7, 300, 64}, {50, 513, 33}, {230, 64, 130}, {64, 10, 10}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        gemm(sizes[i][0], sizes[i][1], sizes[i][2], 0, 1, 1, true);
        gemm(sizes[i][0], sizes[i][1], sizes[i][2], 0, 0, 2, false);
    }
}

static void matmul(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b, bool constant)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_input(c, F32, rank_a, a, false);
    cross_input(c, F32, rank_b, b, constant);
    cross_check(c);
}

Test(xnnpack_matmul, ranks_and_broadcasting)
{
    for (int constant = 0; constant < 2; constant++) {
        matmul(2, (int64_t[]){9, 20}, 2, (int64_t[]){20, 33}, constant);
        matmul(3, (int64_t[]){4, 9, 20}, 2, (int64_t[]){20, 33}, constant);
        matmul(3, (int64_t[]){4, 9, 20}, 3, (int64_t[]){4, 20, 33}, constant);
        matmul(4, (int64_t[]){2, 1, 9, 20}, 4, (int64_t[]){1, 3, 20, 5}, constant);
        matmul(4, (int64_t[]){1, 12, 40, 32}, 4, (int64_t[]){1, 12, 32, 40}, constant);
        matmul(1, (int64_t[]){20}, 2, (int64_t[]){20, 33}, constant);
        matmul(2, (int64_t[]){9, 20}, 1, (int64_t[]){20}, constant);
        matmul(3, (int64_t[]){2, 9, 20}, 1, (int64_t[]){20}, constant);
        matmul(1, (int64_t[]){20}, 3, (int64_t[]){2, 20, 9}, constant);
        matmul(1, (int64_t[]){20}, 1, (int64_t[]){20}, constant);
        matmul(2, (int64_t[]){9, 20}, 3, (int64_t[]){3, 20, 7}, constant);
    }
}

Test(xnnpack_matmul, random_shapes)
{
    for (int i = 0; i < 40; i++) {
        int64_t batch = cross_pick(1, 5), m = cross_pick(1, 70), k = cross_pick(1, 600), n = cross_pick(1, 70);
        matmul(3, (int64_t[]){batch, m, k}, 3, (int64_t[]){cross_pick(0, 1) ? batch : 1, k, n}, cross_pick(0, 1) != 0);
    }
}
