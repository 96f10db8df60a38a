#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

/* {n, h, w, in, out, kh, kw, stride, dilation, pad before, pad after, groups, act} */
static const struct cross_conv rows[] = {
    {1, 14, 14, 32, 64, 1, 1, 1, 1, 0, 0, 1, ACT_NONE},    {1, 7, 7, 64, 96, 1, 1, 1, 1, 0, 0, 1, ACT_CLAMP},
    {1, 15, 13, 3, 24, 3, 3, 2, 1, 1, 1, 1, ACT_CLAMP},    {2, 9, 9, 16, 33, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},
    {1, 9, 9, 16, 16, 3, 3, 1, 2, 2, 2, 1, ACT_HARDSWISH}, {1, 12, 12, 8, 8, 5, 5, 1, 1, 2, 2, 8, ACT_NONE},
    {1, 12, 12, 24, 24, 3, 3, 2, 1, 0, 1, 24, ACT_CLAMP},  {1, 8, 8, 8, 16, 3, 3, 1, 1, 1, 1, 8, ACT_NONE},
    {1, 8, 8, 32, 64, 3, 3, 1, 1, 1, 1, 2, ACT_LEAKY},     {1, 8, 8, 12, 12, 3, 3, 1, 1, 1, 1, 3, ACT_NONE},
    {1, 20, 20, 3, 64, 7, 7, 2, 1, 3, 3, 1, ACT_CLAMP},    {1, 7, 7, 300, 40, 3, 3, 1, 1, 1, 1, 1, ACT_SIGMOID},
    {3, 1, 1, 513, 7, 1, 1, 1, 1, 0, 0, 1, ACT_NONE},      {1, 30, 30, 16, 1, 1, 1, 2, 1, 0, 0, 1, ACT_NONE},
};

Test(xnnpack_conv, table_of_shapes_with_constant_weights)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cross_conv_check(&rows[i], true, i % 2 == 0);
    }
}

Test(xnnpack_conv, table_of_shapes_with_computed_weights)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cross_conv_check(&rows[i], false, i % 2 == 1);
    }
}

Test(xnnpack_conv, random_shapes)
{
    for (int i = 0; i < 60; i++) {
        struct cross_conv r = {.n = cross_pick(1, 2),
                               .h = cross_pick(5, 19),
                               .w = cross_pick(5, 19),
                               .kh = cross_pick(1, 3),
                               .kw = cross_pick(1, 3)};
        r.groups = cross_pick(0, 2) == 0 ? cross_pick(1, 6) : 1;
        r.in = r.groups * cross_pick(1, 40);
        r.out = r.groups * cross_pick(1, 70);
        r.stride = cross_pick(1, 3);
        r.dilation = cross_pick(1, 2);
        r.before = cross_pick(0, 2);
        r.after = cross_pick(0, 2);
        cross_conv_check(&r, true, true);
    }
}

/* Every kernel and stride that has a loop of its own, others, edges on both sides, vectors of channels that overlap, and rows shorter than a tile. */
Test(xnnpack_conv, depthwise_of_every_form)
{
    for (int i = 0; i < 150; i++) {
        struct cross_conv r = {.n = cross_pick(1, 2), .h = cross_pick(1, 12), .w = cross_pick(1, 30)};
        r.kh = cross_pick(1, 7);
        r.kw = i % 3 == 0 ? cross_pick(1, 9) : 3 + 2 * (i % 3 - 1) + 2 * (i % 2);
        r.groups = r.in = r.out = i % 5 == 0 ? cross_pick(2, 15) : cross_pick(16, 70);
        r.stride = cross_pick(1, i % 4 == 0 ? 3 : 2);
        r.dilation = i % 7 == 0 ? 2 : 1;
        r.before = cross_pick(0, r.kw / 2);
        r.after = cross_pick(0, r.kw / 2);
        r.act = i % 4 == 1 ? ACT_CLAMP : i % 4 == 2 ? ACT_HARDSWISH : ACT_NONE;
        if (r.h + r.before + r.after > (r.kh - 1) * r.dilation && r.w + r.before + r.after > (r.kw - 1) * r.dilation) {
            cross_conv_check(&r, true, i % 6 != 0);
        }
    }
}

/* Groups narrower than a vector and wider than a panel, rows of every remainder of a tile, several bands and images, activations of both kinds. */
static void groups(void)
{
    for (int i = 0; i < 120; i++) {
        struct cross_conv r = {.n = cross_pick(1, 2), .h = cross_pick(3, 40), .w = cross_pick(1, 60)};
        r.groups = cross_pick(2, i % 3 == 0 ? 30 : 6);
        r.in = r.groups * (i % 4 == 0 ? cross_pick(1, 3) : cross_pick(2, 50));
        r.out = r.groups * (i % 3 == 0 ? cross_pick(1, 8) : cross_pick(4, 70));
        r.kh = cross_pick(1, 5);
        r.kw = cross_pick(1, 5);
        r.stride = cross_pick(1, 2);
        r.dilation = i % 6 == 0 ? 2 : 1;
        r.before = cross_pick(0, r.kw / 2);
        r.after = cross_pick(0, r.kw / 2);
        r.act = i % 4 == 1 ? ACT_CLAMP : i % 4 == 2 ? ACT_HARDSWISH : ACT_NONE;
        if (r.h + r.before + r.after > (r.kh - 1) * r.dilation && r.w + r.before + r.after > (r.kw - 1) * r.dilation) {
            cross_conv_check(&r, i % 10 != 0, i % 6 != 0);
        }
    }
}

Test(xnnpack_conv, groups_of_every_width)
{
    groups();
}

Test(xnnpack_conv, groups_in_avx2)
{
    cross_ask(PEN_PRECISION_F32, PEN_ISA_AVX2, 0.0f);
    groups();
}

/* Rows of a matrix of every remainder of a tile. */
Test(xnnpack_conv, rows_of_every_number)
{
    for (int64_t count = 1; count <= 60; count++) {
        const struct cross_conv r = {.n = 1,
                                     .h = 1,
                                     .w = count,
                                     .in = 20,
                                     .out = count % 40 + 1,
                                     .kh = 1,
                                     .kw = 1,
                                     .stride = 1,
                                     .dilation = 1,
                                     .groups = 1};
        cross_conv_check(&r, true, count % 2 == 0);
    }
}

/* First layers: patches that lie inside of the image are read where they are, others are copied. */
Test(xnnpack_conv, few_channels_in)
{
    for (int i = 0; i < 60; i++) {
        struct cross_conv r = {.n = cross_pick(1, 2), .h = cross_pick(7, 20), .w = cross_pick(7, 60)};
        r.kh = cross_pick(1, 7);
        r.kw = cross_pick(1, 7);
        r.in = cross_pick(1, 4);
        r.out = cross_pick(1, 70);
        r.groups = 1;
        r.stride = cross_pick(1, 3);
        r.dilation = i % 7 == 0 ? 2 : 1;
        r.before = cross_pick(0, 3);
        r.after = cross_pick(0, 3);
        r.act = i % 3 == 1 ? ACT_CLAMP : i % 3 == 2 ? ACT_SIGMOID : ACT_NONE;
        if (r.h + r.before + r.after > (r.kh - 1) * r.dilation && r.w + r.before + r.after > (r.kw - 1) * r.dilation) {
            cross_conv_check(&r, true, i % 6 != 0);
        }
    }
}

/* Rows of whole tiles, and others: the picture is copied within its padding where most tiles would cross its edges. */
Test(xnnpack_conv, rows_of_whole_tiles)
{
    const int64_t widths[] = {6, 12, 14, 18, 24, 28, 30, 42, 56, 64, 65};
    for (int i = 0; i < 66; i++) {
        struct cross_conv r = {
            .n = cross_pick(1, 2), .h = cross_pick(3, 12), .kh = cross_pick(1, 5), .kw = cross_pick(2, 5)};
        r.in = cross_pick(5, 28);
        r.out = cross_pick(1, 40);
        r.groups = 1;
        r.stride = i % 3 == 0 ? 2 : 1;
        r.dilation = i % 11 == 0 ? 2 : 1;
        r.before = cross_pick(0, 2);
        r.after = cross_pick(0, 2);
        r.w = (widths[i % 11] - 1) * r.stride + (r.kw - 1) * r.dilation + 1 - r.before - r.after;
        r.act = i % 3 == 1 ? ACT_CLAMP : i % 3 == 2 ? ACT_SWISH : ACT_NONE;
        if (r.w > 0 && r.h + r.before + r.after > (r.kh - 1) * r.dilation) {
            cross_conv_check(&r, true, i % 6 != 0);
        }
    }
}

Test(xnnpack_conv, same_padding_is_resolved)
{
    const char *modes[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    for (size_t i = 0; i < 3; i++) {
        struct cross *c = cross_new(OP_Conv);
        cross_input(c, F32, 4, (int64_t[]){1, 12, 15, 4}, false);
        cross_input(c, F32, 4, (int64_t[]){8, 4, 4, 3}, true);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 1});
        cross_text(c, ATTR_auto_pad, modes[i]);
        cross_check(c);
    }
}

Test(xnnpack_conv, one_spatial_dim)
{
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, F32, 3, (int64_t[]){2, 30, 20}, false);
    cross_input(c, F32, 3, (int64_t[]){17, 20, 5}, true);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_strides, 1, (int64_t[]){2});
    cross_ints(c, ATTR_pads, 2, (int64_t[]){2, 1});
    cross_check(c);
}

/* The four layouts hold the same numbers in another order: each must read its own. */
Test(xnnpack_conv, weight_layouts)
{
    const struct {
        int64_t layout, dims[4], group;
    } layouts[] = {{WEIGHT_OHWI, {40, 3, 3, 8}, 1}, {WEIGHT_HWIO, {3, 3, 8, 40}, 1}, {WEIGHT_HWIM, {3, 3, 8, 2}, 8}};
    for (size_t i = 0; i < 3; i++) {
        struct cross *c = cross_new(OP_Conv);
        cross_input(c, F32, 4, (int64_t[]){1, 9, 9, 8}, false);
        cross_input(c, F32, 4, layouts[i].dims, true);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_int(c, ATTR_weight_layout, layouts[i].layout);
        cross_int(c, ATTR_group, layouts[i].group);
        cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){3, 3});
        cross_check(c);
    }
}

Test(xnnpack_conv, other_types_are_refused)
{
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, PEN_DTYPE_F64, 4, (int64_t[]){1, 4, 9, 9}, false);
    cross_input(c, PEN_DTYPE_F64, 4, (int64_t[]){8, 4, 3, 3}, true);
    cross_refused(c);
}

/* Windows side by side: a product for each position of the kernel, or for each row of it where channels do not fill panels. */
Test(xnnpack_deconv, kernel_as_large_as_the_stride)
{
    for (int i = 0; i < 40; i++) {
        const int64_t in = cross_pick(1, 70), out = i % 3 == 0 ? 32 * cross_pick(1, 2) : cross_pick(1, 40);
        const int64_t kernel[2] = {cross_pick(1, 3), cross_pick(1, 4)};
        struct cross *c = cross_new(OP_ConvTranspose);
        cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){cross_pick(1, 2), cross_pick(1, 9), cross_pick(1, 31), in}, false);
        cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){in, out, kernel[0], kernel[1]}, true);
        if (i % 2 == 0) {
            cross_input(c, PEN_DTYPE_F32, 1, &out, true);
        }
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_strides, 2, kernel);
        cross_check(c);
    }
}

/* Few channels out: pieces of rows that are shorter and longer than vectors, images within and without padding, an odd number of results in a row. */
static void check_narrow(enum pen_isa most)
{
    cross_ask(PEN_PRECISION_F32, most, 0.0f);
    for (int i = 0; i < 40; i++) {
        struct cross_conv r = {.n = cross_pick(1, 2),
                               .h = cross_pick(6, 14),
                               .w = cross_pick(6, 30),
                               .kh = cross_pick(1, 5),
                               .kw = cross_pick(1, 4),
                               .out = cross_pick(1, 5),
                               .stride = cross_pick(1, 2),
                               .groups = 1};
        r.in = 128 / (r.kh * r.kw) + cross_pick(0, 20);
        r.dilation = i % 8 == 0 && r.h > 9 ? 2 : 1;
        r.before = i % 3 == 0 ? 0 : cross_pick(0, 2);
        r.after = i % 3 == 0 ? 0 : cross_pick(0, 2);
        r.act = i % 4 == 0 ? ACT_HARDSWISH : i % 4 == 1 ? ACT_CLAMP : ACT_NONE;
        cross_conv_check(&r, true, i % 5 != 0);
    }
}

Test(xnnpack_conv, few_channels_out)
{
    check_narrow(PEN_ISA_ANY);
    /* long rows, in pieces: within padding and without, strides, and one piece that is nearly empty */
    cross_conv_check(&(struct cross_conv){2, 1, 1500, 32, 1, 1, 7, 1, 1, 3, 3, 1, ACT_CLAMP}, true, true);
    cross_conv_check(&(struct cross_conv){1, 3, 997, 48, 3, 3, 3, 2, 1, 1, 1, 1, ACT_NONE}, true, true);
    cross_conv_check(&(struct cross_conv){1, 2, 700, 130, 2, 2, 1, 1, 1, 0, 0, 1, ACT_NONE}, true, false);
}

Test(xnnpack_conv, few_channels_out_in_avx2)
{
    check_narrow(PEN_ISA_AVX2);
}
