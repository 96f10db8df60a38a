/*
 * Products in bf16, by each instruction that there is for them: AMX tiles, pairs of AVX512-BF16, weights that are widened. Numbers have so few bits that nothing is rounded, so the
 * results are those of the reference. What a processor lacks, the next narrower one does in its place.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_tiles.h"
#include "cross.h"
#include "penstock/dtype.h"

#define F32  PEN_DTYPE_F32
#define GRID 0.0625f

static void ask(enum pen_isa most)
{
    cross_ask(PEN_PRECISION_BF16, most, GRID);
}

/* {n, h, w, in, out, kh, kw, stride, dilation, pad before, pad after, groups, act} */
static const struct cross_conv rows[] = {
    {1, 14, 14, 32, 64, 1, 1, 1, 1, 0, 0, 1, ACT_NONE},
    {1, 7, 7, 64, 96, 1, 1, 1, 1, 0, 0, 1, ACT_CLAMP},
    {1, 15, 13, 3, 24, 3, 3, 2, 1, 1, 1, 1, ACT_CLAMP},
    {2, 9, 9, 16, 33, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},
    {1, 9, 9, 16, 16, 3, 3, 1, 2, 2, 2, 1, ACT_HARDSWISH},
    {1, 8, 8, 32, 64, 3, 3, 1, 1, 1, 1, 2, ACT_LEAKY},
    {1, 20, 20, 3, 64, 7, 7, 2, 1, 3, 3, 1, ACT_CLAMP},
    {1, 13, 13, 300, 40, 3, 3, 2, 1, 1, 1, 1, ACT_NONE},
    {3, 1, 1, 513, 7, 1, 1, 1, 1, 0, 0, 1, ACT_NONE},
    {1, 30, 30, 16, 1, 1, 1, 2, 1, 0, 0, 1, ACT_NONE},
    /* windows in place: parts of a row, whole rows, two rows at a time, an odd number of those, several images */
    {1, 3, 56, 32, 40, 3, 3, 1, 1, 1, 1, 1, ACT_CLAMP},
    {1, 5, 28, 64, 70, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},
    {1, 7, 14, 32, 16, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},
    {3, 5, 13, 32, 33, 3, 3, 1, 1, 1, 1, 1, ACT_CLAMP},
    {2, 29, 29, 32, 48, 3, 3, 2, 1, 0, 1, 1, ACT_NONE},
    {1, 4, 80, 64, 15, 5, 1, 1, 1, 2, 2, 1, ACT_NONE},
    {1, 12, 37, 32, 20, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},
    {2, 10, 10, 128, 64, 2, 2, 2, 1, 0, 0, 2, ACT_NONE},
    {1, 11, 20, 64, 32, 3, 1, 1, 3, 3, 3, 1, ACT_NONE},
};

static void check_convs(enum pen_isa most)
{
    ask(most);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cross_conv_check(&rows[i], true, true);
    }
    for (int i = 0; i < 40; i++) {
        struct cross_conv r = {.n = cross_pick(1, 3),
                               .h = cross_pick(5, 19),
                               .w = cross_pick(5, 70),
                               .kh = cross_pick(1, 3),
                               .kw = cross_pick(1, 3)};
        r.groups = cross_pick(0, 2) == 0 ? cross_pick(1, 3) : 1;
        r.in = r.groups * (cross_pick(0, 1) == 0 ? 32 : cross_pick(1, 40));
        r.out = r.groups * cross_pick(1, 70);
        r.stride = cross_pick(1, 3);
        r.dilation = cross_pick(1, 2);
        r.before = cross_pick(0, 2);
        r.after = cross_pick(0, 2);
        cross_conv_check(&r, true, true);
    }
}

static void check_matrix(int64_t m, int64_t k, int64_t n)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_input(c, F32, 2, (int64_t[]){m, k}, false);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, F32, 2, (int64_t[]){k, n}, true);
    cross_check(c);
}

static void check_matrices(enum pen_isa most)
{
    ask(most);
    for (int64_t m = 1; m <= 35; m++) {
        check_matrix(m, 3 * m, 2 * m + 1);
    }
    for (int i = 0; i < 20; i++) {
        check_matrix(cross_pick(1, 300), cross_pick(1, 700), cross_pick(1, 150));
    }
    check_matrix(230, 1100, 1000); /* blocks of rows, of columns and of depth */
}

/* Windows that lie side by side or overlap: rows of one product, positions of whole panels, several pictures, odd numbers of channels. */
static void check_deconv(int64_t n, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t h, int64_t w)
{
    struct cross *c = cross_new(OP_ConvTranspose);
    cross_input(c, F32, 4, (int64_t[]){n, h, w, in}, false);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, F32, 4, (int64_t[]){in, out, kernel, kernel}, true);
    cross_input(c, F32, 1, &out, true);
    cross_ints(c, ATTR_strides, 2, (int64_t[]){stride, stride});
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){kernel, kernel});
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_check(c);
}

static void check_deconvs(enum pen_isa most)
{
    ask(most);
    check_deconv(1, 64, 32, 2, 2, 7, 14);
    check_deconv(2, 33, 24, 2, 2, 5, 40);
    check_deconv(1, 128, 64, 3, 3, 4, 33);
    check_deconv(1, 16, 1, 4, 4, 6, 6);
    check_deconv(1, 64, 32, 4, 2, 8, 8);
    check_deconv(2, 33, 24, 3, 2, 5, 21);
    check_deconv(1, 16, 5, 5, 1, 9, 12);
}

#define WITH_ISA(name, most)                                                                                           \
    Test(xnnpack_bf16, convolutions_##name)                                                                            \
    {                                                                                                                  \
        check_convs(most);                                                                                             \
    }                                                                                                                  \
    Test(xnnpack_bf16, matrices_##name)                                                                                \
    {                                                                                                                  \
        check_matrices(most);                                                                                          \
    }                                                                                                                  \
    Test(xnnpack_bf16, transposed_convolutions_##name)                                                                 \
    {                                                                                                                  \
        check_deconvs(most);                                                                                           \
    }

WITH_ISA(as_the_processor_can, PEN_ISA_ANY)
WITH_ISA(in_pairs, PEN_ISA_AVX512BF16)
WITH_ISA(widened_in_avx512, PEN_ISA_AVX512VNNI)
WITH_ISA(widened_in_avx2, PEN_ISA_AVX2)
WITH_ISA(widened_in_plain_c, PEN_ISA_PLAIN)

/* Products of two results of the model: queries, keys, shares and values are rounded where AMX multiplies them, and nowhere else. */
static void check_attention(int64_t round)
{
    const int64_t batch = cross_pick(1, 2), kv = cross_pick(1, 3), heads = kv * cross_pick(1, 2),
                  size = cross_pick(1, 80);
    const int64_t queries = cross_pick(4, 150), keys = round % 4 == 0 ? cross_pick(250, 600) : cross_pick(1, 80),
                  value = cross_pick(1, 70);
    struct cross *c = cross_new(OP_Attention);
    cross_range(c, -2.0f, 2.0f);
    cross_input(c, F32, 4, (int64_t[]){batch, heads, queries, size}, false);
    cross_input(c, F32, 4, (int64_t[]){batch, kv, keys, size}, false);
    cross_input(c, F32, 4, (int64_t[]){batch, kv, keys, value}, false);
    if (round % 3 == 1) {
        cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){queries, keys}, false);
    } else if (round % 3 == 2) {
        cross_input(c, F32, 4, (int64_t[]){batch, 1, queries, keys}, false);
    }
    cross_int(c, ATTR_is_causal, round % 2);
    if (round % 5 == 0) {
        cross_float(c, ATTR_softcap, 3.0f);
    }
    cross_rounded(c, 0.03, isa_tiles() && keys > 8);
}

Test(xnnpack_bf16, attention)
{
    cross_ask(PEN_PRECISION_BF16, PEN_ISA_ANY, 0.0f);
    for (int64_t round = 0; round < 40; round++) {
        check_attention(round);
    }
}

/* Packed heads lie side by side: rows of keys are further apart than they are long. */
Test(xnnpack_bf16, attention_of_packed_heads)
{
    cross_ask(PEN_PRECISION_BF16, PEN_ISA_ANY, 0.0f);
    struct cross *c = cross_new(OP_Attention);
    cross_range(c, -2.0f, 2.0f);
    cross_input(c, F32, 3, (int64_t[]){2, 37, 4 * 24}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 41, 4 * 24}, false);
    cross_input(c, F32, 3, (int64_t[]){2, 41, 4 * 40}, false);
    cross_int(c, ATTR_q_num_heads, 4);
    cross_int(c, ATTR_kv_num_heads, 4);
    cross_rounded(c, 0.03, isa_tiles());
}

/* Rows of recurrent steps: one, some, as many as tiles take. */
static void check_recurrent(enum pen_isa most)
{
    for (int64_t round = 0; round < 8; round++) {
        const int64_t gates = round % 2 == 0 ? 4 : 3, batch = round < 4 ? 1 : 3 * round - 9,
                      directions = 1 + round / 2 % 2;
        const int64_t inputs = cross_pick(5, 70), h = cross_pick(20, 90);
        cross_ask(PEN_PRECISION_BF16, most, 0.0f);
        struct cross *c = cross_new(gates == 4 ? OP_LSTM : OP_GRU);
        cross_input(c, F32, 3, (int64_t[]){7, batch, inputs}, false);
        cross_range(c, -0.5f, 0.5f);
        cross_input(c, F32, 3, (int64_t[]){directions, gates * h, inputs}, true);
        cross_input(c, F32, 3, (int64_t[]){directions, gates * h, h}, true);
        cross_input(c, F32, 2, (int64_t[]){directions, 2 * gates * h}, true);
        cross_int(c, ATTR_hidden_size, h);
        cross_text(c, ATTR_direction, directions == 2 ? "bidirectional" : "forward");
        cross_outputs(c, 2);
        cross_rounded(c, 0.03, true);
    }
}

Test(xnnpack_bf16, recurrent_cells)
{
    check_recurrent(PEN_ISA_ANY);
}

Test(xnnpack_bf16, recurrent_cells_in_pairs)
{
    check_recurrent(PEN_ISA_AVX512BF16);
}

Test(xnnpack_bf16, recurrent_cells_widened)
{
    check_recurrent(PEN_ISA_AVX2);
}

/* A precision that nothing had would pass every test of exact numbers. */
Test(xnnpack_bf16, weights_are_rounded)
{
    static const int64_t two[] = {2, 2}, bias = 40;
    for (size_t op = 0; op < 3; op++) {
        cross_ask(PEN_PRECISION_BF16, PEN_ISA_ANY, 0.0f);
        struct cross *c = cross_new(op == 0 ? OP_MatMul : op == 1 ? OP_Conv : OP_ConvTranspose);
        if (op == 0) {
            cross_input(c, F32, 2, (int64_t[]){20, 64}, false);
            cross_input(c, F32, 2, (int64_t[]){64, 40}, true);
        } else {
            cross_input(c, F32, 4, (int64_t[]){1, 6, 20, 64}, false);
            cross_input(c, F32, 4, op == 1 ? (int64_t[]){40, 64, 2, 2} : (int64_t[]){64, 40, 2, 2}, true);
            cross_input(c, F32, 1, &bias, true);
            cross_ints(c, ATTR_strides, 2, two);
            cross_ints(c, ATTR_kernel_shape, 2, two);
            cross_int(c, ATTR_layout, LAYOUT_NHWC);
        }
        cross_rounded(c, 0.03, true);
    }
}

/* The limit is what chooses: products of the same numbers have other last bits by another instruction. */
Test(xnnpack_bf16, a_limit_keeps_what_is_wider_away)
{
    static const enum pen_isa limits[] = {PEN_ISA_AVX512VNNI, PEN_ISA_AVX512BF16, PEN_ISA_AMX};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        cr_expect(!isa_tiles_within(limits[i]) || limits[i] >= PEN_ISA_AMX);
        cr_expect(!isa_pairs_within(limits[i]) || limits[i] >= PEN_ISA_AVX512BF16);
    }
    cr_expect_eq(isa_tiles_within(PEN_ISA_AMX), isa_tiles_within(PEN_ISA_ANY));
    cr_expect_eq(isa_pairs_within(PEN_ISA_AVX512BF16), isa_pairs_within(PEN_ISA_ANY));
}

#ifdef OWN_X86
#define MOST_K 96 /* pairs */

/* One call, beside sums in double: rows that begin at two places, bands, blocks of depth, a sum, limits, columns that are not full. */
static void check_tile(size_t m, size_t split, size_t n, bool first, bool last)
{
    enum { K = MOST_K / 3, STRIDE = 40, BANDS = 3, WIDE = 37 };
    static float x[(64 + BANDS * 64) * STRIDE], w[MOST_K * OWN_TILES_NR], y[OWN_TILES_MR * WIDE],
        want[OWN_TILES_MR * WIDE], bias[OWN_TILES_NR], sum[OWN_TILES_MR * OWN_TILES_NR], numbers[2];
    for (size_t i = 0; i < sizeof x / sizeof x[0] + sizeof w / sizeof w[0]; i++) {
        numbers[0] = (float)cross_pick(-8, 8), numbers[1] = (float)cross_pick(-8, 8);
        const size_t at = i < sizeof x / sizeof x[0] ? i : i - sizeof x / sizeof x[0];
        own_pairs_make(numbers, (uint32_t *)(void *)((i < sizeof x / sizeof x[0] ? x : w) + at), 2);
    }
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++) {
        y[i] = want[i] = (float)cross_pick(-9, 9);
        sum[i % (sizeof sum / sizeof sum[0])] = (float)cross_pick(-9, 9);
        bias[i % OWN_TILES_NR] = (float)cross_pick(-9, 9);
    }
    const struct gemm_tile t = {.x = x,
                                .more = x + 40 * STRIDE,
                                .split = split,
                                .w = w,
                                .next = w,
                                .fetch = first,
                                .bias = bias,
                                .sum = sum,
                                .y = y,
                                .x_stride = STRIDE,
                                .y_stride = WIDE,
                                .sum_stride = OWN_TILES_NR,
                                .m = m,
                                .n = n,
                                .k = K,
                                .bands = BANDS,
                                .band_stride = 64 * STRIDE,
                                .first = first,
                                .last = last,
                                .min = -200.0f,
                                .max = 300.0f};
    for (size_t r = 0; r < m; r++) {
        for (size_t c = 0; c < n; c++) {
            double all =
                (double)(first ? bias[c] : y[r * WIDE + c]) + (double)(last ? sum[r * OWN_TILES_NR + c] : 0.0f);
            for (size_t k = 0; k < (size_t)K * BANDS * 2; k++) {
                const float *row =
                    (r < split ? x + r * STRIDE : t.more + (r - split) * STRIDE) + k / 2 / K * t.band_stride;
                const uint16_t *a = (const uint16_t *)(const void *)(row + k / 2 % K),
                               *b = (const uint16_t *)(const void *)w;
                all += (double)pen_bf16_to_f32(a[k % 2]) *
                       (double)pen_bf16_to_f32(b[(k / 2 * OWN_TILES_NR + c) * 2 + k % 2]);
            }
            want[r * WIDE + c] = last ? fminf(fmaxf((float)all, t.min), t.max) : (float)all;
        }
    }
    own_tiles_begin();
    own_gemm_tiles(&t);
    own_tiles_end();
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++) {
        cr_assert_eq(y[i], want[i], "%zu rows split at %zu, %zu columns: element %zu is %g, not %g", m, split, n, i,
                     (double)y[i], (double)want[i]);
    }
}

Test(xnnpack_bf16, a_tile_of_amx)
{
    if (!isa_tiles()) {
        cr_skip_test("this processor has no AMX");
    }
    for (size_t m = 1; m <= OWN_TILES_MR; m += 3) {
        for (size_t n = 1; n <= OWN_TILES_NR; n += n == 15 || n == 31 ? 1 : 7) {
            check_tile(m, m > 16 ? 16 : 13, n, m % 2 == 0, n % 2 == 0);
        }
    }
}
#endif
