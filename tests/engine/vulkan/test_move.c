#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

static const enum pen_dtype types[] = {F32, PEN_DTYPE_U8, PEN_DTYPE_I64, PEN_DTYPE_U16};

static void move_rows(void)
{
    for (size_t t = 0; t < 4; t++) {
        struct cross *c = cross_new(OP_Transpose);
        cross_input(c, types[t], 4, (int64_t[]){3, 4, 5, 6}, false);
        cross_ints(c, ATTR_perm, 4, (int64_t[]){2, 0, 3, 1});
        cross_check(c);
        c = cross_new(OP_Concat);
        for (int64_t i = 1; i < 4; i++) {
            cross_input(c, types[t], 3, (int64_t[]){3, i, 5}, i == 2);
        }
        cross_int(c, ATTR_axis, 1);
        cross_check(c);
        c = cross_new(OP_Split);
        cross_input(c, types[t], 3, (int64_t[]){3, 7, 5}, false);
        cross_i64(c, 3, (int64_t[]){1, 4, 2});
        cross_int(c, ATTR_axis, -2);
        cross_outputs(c, 3);
        cross_check(c);
        c = cross_new(OP_Expand);
        cross_input(c, types[t], 3, (int64_t[]){3, 1, 5}, false);
        cross_i64(c, 4, (int64_t[]){2, 1, 4, 1});
        cross_check(c);
        c = cross_new(OP_Tile);
        cross_input(c, types[t], 3, (int64_t[]){3, 2, 5}, false);
        cross_i64(c, 3, (int64_t[]){2, 1, 3});
        cross_check(c);
        c = cross_new(OP_Slice);
        cross_input(c, types[t], 3, (int64_t[]){9, 8, 7}, false);
        cross_i64(c, 3, (int64_t[]){1, -1, 2});
        cross_i64(c, 3, (int64_t[]){8, -100, 100});
        cross_i64(c, 3, (int64_t[]){0, 1, -1});
        cross_i64(c, 3, (int64_t[]){3, -2, 1});
        cross_check(c);
    }
}

Test(vulkan_move, every_element_size, .timeout = 110)
{
    device_f32(move_rows);
}

static void shuffle_rows(void)
{
    for (int64_t i = 0; i < 8; i++) {
        struct cross *c = cross_new(i & 4 ? OP_SpaceToDepth : OP_DepthToSpace);
        cross_input(c, F32, 4, (int64_t[]){2, 8, 4, 8}, false);
        cross_int(c, ATTR_blocksize, 2);
        cross_int(c, ATTR_layout, i & 1);
        if ((i & 6) == 2) {
            cross_text(c, ATTR_mode, "CRD");
        }
        cross_check(c);
    }
    struct cross *c = cross_new(OP_Transpose);
    cross_input(c, F32, 3, (int64_t[]){7, 33, 5}, false);
    cross_ints(c, ATTR_perm, 3, (int64_t[]){1, 0, 2});
    cross_check(c);
}

Test(vulkan_move, shuffles_in_every_storage, .timeout = 110)
{
    device_each(shuffle_rows);
}

static void pad_rows(void)
{
    const char *modes[] = {"constant", "edge", "reflect", "wrap"};
    for (size_t i = 0; i < 16; i++) {
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

Test(vulkan_move, pads, .timeout = 110)
{
    device_f32(pad_rows);
}

static void gather_rows(void)
{
    for (size_t t = 0; t < 4; t++) {
        for (int64_t axis = -1; axis < 2; axis++) {
            struct cross *c = cross_new(OP_Gather);
            cross_input(c, types[t], 3, (int64_t[]){9, 9, 9}, false);
            cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){2, 3}, (int64_t[]){0, -9, 8, 4, -1, 3}, axis == 0);
            cross_int(c, ATTR_axis, axis);
            cross_check(c);
        }
    }
    struct cross *c = cross_new(OP_GatherElements);
    cross_input(c, F32, 2, (int64_t[]){3, 4}, false);
    cross_data(c, PEN_DTYPE_I32, 2, (int64_t[]){2, 4}, (int32_t[]){0, -1, 2, 1, 1, 0, -3, 2}, false);
    cross_check(c);
    for (int64_t batch = 0; batch < 2; batch++) {
        c = cross_new(OP_GatherND);
        cross_input(c, F32, 3, (int64_t[]){2, 3, 4}, false);
        cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){2, 1}, (int64_t[]){1, 0}, false);
        cross_int(c, ATTR_batch_dims, batch);
        cross_check(c);
    }
}

Test(vulkan_move, gathers, .timeout = 110)
{
    device_f32(gather_rows);
}

static void image_rows(void)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    for (size_t i = 0; i < 12; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, F32, 4, (int64_t[]){1, 7, 5, 3}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 4, i & 1 ? (int64_t[]){1, 13, 10, 3} : (int64_t[]){1, 4, 9, 3});
        cross_text(c, ATTR_mode, modes[i % 3]);
        cross_text(c, ATTR_coordinate_transformation_mode, coordinates[i / 3]);
        cross_check(c);
    }
    for (int64_t i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_ConvTranspose);
        int64_t groups = i % 3 == 2 ? 3 : 1;
        cross_input(c, F32, 4, (int64_t[]){2, 7, 6, 12}, false);
        cross_input(c, F32, 4, (int64_t[]){12, 10, 3, 4}, i != 0);
        cross_input(c, F32, 1, (int64_t[]){10 * groups}, true);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_int(c, ATTR_group, groups);
        cross_ints(c, ATTR_strides, 2, (int64_t[]){1 + i % 3, 2});
        cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 0, 0, 1});
        cross_ints(c, ATTR_output_padding, 2, (int64_t[]){i % 3, 1});
        cross_check(c);
    }
    for (int64_t i = 0; i < 6; i++) {
        struct cross *c = cross_new(i & 1 ? OP_MaxPool : OP_AveragePool);
        cross_input(c, F32, 4, (int64_t[]){2, 9, 8, 5}, false);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){3, 2});
        cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 1});
        cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 0, 1, 1});
        cross_int(c, ATTR_count_include_pad, i / 2 % 2);
        cross_int(c, ATTR_ceil_mode, i / 4);
        cross_check(c);
    }
}

Test(vulkan_move, resize_deconvolution_and_pools, .timeout = 110)
{
    device_each(image_rows);
}

static void rnn(enum op op, const char *direction, int64_t steps, int64_t batch, bool states, bool after)
{
    int64_t gates = op == OP_LSTM ? 4 : 3, hidden = 9, inputs = 6, both = direction[0] == 'b' ? 2 : 1;
    struct cross *c = cross_new(op);
    cross_input(c, F32, 3, (int64_t[]){steps, batch, inputs}, false);
    cross_input(c, F32, 3, (int64_t[]){both, gates * hidden, inputs}, true);
    cross_input(c, F32, 3, (int64_t[]){both, gates * hidden, hidden}, true);
    cross_input(c, F32, 2, (int64_t[]){both, 2 * gates * hidden}, true);
    if (states) {
        cross_omit(c);
        cross_input(c, F32, 3, (int64_t[]){both, batch, hidden}, false);
        if (op == OP_LSTM) {
            cross_input(c, F32, 3, (int64_t[]){both, batch, hidden}, false);
            cross_input(c, F32, 2, (int64_t[]){both, 3 * hidden}, true);
        }
    }
    cross_outputs(c, op == OP_LSTM ? 3 : 2);
    cross_int(c, ATTR_hidden_size, hidden);
    cross_text(c, ATTR_direction, direction);
    cross_int(c, ATTR_linear_before_reset, after);
    cross_check(c);
}

static void rnn_rows(void)
{
    rnn(OP_LSTM, "forward", 5, 1, false, false);
    rnn(OP_LSTM, "reverse", 4, 3, true, false);
    rnn(OP_LSTM, "bidirectional", 3, 2, true, false);
    rnn(OP_GRU, "forward", 5, 1, false, false);
    rnn(OP_GRU, "reverse", 4, 3, true, true);
    rnn(OP_GRU, "bidirectional", 3, 2, true, false);
}

Test(vulkan_move, recurrent_cells, .timeout = 110)
{
    device_each(rnn_rows);
}

/* Two outputs of more than a staging buffer's padding: each is copied where it leaves with as many bytes as it takes as it is stored. */
static void view_rows(void)
{
    for (int i = 0; i < 2; i++) {
        struct cross *c = cross_new(i == 0 ? OP_Reshape : OP_Identity);
        cross_input(c, F32, 3, (int64_t[]){17, 31, 129}, false);
        if (i == 0) {
            cross_i64(c, 2, (int64_t[]){129 * 17, 31});
        }
        cross_check(c);
    }
}

Test(vulkan_move, views_that_are_outputs, .timeout = 110)
{
    device_each(view_rows);
}
