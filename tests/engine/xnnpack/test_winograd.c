#include <criterion/criterion.h>

#include "cross.h"
#include "few.h"

/* A 3 x 3 convolution of stride 1 with its own padding on each side. */
static void row(int64_t batch, int64_t h, int64_t w, int64_t in, int64_t out, const int64_t pads[4], bool bias)
{
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){batch, h, w, in}, false);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){out, 3, 3, in}, true);
    if (bias) {
        cross_input(c, PEN_DTYPE_F32, 1, (int64_t[]){out}, true);
    }
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_weight_layout, WEIGHT_OHWI);
    cross_ints(c, ATTR_pads, 4, pads);
    cross_check(c);
}

/* Tiles that end anywhere, channels beside whole vectors and panels. */
Test(xnnpack_winograd, odd_shapes)
{
    cross_backend(NULL, NULL, 5e-5,
                  1e-4); /* results are up to 40 from 0: a millionth of the range, as winograd.h says */
    for (int i = 0; i < 40; i++) {
        const int64_t pads[4] = {cross_pick(0, 2), cross_pick(0, 2), cross_pick(0, 2), cross_pick(0, 2)};
        row(cross_pick(1, 3), cross_pick(12, 25), cross_pick(12, 41), cross_pick(12, 40), cross_pick(16, 70), pads,
            i % 2 == 0);
    }
    row(1, 56, 56, 64, 64, (int64_t[]){1, 1, 1, 1}, true); /* several blocks of tiles */
    row(1, 14, 14, 60, 300, (int64_t[]){1, 1, 1, 1}, true);
}

static struct few *chosen(int64_t side, int64_t in, int64_t out, struct few_window w)
{
    struct few *f = few_new();
    uint32_t x = few_input(f, 4, (int64_t[]){1, side, side, in});
    uint32_t weights = few_constant(f, 4, (int64_t[]){out, w.kernel, w.kernel, in / w.group});
    few_output(f, few_conv(f, x, weights, VALUE_NONE, w));
    few_run(f, 0);
    return f;
}

/* Which kernel runs by the rules: the forms are not inert, and are left alone where they do not pay. */
Test(xnnpack_winograd, rules)
{
    const struct {
        int64_t side, in, out;
        struct few_window w;
        const char *kernel;
    } rows[] = {{32, 32, 32, {3, 1, 1, 1}, "own Winograd F(4, 3)"},
                {14, 64, 64, {3, 1, 1, 1}, "own Winograd"},
                {14, 256, 256, {3, 1, 1, 1}, "own Winograd"},
                {32, 8, 32, {3, 1, 1, 1}, "own gemm"},
                {32, 32, 8, {3, 1, 1, 1}, "own gemm"},
                {32, 32, 32, {3, 2, 1, 1}, "own gemm"},
                {32, 32, 32, {3, 1, 2, 1}, "own gemm"},
                {32, 64, 64, {3, 1, 1, 2}, "own gemm"},
                {32, 32, 32, {5, 1, 1, 1}, "own gemm"},
                {5, 128, 128, {3, 1, 1, 1}, "own gemm"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct few *f = chosen(rows[i].side, rows[i].in, rows[i].out, rows[i].w);
        cr_assert_eq(few_kernels(f, rows[i].kernel), 1, "row %zu is not run by %s", i, rows[i].kernel);
        few_free(f);
    }
}

/* Additions, activations and further nodes behind it, and a chain of such convolutions whose sums may lie in place. */
Test(xnnpack_winograd, epilogues)
{
    for (int i = 0; i < 16; i++) {
        const int64_t c = cross_pick(16, 32), side = cross_pick(12, 30);
        struct few *f = few_new();
        uint32_t x = few_input(f, 4, (int64_t[]){2, side, side + 3, c}), start = few_node(f, OP_Neg, 1, &x), y = start;
        for (int k = 0; k < 3; k++) {
            uint32_t w = few_constant(f, 4, (int64_t[]){c, 3, 3, c}), bias = few_constant(f, 1, &c);
            uint32_t z = few_conv(f, y, w, bias, (struct few_window){3, 1, 1, 1});
            if (k == 1 && i % 2 == 1) {
                few_int(f, z, ATTR_act, ACT_HARDSWISH);
            }
            y = few_node(f, OP_Add, 2, (uint32_t[]){z, y});
            few_int(f, y, ATTR_act, i % (ACT_SWISH + 1) == ACT_CLAMP ? ACT_TANH : i % (ACT_SWISH + 1));
        }
        y = few_node(f, OP_Mul, 2, (uint32_t[]){y, start});
        few_output(f, y);
        few_run(f, 4);
        cr_assert_eq(few_kernels(f, "own Winograd"), 3);
        few_free(f);
    }
}
