#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

Test(xnnpack_norm, layer_and_rms)
{
    const int64_t shape[4] = {2, 3, 40, 33};
    for (int64_t axis = -2; axis < 4; axis++) {
        int64_t from = axis < 0 ? axis + 4 : axis, rms;
        for (rms = 0; rms < 2; rms++) {
            struct cross *c = cross_new(rms ? OP_RMSNormalization : OP_LayerNormalization);
            cross_input(c, F32, 4, shape, false);
            cross_input(c, F32, (int32_t)(4 - from), shape + from, true);
            if (!rms && axis > 0) {
                cross_input(c, F32, (int32_t)(4 - from), shape + from, true);
                cross_outputs(c, 3);
            }
            cross_int(c, ATTR_axis, axis);
            cross_check(c);
        }
    }
}

Test(xnnpack_norm, instance_and_group)
{
    for (int64_t groups = 0; groups < 4; groups++) {
        struct cross *c = cross_new(groups == 0 ? OP_InstanceNormalization : OP_GroupNormalization);
        cross_input(c, F32, 4, (int64_t[]){2, 12, 7, 9}, false);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        if (groups > 0) {
            cross_int(c, ATTR_num_groups, groups);
        }
        cross_check(c);
    }
}

Test(xnnpack_norm, batch_in_both_layouts)
{
    for (int64_t layout = 0; layout < 2; layout++) {
        struct cross *c = cross_new(OP_BatchNormalization);
        cross_input(c, F32, 4, (int64_t[]){2, 12, 9, 12}, false);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        cross_input(c, F32, 1, (int64_t[]){12}, false);
        cross_range(c, 0.5f, 2.0f);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        cross_int(c, ATTR_layout, layout);
        cross_check(c);
    }
}

Test(xnnpack_pad, modes)
{
    const char *modes[] = {"constant", "edge", "reflect", "wrap"};
    const enum pen_dtype types[] = {PEN_DTYPE_F32, PEN_DTYPE_I64, PEN_DTYPE_U8};
    for (size_t i = 0; i < 12; i++) {
        struct cross *c = cross_new(OP_Pad);
        cross_input(c, types[i / 4], 3, (int64_t[]){6, 7, 8}, false);
        cross_i64(c, 6, (int64_t[]){1, 0, 3, 2, i % 4 == 0 ? -2 : 1, 2});
        if (i % 4 == 0) {
            cross_input(c, types[i / 4], 0, NULL, true);
        }
        cross_text(c, ATTR_mode, modes[i % 4]);
        cross_check(c);
    }
}

static void deconv(int64_t groups, int64_t stride, int64_t before, int64_t after, int64_t extra, int64_t dilation,
                   const char *same)
{
    struct cross *c = cross_new(OP_ConvTranspose);
    cross_input(c, F32, 4, (int64_t[]){2, 7, 6, 12}, false);
    cross_input(c, F32, 4, (int64_t[]){12, 10, 3, 4}, true);
    cross_input(c, F32, 1, (int64_t[]){10 * groups}, true);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_group, groups);
    cross_ints(c, ATTR_strides, 2, (int64_t[]){stride, stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){dilation, dilation});
    if (same != NULL) {
        cross_text(c, ATTR_auto_pad, same);
    } else {
        cross_ints(c, ATTR_pads, 4, (int64_t[]){before, before, after, after});
        cross_ints(c, ATTR_output_padding, 2, (int64_t[]){extra, extra});
    }
    cross_check(c);
}

Test(xnnpack_deconv, strides_padding_groups)
{
    deconv(1, 1, 0, 0, 0, 1, NULL);
    deconv(1, 2, 1, 1, 1, 1, NULL);
    deconv(3, 2, 1, 0, 0, 1, NULL);
    deconv(2, 3, 0, 1, 2, 1, NULL);
    deconv(1, 1, 1, 2, 0, 2, NULL);
    deconv(1, 2, 0, 0, 0, 1, "SAME_UPPER");
    deconv(1, 2, 0, 0, 0, 1, "SAME_LOWER");
    deconv(1, 2, 0, 0, 0, 1, "VALID");
}

/* Any window whose channels fill vectors, in one dim or two, in several blocks of rows; kernels smaller than a stride leave results that are the bias alone. */
static void check_windows(enum pen_isa most)
{
    cross_ask(PEN_PRECISION_F32, most, 0.0f);
    for (int i = 0; i < 60; i++) {
        const bool one = i % 5 == 4;
        const int64_t groups = cross_pick(0, 3) == 0 ? 2 : 1, in = groups * cross_pick(8, 40), out = cross_pick(1, 40);
        const int64_t kernel[2] = {cross_pick(1, 5), cross_pick(8 / out + 1, 8 / out + 5)};
        const int64_t stride[2] = {cross_pick(1, 3), cross_pick(1, 3)},
                      dilation[2] = {cross_pick(1, 2), cross_pick(1, 2)};
        const int64_t h = i % 7 == 0 ? 90 : cross_pick(3, 12), w = i % 7 == 0 ? 40 : cross_pick(3, 30);
        const int64_t extra[2] = {cross_pick(0, stride[0] - 1), cross_pick(0, stride[1] - 1)};
        const int64_t pads[4] = {cross_pick(0, 1), cross_pick(0, 1), cross_pick(0, 1), cross_pick(0, 1)};
        const int skip = one ? 1 : 0;
        struct cross *c = cross_new(OP_ConvTranspose);
        cross_input(c, F32, one ? 3 : 4, one ? (int64_t[]){2, w, in} : (int64_t[]){cross_pick(1, 2), h, w, in}, false);
        cross_input(c, F32, one ? 3 : 4,
                    one ? (int64_t[]){in, out, kernel[1]} : (int64_t[]){in, out, kernel[0], kernel[1]}, true);
        if (i % 3 != 0) {
            cross_input(c, F32, 1, (int64_t[]){out * groups}, true);
        }
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_int(c, ATTR_group, groups);
        cross_ints(c, ATTR_strides, (uint32_t)(2 - skip), stride + skip);
        cross_ints(c, ATTR_dilations, (uint32_t)(2 - skip), dilation + skip);
        cross_ints(c, ATTR_output_padding, (uint32_t)(2 - skip), extra + skip);
        cross_ints(c, ATTR_pads, (uint32_t)(4 - 2 * skip), one ? (int64_t[]){pads[1], pads[3]} : pads);
        cross_check(c);
    }
}

/* Rows as sound has them: cut in pieces, which ask pixels of each other; some lie in the padding alone. */
static void check_long_row(int64_t kernel, int64_t stride, int64_t dilation, int64_t pad)
{
    struct cross *c = cross_new(OP_ConvTranspose);
    cross_input(c, F32, 3, (int64_t[]){2, 1500, 16}, false);
    cross_input(c, F32, 3, (int64_t[]){16, 24, kernel}, true);
    cross_input(c, F32, 1, (int64_t[]){24}, true);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_strides, 1, &stride);
    cross_ints(c, ATTR_dilations, 1, &dilation);
    cross_ints(c, ATTR_pads, 2, (int64_t[]){pad, pad});
    cross_check(c);
}

Test(xnnpack_deconv, long_rows_in_pieces)
{
    cross_ask(PEN_PRECISION_F32, PEN_ISA_ANY, 0.0f);
    check_long_row(16, 8, 1, 4);
    check_long_row(5, 1, 3, 0);
    check_long_row(3, 4, 1, 1);
    check_long_row(64, 2, 2, 60);
}

Test(xnnpack_deconv, windows_of_any_kind)
{
    check_windows(PEN_ISA_ANY);
}

Test(xnnpack_deconv, windows_of_any_kind_in_avx2)
{
    check_windows(PEN_ISA_AVX2);
}

/* What supports says of an output shape must hold when the session is made. */
Test(xnnpack_deconv, output_shape_and_padding)
{
    for (int64_t padding = 0; padding < 3; padding++) {
        for (int64_t size = 17; size < 27; size++) {
            struct cross *c = cross_new(OP_ConvTranspose);
            cross_input(c, F32, 4, (int64_t[]){1, 8, 8, 4}, false);
            cross_input(c, F32, 4, (int64_t[]){4, 6, 4, 3}, true);
            cross_int(c, ATTR_layout, LAYOUT_NHWC);
            cross_ints(c, ATTR_strides, 2, (int64_t[]){3, 3});
            cross_ints(c, ATTR_output_padding, 2, (int64_t[]){padding, 2 - padding});
            cross_ints(c, ATTR_output_shape, 2, (int64_t[]){size, 43 - size});
            cross_check(c);
        }
    }
    struct cross *c = cross_new(OP_ConvTranspose);
    cross_input(c, F32, 4, (int64_t[]){1, 8, 8, 4}, false);
    cross_input(c, F32, 4, (int64_t[]){4, 6, 3, 3}, true);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_output_shape, 2, (int64_t[]){40, 40});
    cross_refused(c);
}
