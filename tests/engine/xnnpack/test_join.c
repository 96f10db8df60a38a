#include <criterion/criterion.h>
#include <math.h>

#include "cross.h"
#include "few.h"

#define ONE ((struct few_window){1, 1, 1, 1})

static uint32_t pair(struct few *f, enum op op, uint32_t a, uint32_t b)
{
    return few_node(f, op, 2, (uint32_t[]){a, b});
}

static uint32_t single(struct few *f, enum op op, uint32_t a)
{
    return few_node(f, op, 1, &a);
}

/* A convolution of x with seeded weights; group = in: depthwise. */
static uint32_t conv(struct few *f, uint32_t x, int64_t in, int64_t out, struct few_window w, bool bias)
{
    uint32_t weights = few_constant(f, 4, (int64_t[]){out, w.kernel, w.kernel, in / w.group});
    return few_conv(f, x, weights, bias ? few_constant(f, 1, (int64_t[]){out}) : VALUE_NONE, w);
}

static uint32_t picture(struct few *f, int64_t batch, int64_t h, int64_t w, int64_t channels)
{
    return few_input(f, 4, (int64_t[]){batch, h, w, channels});
}

static void act_set(struct few *f, uint32_t value, int kind)
{
    if (kind == ACT_NONE) {
        return;
    }
    few_int(f, value, ATTR_act, kind);
    if (kind == ACT_CLAMP) {
        few_float(f, value, ATTR_act_min, -0.25f);
        few_float(f, value, ATTR_act_max, 0.5f);
    }
}

/* Groups of several channels run in the kernel that is made for them, unless their windows are one pixel or dilated. */
Test(xnnpack_join, groups_have_a_kernel_of_their_own)
{
    static const struct {
        int64_t in, out;
        struct few_window w;
        bool own;
    } cases[] = {{64, 64, {3, 1, 1, 4}, true},   {64, 64, {3, 2, 1, 16}, true}, {20, 30, {5, 1, 1, 10}, true},
                 {64, 64, {1, 1, 1, 4}, false},  {64, 64, {3, 1, 2, 4}, false}, {64, 64, {3, 1, 1, 1}, false},
                 {64, 64, {3, 1, 1, 64}, false}, {64, 128, {3, 1, 1, 64}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct few *f = few_new();
        few_output(f, conv(f, picture(f, 1, 9, 17, cases[i].in), cases[i].in, cases[i].out, cases[i].w, true));
        few_run(f, 0);
        cr_expect_eq(few_kernels(f, "own gemm of groups"), cases[i].own ? 1u : 0u, "case %zu", i);
        few_free(f);
    }
}

/* One convolution, one addition on either side, every activation. */
Test(xnnpack_join, conv_and_add_over_odd_shapes)
{
    for (int i = 0; i < 90; i++) {
        const int64_t batch = cross_pick(1, 2), side = cross_pick(1, 19), wide = cross_pick(1, 40),
                      in = cross_pick(1, 70);
        const int64_t groups = i % 5 == 4 ? cross_pick(2, 3) : 1,
                      out = i % 5 == 4 ? groups * cross_pick(16, 40) : cross_pick(1, 70);
        const struct few_window w = {i % 3 == 0 ? 1 : cross_pick(1, 2) * 2 + 1, cross_pick(1, 2),
                                     i % 3 == 2 ? cross_pick(1, 2) : 1, groups};
        const int64_t channels = groups > 1 ? groups * (in / groups + 4) : in;
        struct few *f = few_new();
        uint32_t x = picture(f, batch, side, wide, channels);
        uint32_t other = picture(f, batch, (side - 1) / w.stride + 1, (wide - 1) / w.stride + 1, out);
        uint32_t y = conv(f, x, channels, out, w, i % 4 != 0);
        act_set(f, y, i % 7 == 6 ? ACT_SWISH : ACT_NONE);
        uint32_t z = i % 2 == 0 ? pair(f, OP_Add, y, other) : pair(f, OP_Add, other, y);
        act_set(f, z, i % (ACT_SWISH + 1));
        few_output(f, z);
        few_check(f, 1);
    }
}

/* What is added may be the convolution's own input, or a value that lies in its memory: it must not be written before it is read. */
Test(xnnpack_join, residual_blocks)
{
    for (int i = 0; i < 24; i++) {
        const int64_t c = cross_pick(8, 300);
        const struct few_window w = {i % 2 == 0 ? 1 : 3, 1, 1, 1};
        struct few *f = few_new();
        uint32_t first = single(f, OP_Neg, picture(f, 1, 9, 11, c));
        uint32_t x = first;
        for (int k = 0; k < 3; k++) {
            uint32_t y = conv(f, x, c, c, w, k % 2 == 0);
            x = pair(f, OP_Add, i % 4 < 2 ? x : y, i % 4 < 2 ? y : x);
            act_set(f, x, k == 1 ? ACT_CLAMP : ACT_NONE);
        }
        few_output(f, pair(f, OP_Mul, x, first));
        few_check(f, 4);
    }
}

Test(xnnpack_join, two_convolutions_and_what_others_read)
{
    struct few *f = few_new();
    uint32_t x = picture(f, 1, 7, 8, 24);
    uint32_t a = conv(f, x, 24, 40, ONE, true), b = conv(f, x, 24, 40, (struct few_window){3, 1, 1, 1}, true);
    few_output(f, pair(f, OP_Add, a, b));
    few_run(f, 1);
    cr_assert_eq(few_kernels(f, "own gemm over patches that adds"), 1, "the later of the two adds");
    few_free(f);

    f = few_new(); /* two readers; an output */
    x = picture(f, 1, 7, 8, 24);
    a = conv(f, x, 24, 24, ONE, true);
    b = pair(f, OP_Add, a, x);
    few_output(f, pair(f, OP_Mul, b, single(f, OP_Sigmoid, a)));
    few_output(f, b);
    few_check(f, 1); /* Sigmoid and Mul */

    f = few_new(); /* an operand that is repeated: not an epilogue's */
    x = picture(f, 2, 7, 8, 24);
    a = conv(f, x, 24, 40, ONE, true);
    few_output(f, pair(f, OP_Add, a, few_input(f, 4, (int64_t[]){2, 1, 1, 40})));
    few_check(f, 0);
}

/* Behind a depthwise convolution, and more than one node. */
Test(xnnpack_join, longer_epilogues)
{
    for (int i = 0; i < 24; i++) {
        const int64_t c = cross_pick(5, 70);
        const struct few_window w = {3, cross_pick(1, 2), 1, i % 2 == 0 ? c : 1};
        struct few *f = few_new();
        uint32_t x = picture(f, 2, 13, 12, c);
        uint32_t y = conv(f, x, c, c, w, true);
        uint32_t same = picture(f, 2, 12 / w.stride + 1, 11 / w.stride + 1, c);
        y = pair(f, OP_Mul, y, few_number(f, 0.37f));
        y = single(f, OP_Sigmoid, y);
        y = i % 3 == 0 ? pair(f, OP_Sub, same, y) : pair(f, OP_Div, y, same);
        y = pair(f, OP_Mul, y, y);
        act_set(f, y, i % 4 == 0 ? ACT_HARDSWISH : ACT_CLAMP);
        few_output(f, y);
        few_check(f, 4);
    }
}

static uint32_t operand(struct few *f, int at)
{
    const int64_t dims[][4] = {{2, 5, 33, 48}, {1, 1, 1, 48}, {2, 1, 1, 48}, {2, 5, 33, 1},
                               {1, 1, 1, 1},   {1, 5, 1, 1},  {1, 1, 33, 48}};
    return few_input(f, 4, dims[at]);
}

/* Programs made by chance, operands broadcast in all ways. */
Test(xnnpack_join, chains_of_element_wise_nodes)
{
    const enum op pairs[] = {OP_Add, OP_Sub, OP_Mul, OP_Div, OP_Max, OP_Min, OP_PRelu},
                  singles[] = {OP_Sigmoid, OP_Tanh, OP_Abs, OP_Neg, OP_Relu, OP_Floor, OP_Softplus, OP_HardSigmoid};
    for (int i = 0; i < 60; i++) {
        struct few *f = few_new();
        uint32_t x = operand(f, 0), count = (uint32_t)cross_pick(2, 5);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t other = k == 3 ? x : operand(f, (int)cross_pick(0, 6));
            bool one = cross_pick(0, 2) == 0, turned = cross_pick(0, 1) == 1;
            enum op op = one ? singles[cross_pick(0, 7)] : pairs[cross_pick(0, 6)];
            turned = turned && op != OP_PRelu;
            x = one ? single(f, op, x) : pair(f, op, turned ? other : x, turned ? x : other);
            act_set(f, x, !one && cross_pick(0, 3) == 0 ? ACT_CLAMP : ACT_NONE);
        }
        few_output(f, x);
        few_check(f, UINT32_MAX);
    }
}

/* The last state of an LSTM whose states of all steps nobody asked for. */
Test(xnnpack_join, what_goes_on_with_a_second_result_stays_by_itself)
{
    struct few *f = few_new();
    uint32_t in[3] = {few_input(f, 3, (int64_t[]){4, 2, 3}), few_constant(f, 3, (int64_t[]){1, 20, 3}),
                      few_constant(f, 3, (int64_t[]){1, 20, 5})};
    uint32_t state = few_result(f, OP_LSTM, 3, in, 1);
    few_int(f, state, ATTR_hidden_size, 5);
    few_output(f, single(f, OP_Neg, state));
    few_check(f, 0);
}

/* Its memory is not the result's before the last of them is read. */
Test(xnnpack_join, a_sum_may_have_the_same_term_twice)
{
    const enum op ops[] = {OP_Sum, OP_Mean};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct few *f = few_new();
        uint32_t x = single(f, OP_Neg, operand(f, 0));
        few_output(f, few_node(f, ops[i], 3, (uint32_t[]){x, operand(f, 6), x}));
        few_near(f, 1e-6);
        few_check(f, UINT32_MAX);
    }
}

Test(xnnpack_join, an_option_leaves_every_node_by_itself)
{
    for (int on = 0; on < 2; on++) {
        struct few *f = few_new();
        few_options(f, on ? "xnnpack.joins=on" : "xnnpack.tiles=off,xnnpack.joins=off");
        uint32_t x = operand(f, 0);
        few_output(f, single(f, OP_Sigmoid, pair(f, OP_Mul, x, operand(f, 6))));
        few_check(f, on ? 1 : 0);
    }
}

Test(xnnpack_join, what_a_chain_holds)
{
    struct few *f = few_new(); /* the first operand is repeated */
    uint32_t x = pair(f, OP_Add, operand(f, 1), operand(f, 3));
    few_output(f, pair(f, OP_Max, x, operand(f, 5)));
    few_check(f, 1);

    f = few_new(); /* a result smaller than what it goes into is computed once */
    x = pair(f, OP_Add, operand(f, 1), operand(f, 2));
    few_output(f, pair(f, OP_Max, x, operand(f, 0)));
    few_check(f, 0);

    f = few_new(); /* one number all along, and Clip with known limits */
    x = few_input(f, 1, (int64_t[]){1});
    x = few_node(f, OP_Clip, 3, (uint32_t[]){single(f, OP_Exp, x), few_number(f, 0.5f), few_number(f, 2.0f)});
    few_output(f, pair(f, OP_Sub, few_number(f, 1.0f), x));
    few_check(f, 2);

    f = few_new(); /* more steps than a chain has room for: two of them */
    x = operand(f, 0);
    for (int i = 0; i < 20; i++) {
        x = single(f, i % 2 == 0 ? OP_Tanh : OP_Neg, x);
    }
    few_output(f, x);
    few_check(f, 18);
}
