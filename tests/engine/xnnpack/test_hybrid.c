/* Products of weights of 8 bits and rows that are rounded to 8 bits: as sums of bytes, and when not. */
#include <criterion/criterion.h>
#include <math.h>

#include "cross.h"
#include "few.h"

#define KERNEL "own gemm of bytes, its rows rounded"
#define BOUND  1e-5 /* of the largest result: floats of one sum against another order of them */

static uint32_t rounded(struct few *f, uint32_t x, int64_t axis, bool symmetric)
{
    const uint32_t y = few_node(f, OP_RowRounding, 1, &x);
    few_int(f, y, ATTR_axis, axis);
    few_int(f, y, ATTR_symmetric, symmetric);
    return y;
}

static void clamp(struct few *f, uint32_t y)
{
    few_int(f, y, ATTR_act, ACT_CLAMP);
    few_float(f, y, ATTR_act_min, 0.0f);
    few_float(f, y, ATTR_act_max, 6.0f);
}

static void expect(struct few *f, uint32_t kernels)
{
    few_near(f, BOUND);
    few_run(f, UINT32_MAX);
    cr_assert_eq(few_kernels(f, KERNEL), kernels, "%u kernels of bytes, not %u", few_kernels(f, KERNEL), kernels);
    few_free(f);
}

/* A process keeps to one limit, and each test is one. */
#define WITH_LIMITS(name)                                                                                              \
    Test(xnnpack_hybrid, name##_any)                                                                                   \
    {                                                                                                                  \
        name();                                                                                                        \
    }                                                                                                                  \
    Test(xnnpack_hybrid, name##_avx512)                                                                                \
    {                                                                                                                  \
        few_limit(PEN_ISA_AVX512);                                                                                     \
        name();                                                                                                        \
    }                                                                                                                  \
    Test(xnnpack_hybrid, name##_avx2)                                                                                  \
    {                                                                                                                  \
        few_limit(PEN_ISA_AVX2);                                                                                       \
        name();                                                                                                        \
    }                                                                                                                  \
    Test(xnnpack_hybrid, name##_plain)                                                                                 \
    {                                                                                                                  \
        few_limit(PEN_ISA_PLAIN);                                                                                      \
        name();                                                                                                        \
    }

/* Variant i: biases, scales for each channel or one, symmetric ranges, clamps. */
static void convolution(int i, const int64_t dims[4], int64_t out, struct few_window w)
{
    struct few *f = few_new();
    const uint32_t x = few_input(f, 4, dims);
    const uint32_t weights = few_codes(f, 4, (int64_t[]){out, w.kernel, w.kernel, dims[3] / w.group}, 0, i % 4 < 2);
    const uint32_t bias = i % 5 == 0 ? VALUE_NONE : few_constant(f, 1, &out);
    const uint32_t y = few_conv(f, rounded(f, x, 1, i % 3 == 1), weights, bias, w);
    if (i % 2 == 0) {
        clamp(f, y);
    }
    few_output(f, y);
    expect(f, 1);
}

/* Windows of each kind, several images with ranges of their own, padding that is the zero point. */
static void convolutions(void)
{
    for (int i = 0; i < 12; i++) {
        const struct few_window w = {(const int64_t[]){1, 3, 5}[i % 3], 1 + i / 3 % 2, 1 + (i == 4), 1};
        const int64_t dims[] = {1 + i % 2, cross_pick(5, 14), cross_pick(5, 14), cross_pick(1, 70)};
        convolution(i, dims, cross_pick(1, 90), w);
    }
}

WITH_LIMITS(convolutions)

/* Wide groups and narrow ones, which are multiplied several at a time; rows long enough to be read in place, and short ones; several images. */
static void groups(void)
{
    static const int64_t sizes[][3] = {{4, 16, 16}, {2, 24, 40}, {8, 4, 4}, {16, 2, 1}, {3, 5, 7}, {6, 1, 2}};
    for (int i = 0; i < 12; i++) {
        const int64_t *s = sizes[i % 6];
        const struct few_window w = {(const int64_t[]){3, 1, 5}[i / 2 % 3], 1 + i % 2, 1 + (i == 4), s[0]};
        const int64_t dims[] = {1 + i % 2, cross_pick(5, 9), cross_pick(5, 40), s[0] * s[1]};
        convolution(i, dims, s[0] * s[2], w);
    }
}

WITH_LIMITS(groups)

/* Each row has a range of its own. */
static void matrices(void)
{
    static const int64_t sizes[][3] = {{1, 64, 40}, {7, 33, 5}, {130, 256, 96}, {60, 4, 130}, {1, 1027, 33}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t *s = sizes[i / 2], m = s[0], k = s[1], n = s[2];
        struct few *f = few_new();
        const uint32_t x = rounded(f, few_input(f, 2, (int64_t[]){m, k}), i % 3 == 0 ? -1 : 1, i % 4 == 0);
        uint32_t y;
        if (i % 2 == 0) {
            const uint32_t w = few_codes(f, 2, (int64_t[]){n, k}, 0, true), bias = few_constant(f, 1, &n);
            y = few_node(f, OP_Gemm, 3, (uint32_t[]){x, w, bias});
            few_int(f, y, ATTR_transB, 1);
            few_int(f, y, ATTR_act, i % 4 == 0 ? ACT_SIGMOID : ACT_NONE);
        } else {
            y = few_node(f, OP_MatMul, 2, (uint32_t[]){x, few_codes(f, 2, (int64_t[]){k, n}, 1, i % 4 == 1)});
        }
        few_output(f, y);
        expect(f, 1);
    }
}

WITH_LIMITS(matrices)

/* Rows of many parts, and one that is all zeros. */
Test(xnnpack_hybrid, long_rows_and_zeros)
{
    struct few *f = few_new();
    const uint32_t x = rounded(f, few_input(f, 2, (int64_t[]){2, 20000}), 1, false);
    few_output(f, few_node(f, OP_MatMul, 2, (uint32_t[]){x, few_codes(f, 2, (int64_t[]){20000, 3}, 1, false)}));
    expect(f, 1);
    f = few_new();
    const uint32_t zero = few_number(f, 0.0f), y = few_input(f, 2, (int64_t[]){3, 8});
    const uint32_t zeros = few_node(f, OP_Mul, 2, (uint32_t[]){y, zero});
    few_output(f, few_node(f, OP_MatMul, 2,
                           (uint32_t[]){rounded(f, zeros, 1, false), few_codes(f, 2, (int64_t[]){8, 4}, 1, true)}));
    expect(f, 1);
}

/* Bytes have no place for NaN: what the row leads to is NaN, and nothing else is. */
Test(xnnpack_hybrid, nan_stays)
{
    struct few *f = few_new();
    const uint32_t x = rounded(f, few_input(f, 2, (int64_t[]){3, 40}), 1, false);
    few_output(f, few_node(f, OP_MatMul, 2, (uint32_t[]){x, few_codes(f, 2, (int64_t[]){40, 9}, 1, false)}));
    few_odd(f, 45, NAN);
    expect(f, 1);
}

/* What is no product of bytes runs as floats: other weights, sums that are too long, rows that others read, one channel in each group, rows that are not the product's. */
Test(xnnpack_hybrid, others_stay_floats)
{
    const int64_t n = 12;
    for (int i = 0; i < 5; i++) {
        struct few *f = few_new();
        const int64_t k = i == 1 ? 40000 : 24;
        uint32_t x = few_input(f, 4, (int64_t[]){2, 3, 2, k}), y;
        x = rounded(f, x, i == 4 ? 3 : 1, false);
        if (i == 0) {
            y = few_conv(f, x, few_constant(f, 4, (int64_t[]){n, 1, 1, k}), VALUE_NONE,
                         (struct few_window){1, 1, 1, 1});
        } else if (i == 3) {
            y = few_conv(f, x, few_codes(f, 4, (int64_t[]){k, 1, 1, 1}, 0, true), VALUE_NONE,
                         (struct few_window){1, 1, 1, k});
        } else {
            y = few_conv(f, x, few_codes(f, 4, (int64_t[]){n, 1, 1, k}, 0, true), VALUE_NONE,
                         (struct few_window){1, 1, 1, 1});
        }
        few_output(f, y);
        if (i == 2) {
            few_output(f, few_node(f, OP_Abs, 1, &x));
        }
        expect(f, 0);
    }
}

#define CELL_BOUND 5e-3 /* a state whose last bits differ may be rounded to the next byte */

/* LSTMs whose inputs and states are rounded; weights with a scale of all, of each direction, of each row, and some that are no codes. */
static void cells(void)
{
    for (int i = 0; i < 9; i++) {
        const int64_t directions = 1 + i % 2, inputs = cross_pick(1, 40), hidden = cross_pick(1, 40), batch = 1 + i % 3;
        const bool codes = i != 8, rows = directions == 1 && i % 4 == 0;
        const int64_t w[] = {directions, 4 * hidden, inputs}, r[] = {directions, 4 * hidden, hidden};
        struct few *f = few_new();
        uint32_t in[4] = {few_input(f, 3, (int64_t[]){6, batch, inputs})};
        in[1] = codes ? few_codes(f, 3, w, rows ? 1 : 0, i > 1) : few_constant(f, 3, w);
        in[2] = few_codes(f, 3, r, rows ? 1 : 0, i > 1);
        in[3] = few_constant(f, 2, (int64_t[]){directions, 8 * hidden});
        const uint32_t y = few_node(f, OP_LSTM, i % 3 == 0 ? 3 : 4, in);
        few_int(f, y, ATTR_hidden_size, hidden);
        few_int(f, y, ATTR_rounded_state, ROUNDED_ALL);
        few_text(f, y, ATTR_direction, directions == 2 ? "bidirectional" : i % 4 == 0 ? "forward" : "reverse");
        few_output(f, y);
        few_near(f, CELL_BOUND);
        few_run(f, UINT32_MAX);
        cr_assert_eq(few_kernels(f, "own gemm of bytes"), codes, "case %d", i);
        few_free(f);
    }
}

WITH_LIMITS(cells)
