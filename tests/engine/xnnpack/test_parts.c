#include <criterion/criterion.h>

#include "cross.h"
#include "few.h"

static uint32_t conv(struct few *f, uint32_t x, int64_t in, int64_t out, struct few_window w)
{
    uint32_t weights = few_constant(f, 4, (int64_t[]){out, w.kernel, w.kernel, in / w.group});
    return few_conv(f, x, weights, few_constant(f, 1, &out), w);
}

static uint32_t concat(struct few *f, uint32_t count, const uint32_t *in, int64_t axis)
{
    uint32_t y = few_node(f, OP_Concat, count, in);
    few_int(f, y, ATTR_axis, axis);
    return y;
}

static uint32_t pool(struct few *f, uint32_t x, enum op op)
{
    uint32_t y = few_node(f, op, 1, &x);
    few_int(f, y, ATTR_layout, LAYOUT_NHWC);
    few_ints(f, y, ATTR_kernel_shape, 2, (int64_t[]){3, 3});
    few_ints(f, y, ATTR_pads, 4, (int64_t[]){1, 1, 1, 1});
    return y;
}

#define POINT ((struct few_window){1, 1, 1, 1})

/* A branch of any kind that our kernels have, from a picture of c channels. */
static uint32_t branch(struct few *f, uint32_t x, int64_t c, int64_t out, int kind)
{
    uint32_t y;
    switch (kind) {
    case 0:
        return conv(f, x, c, out, POINT);
    case 1:
        return conv(f, x, c, out, (struct few_window){3, 1, 1, 1});
    case 2:
        return conv(f, x, c, out, (struct few_window){5, 1, 1, 1});
    case 3:
        y = conv(f, conv(f, x, c, out, POINT), out, out, (struct few_window){3, 1, 1, out});
        few_int(f, y, ATTR_act, ACT_SIGMOID);
        return y;
    case 4:
        y = conv(f, x, c, out, (struct few_window){3, 1, 2, 1});
        return few_node(f, OP_Mul, 2, (uint32_t[]){few_node(f, OP_Tanh, 1, &y), few_number(f, 0.3f)});
    default:
        return conv(f, pool(f, x, OP_AveragePool), c, out, POINT);
    }
}

/* Branches of all kinds write into one result, and are read there by others. */
Test(xnnpack_parts, branches_and_their_readers)
{
    for (int i = 0; i < 30; i++) {
        const int64_t c = cross_pick(17, 40), a = cross_pick(17, 50), b = cross_pick(17, 40), side = cross_pick(12, 18);
        struct few *f = few_new();
        uint32_t x = few_node(f, OP_Neg, 1, (uint32_t[]){few_input(f, 4, (int64_t[]){2, side, side, c})});
        uint32_t left = branch(f, x, c, a, i % 6), right = branch(f, x, c, b, i / 6 % 6);
        uint32_t pooled = i % 2 == 0 ? pool(f, left, OP_MaxPool) : conv(f, left, a, a, (struct few_window){3, 1, 1, 1});
        uint32_t both = concat(f, 2, (uint32_t[]){left, right}, i % 2 == 0 ? 3 : -1);
        few_output(f, conv(f, both, a + b, 24, POINT));
        few_output(f, concat(f, 2, (uint32_t[]){pooled, both}, 3)); /* `both` lies in it, and all that lies in `both` */
        few_run(f, UINT32_MAX);
        cr_assert_eq(few_kernels(f, "view"), i % 2 == 0 ? 1 : 2, "case %d: %u", i, few_kernels(f, "view"));
        few_free(f);
    }
}

/* A piece of a wider row is copied within its padding. */
Test(xnnpack_parts, pieces_within_their_padding)
{
    for (int i = 0; i < 12; i++) {
        const int64_t c = cross_pick(3, 26), other = cross_pick(1, 20), width = i % 2 == 0 ? 14 : cross_pick(5, 40);
        struct few *f = few_new();
        uint32_t x = few_input(f, 4, (int64_t[]){2, 7, width, c + other}), pieces[2];
        few_split(f, x, 3, (int64_t[]){c, other}, 2, pieces);
        few_output(f, conv(f, pieces[0], c, 20, (struct few_window){3, 1 + i % 3 / 2, 1, 1}));
        few_output(f, conv(f, pieces[1], other, 9, (struct few_window){3, 1, 1, 1}));
        few_run(f, UINT32_MAX);
        cr_assert_eq(few_kernels(f, "view"), 1, "case %d", i);
        few_free(f);
    }
}

/* A few results in each row of a wider one: their activation takes rows together, and leaves what lies between them. */
Test(xnnpack_parts, narrow_branches_with_activations)
{
    const int64_t acts[] = {ACT_SIGMOID, ACT_TANH, ACT_SWISH, ACT_LEAKY};
    for (int i = 0; i < 24; i++) {
        const int64_t c = cross_pick(8, 40), side = cross_pick(5, 30);
        struct few *f = few_new();
        uint32_t x = few_input(f, 4, (int64_t[]){1, side, side, c}), in[3];
        for (int k = 0; k < 3; k++) {
            in[k] = conv(f, x, c, k == 1 ? cross_pick(1, 15) : cross_pick(1, 40), POINT);
            few_int(f, in[k], ATTR_act, acts[(i + k) % 4]);
        }
        in[1] = i % 2 == 0 ? in[1] : few_node(f, OP_Abs, 1, &in[1]);
        few_output(f, concat(f, 3, in, 3));
        few_run(f, UINT32_MAX);
        cr_assert_eq(few_kernels(f, "view"), 1, "case %d", i);
        few_free(f);
    }
}

/* Pieces are read where they lie: by convolutions of each kind and by a later Concat; not by what knows nothing of rows. */
Test(xnnpack_parts, pieces_of_a_split)
{
    for (int i = 0; i < 24; i++) {
        const int64_t c = cross_pick(17, 40), side = cross_pick(12, 16);
        struct few *f = few_new();
        uint32_t x = few_input(f, 4, (int64_t[]){1, side, side, 2 * c}), halves[2];
        x = i % 2 == 0 ? x : conv(f, x, 2 * c, 2 * c, POINT);
        few_split(f, x, 3, (int64_t[]){c, c}, 2, halves);
        uint32_t right = branch(f, halves[1], c, c, i / 2 % 6);
        uint32_t left = i % 3 == 0 ? few_node(f, OP_Sigmoid, 1, &halves[0]) : halves[0];
        few_output(f, concat(f, 2, (uint32_t[]){left, right}, 3));
        few_run(f, UINT32_MAX);
        cr_assert_eq(few_kernels(f, "view"), i % 3 != 0, "case %d: %u", i, few_kernels(f, "view"));
        few_free(f);
    }
}

/* A picture made larger goes beside another, as in detectors and segmenters. */
Test(xnnpack_parts, resize_writes_where_it_belongs)
{
    const float factors[][4] = {{1, 2, 2, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1.5f, 3, 1}};
    for (int i = 0; i < 8; i++) {
        const int64_t c = cross_pick(2, 40), h = 6, w = 8;
        const float *by = factors[i % 4];
        struct few *f = few_new();
        uint32_t x = few_node(f, OP_Abs, 1, (uint32_t[]){few_input(f, 4, (int64_t[]){2, h, w, c})});
        uint32_t scales = few_data(f, 4, by), y = few_node(f, OP_Resize, 3, (uint32_t[]){x, VALUE_NONE, scales});
        few_text(f, y, ATTR_mode, i < 4 ? "nearest" : "linear");
        uint32_t beside = few_input(f, 4, (int64_t[]){2, (int64_t)((float)h * by[1]), (int64_t)((float)w * by[2]), 9});
        few_output(f, concat(f, 2, (uint32_t[]){conv(f, beside, 9, 20, POINT), y}, 3));
        few_run(f, 0);
        cr_assert_eq(few_kernels(f, "view"), i % 4 != 1, "case %d",
                     i); /* whole rows of a picture are not rows of channels */
        few_free(f);
    }
}

/* Where a segmenter doubles its picture: both halves are written where they belong. */
Test(xnnpack_parts, a_step_up_beside_what_was_kept)
{
    for (int i = 0; i < 6; i++) {
        const int64_t c = cross_pick(17, 40), out = i % 2 == 0 ? 32 : 20;
        struct few *f = few_new();
        uint32_t kept = conv(f, few_input(f, 4, (int64_t[]){1, 12, 16, 20}), 20, 24, POINT);
        uint32_t small = few_input(f, 4, (int64_t[]){1, 6, 8, c}), w = few_constant(f, 4, (int64_t[]){c, out, 2, 2});
        uint32_t up = few_node(f, OP_ConvTranspose, 3, (uint32_t[]){small, w, few_constant(f, 1, &out)});
        few_int(f, up, ATTR_layout, LAYOUT_NHWC);
        few_ints(f, up, ATTR_strides, 2, (int64_t[]){2, 2});
        few_int(f, up, ATTR_act, i % 3 == 0 ? ACT_TANH : ACT_NONE);
        few_output(f, concat(f, 2, (uint32_t[]){kept, up}, 3));
        few_run(f, 0);
        cr_assert_eq(few_kernels(f, "own gemm of windows side by side"), 1);
        cr_assert_eq(few_kernels(f, "view"), i % 2 == 0, "whole panels");
        few_free(f);
    }
}

/* What must stay apart: a value that is read after somebody has written over the whole, one that is asked for, the same part twice, constants. */
Test(xnnpack_parts, what_is_copied)
{
    const int64_t dims[] = {1, 9, 10, 24};
    struct few *f = few_new(); /* Relu writes over the concatenation; `a` is read behind it */
    uint32_t x = few_input(f, 4, dims), a = conv(f, x, 24, 24, POINT), b = conv(f, x, 24, 24, POINT);
    uint32_t y = concat(f, 2, (uint32_t[]){a, b}, 3);
    y = few_node(f, OP_Relu, 1, &y);
    y = conv(f, y, 48, 24, POINT);
    few_output(f, conv(f, few_node(f, OP_Mul, 2, (uint32_t[]){conv(f, a, 24, 24, POINT), y}), 24, 24, POINT));
    few_run(f, UINT32_MAX);
    cr_assert_eq(few_kernels(f, "view"), 0);
    few_free(f);

    f = few_new(); /* asked for; twice */
    x = few_input(f, 4, dims);
    a = conv(f, x, 24, 24, POINT);
    b = conv(f, x, 24, 24, POINT);
    few_output(f, a);
    few_output(f, concat(f, 3, (uint32_t[]){a, b, b}, 3));
    few_output(f, concat(f, 2, (uint32_t[]){b, few_constant(f, 4, dims)}, 3));
    few_run(f, UINT32_MAX);
    cr_assert_eq(few_kernels(f, "view"), 0);
    few_free(f);
}

/* Along the first dim that counts a part is one piece of memory: any step may write it. */
Test(xnnpack_parts, one_piece_each)
{
    for (int i = 0; i < 12; i++) {
        struct few *f = few_new();
        uint32_t x = few_input(f, 3, (int64_t[]){1, cross_pick(1, 9), cross_pick(1, 40)}), parts[3];
        for (int k = 0; k < 3; k++) {
            parts[k] = few_node(f, k == 1 ? OP_Sigmoid : OP_Tanh, 1, (uint32_t[]){few_node(f, OP_Abs, 1, &x)});
        }
        few_output(f, few_node(f, OP_Softmax, 1, &parts[1]));
        uint32_t y = concat(f, 3, parts, 1);
        few_output(f, few_node(f, OP_Softmax, 1, &y));
        few_run(f, 3);
        cr_assert_eq(few_kernels(f, "view"), 1);
        few_free(f);
    }
}
