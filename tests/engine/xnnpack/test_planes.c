/* Pools and convolutions of any number of spatial dims, in both layouts, with computed weights. */
#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

/* dims spatial dims of 7, 6, 5, 4; channels first or last. */
static void data(struct cross *c, int64_t dims, int64_t channels, bool last)
{
    int64_t shape[5] = {2};
    for (int64_t d = 0; d < dims; d++) {
        shape[(last ? 1 : 2) + d] = 7 - d;
    }
    shape[last ? dims + 1 : 1] = channels;
    cross_input(c, F32, (int32_t)dims + 2, shape, false);
    cross_int(c, ATTR_layout, last ? LAYOUT_NHWC : LAYOUT_NCHW);
}

static void window(struct cross *c, int64_t dims, int form)
{
    const int64_t strides[] = {1 + (form & 1), 2, 1}, dilations[] = {1, 1 + (form >> 1 & 1), 2},
                  pads[] = {1, 0, 1, 1, 1, 0};
    cross_ints(c, ATTR_strides, (uint32_t)dims, strides);
    cross_ints(c, ATTR_dilations, (uint32_t)dims, dilations);
    if (form & 4) {
        int64_t both[6];
        for (int64_t d = 0; d < dims; d++) {
            both[d] = pads[d];
            both[dims + d] = pads[3 + d];
        }
        cross_ints(c, ATTR_pads, 2 * (uint32_t)dims, both);
    }
}

static const int64_t kernel[] = {3, 2, 2};

Test(xnnpack_planes, pools)
{
    const enum op ops[] = {OP_MaxPool, OP_AveragePool, OP_LpPool};
    for (int form = 0; form < 48; form++) {
        int64_t dims = 1 + form % 3;
        enum op op = ops[form / 3 % 3];
        struct cross *c = cross_new(op);
        data(c, dims, 3, form & 16);
        cross_ints(c, ATTR_kernel_shape, (uint32_t)dims, kernel);
        window(c, dims, form);
        if (op == OP_MaxPool) {
            cross_outputs(c, 1 + (form >> 3 & 1));
            cross_int(c, ATTR_storage_order, form >> 2 & 1);
        } else if (op == OP_AveragePool) {
            cross_int(c, ATTR_count_include_pad, form & 1);
            cross_int(c, ATTR_ceil_mode, form >> 1 & 1);
        } else {
            cross_int(c, ATTR_p, 1 + form / 9 % 3);
        }
        cross_check(c);
    }
}

Test(xnnpack_planes, automatic_padding)
{
    const char *const how[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    for (int form = 0; form < 12; form++) {
        int64_t dims = 1 + form % 3;
        struct cross *c = cross_new(form & 1 ? OP_MaxPool : OP_AveragePool);
        data(c, dims, 3, false);
        cross_ints(c, ATTR_kernel_shape, (uint32_t)dims, kernel);
        cross_ints(c, ATTR_strides, (uint32_t)dims, (int64_t[]){2, 2, 3});
        cross_text(c, ATTR_auto_pad, how[form / 3 % 3]);
        cross_check(c);
    }
}

static void conv_check(enum op op, int form)
{
    int64_t dims = 1 + form % 3, groups = form & 8 ? 2 : 1, in = 4, out = 6;
    bool transposed = op == OP_ConvTranspose;
    int64_t weights[5] = {transposed ? in : out, (transposed ? out : in) / groups, kernel[0], kernel[1], kernel[2]};
    struct cross *c = cross_new(op);
    data(c, dims, in, form & 16);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, F32, (int32_t)dims + 2, weights, form & 32);
    cross_input(c, F32, 1, &out, form & 32);
    cross_int(c, ATTR_group, groups);
    window(c, dims, form);
    if (transposed && (form & 3) == 3) {
        cross_ints(c, ATTR_output_padding, (uint32_t)dims, (int64_t[]){1, 1, 0});
    }
    cross_int(c, ATTR_act, form & 4 ? ACT_CLAMP : ACT_NONE);
    cross_float(c, ATTR_act_min, 0.0f);
    cross_float(c, ATTR_act_max, 1.0f);
    cross_check(c);
}

Test(xnnpack_planes, convolutions)
{
    for (int form = 0; form < 64; form++) {
        conv_check(OP_Conv, form);
        conv_check(OP_ConvTranspose, form);
    }
}
