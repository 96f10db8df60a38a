/* Along one axis and at computed places: running sums, TopK, Hardmax, norms, triangles, crops, scatters, grids, rotary positions, transforms, integers. */
#include <criterion/criterion.h>
#include <math.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static const enum pen_dtype numbers[] = {PEN_DTYPE_F32, PEN_DTYPE_I32, PEN_DTYPE_I64};

Test(xnnpack_lanes, running_sums_and_products)
{
    for (int form = 0; form < 24; form++) {
        struct cross *c = cross_new(form & 1 ? OP_CumProd : OP_CumSum);
        const int64_t axis = form / 2 % 3 - 3 * (form & 1);
        cross_input(c, numbers[form % 3], 3, (int64_t[]){3, 17, 70}, false);
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &axis, form % 4 == 0);
        cross_int(c, ATTR_exclusive, form >> 2 & 1);
        cross_int(c, ATTR_reverse, form >> 3 & 1);
        cross_check(c);
    }
}

Test(xnnpack_lanes, hardmax_and_norms_on_every_axis)
{
    for (int64_t axis = -3; axis < 3; axis++) {
        struct cross *c = cross_new(OP_Hardmax);
        cross_input(c, F32, 3, (int64_t[]){4, 9, 65}, false);
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
        c = cross_new(OP_LpNormalization);
        cross_input(c, F32, 3, (int64_t[]){4, 9, 65}, false);
        cross_int(c, ATTR_axis, axis);
        cross_int(c, ATTR_p, 1 + (axis & 1));
        cross_check(c);
    }
}

Test(xnnpack_lanes, topk_of_numbers_with_many_equals)
{
    for (int form = 0; form < 24; form++) {
        struct cross *c = cross_new(OP_TopK);
        int64_t k = form % 5 == 4 ? 23 : form % 5 * 3;
        cross_input(c, numbers[form % 3], 3, (int64_t[]){3, 23, 5}, false);
        cross_i64(c, 1, &k);
        cross_int(c, ATTR_axis, 1);
        cross_int(c, ATTR_largest, form & 1);
        cross_int(c, ATTR_sorted, form >> 1 & 1);
        cross_outputs(c, 2);
        cross_check(c);
    }
    float odd[8] = {NAN, -0.0f, 0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f};
    for (int largest = 0; largest < 2; largest++) {
        struct cross *c = cross_new(OP_TopK);
        cross_data(c, F32, 1, (int64_t[]){8}, odd, false);
        cross_i64(c, 1, (int64_t[]){8});
        cross_int(c, ATTR_largest, largest);
        cross_outputs(c, 2);
        cross_check(c);
    }
}

Test(xnnpack_lanes, triangles_of_every_diagonal)
{
    const enum pen_dtype types[] = {F32, PEN_DTYPE_I64, PEN_DTYPE_BOOL, PEN_DTYPE_F16};
    for (int64_t k = -9; k < 10; k++) {
        struct cross *c = cross_new(OP_Trilu);
        cross_input(c, types[(k + 9) % 4], 3, (int64_t[]){2, 6, 5}, false);
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &k, false);
        cross_int(c, ATTR_upper, k & 1);
        cross_check(c);
    }
}

Test(xnnpack_lanes, flags_and_crops)
{
    float odd[6] = {NAN, -0.0f, INFINITY, -INFINITY, 1.0f, -1.0f};
    for (int form = 0; form < 4; form++) {
        struct cross *c = cross_new(OP_IsInf);
        cross_data(c, F32, 1, (int64_t[]){6}, odd, false);
        cross_int(c, ATTR_detect_positive, form & 1);
        cross_int(c, ATTR_detect_negative, form >> 1);
        cross_check(c);
    }
    struct cross *nan = cross_new(OP_IsNaN);
    cross_data(nan, F32, 1, (int64_t[]){6}, odd, false);
    cross_check(nan);
    for (int64_t size = 1; size < 12; size += 2) {
        struct cross *c = cross_new(OP_CenterCropPad);
        cross_input(c, size % 4 == 1 ? F32 : PEN_DTYPE_U8, 3, (int64_t[]){6, 5, 4}, false);
        cross_i64(c, 2, (int64_t[]){size, 12 - size});
        cross_ints(c, ATTR_axes, 2, (int64_t[]){0, 2});
        cross_check(c);
    }
}

Test(xnnpack_scatter, elements_and_tuples_with_every_reduction)
{
    const char *const how[] = {"none", "add", "mul", "max", "min"};
    for (int form = 0; form < 30; form++) {
        int64_t indices[24];
        enum pen_dtype dtype = numbers[form % 3];
        for (int i = 0; i < 24; i++) {
            indices[i] = cross_pick(-4, 3);
        }
        struct cross *c = cross_new(OP_ScatterElements);
        cross_input(c, dtype, 3, (int64_t[]){4, 4, 4}, false);
        cross_data(c, PEN_DTYPE_I64, 3, (int64_t[]){2, 3, 4}, indices, false);
        cross_input(c, dtype, 3, (int64_t[]){2, 3, 4}, false);
        cross_int(c, ATTR_axis, form % 3 - form / 3 % 2 * 3);
        cross_text(c, ATTR_reduction, how[form % 5]);
        cross_check(c);
        c = cross_new(OP_ScatterND);
        cross_input(c, dtype, 3, (int64_t[]){4, 4, 7}, false);
        cross_data(c, PEN_DTYPE_I64, 3, (int64_t[]){3, 4, 2}, indices, false);
        cross_input(c, dtype, 3, (int64_t[]){3, 4, 7}, false);
        cross_text(c, ATTR_reduction, how[form % 5]);
        cross_check(c);
    }
}

Test(xnnpack_grid, modes_paddings_and_corners)
{
    const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border", "reflection"};
    for (int form = 0; form < 36; form++) {
        int64_t dims = 2 + form / 18; /* the reference takes cubic in the plane */
        const int64_t x[] = {2, 3, 6, 5, 4}, grid[2][5] = {{2, 7, 9, 2, 0}, {2, 3, 4, 5, 3}};
        struct cross *c = cross_new(OP_GridSample);
        cross_input(c, F32, 2 + (int32_t)dims, x, false);
        cross_range(c, -1.6f, 1.6f);
        cross_input(c, F32, 2 + (int32_t)dims, grid[dims - 2], false);
        cross_text(c, ATTR_mode, modes[form % 3]);
        cross_text(c, ATTR_padding_mode, paddings[form / 3 % 3]);
        cross_int(c, ATTR_align_corners, form / 9 % 2);
        cross_check(c);
    }
}

Test(xnnpack_rotary, halves_and_neighbours_with_and_without_positions)
{
    for (int form = 0; form < 16; form++) {
        int64_t positions[10], dim = form & 8 ? 6 : 8;
        struct cross *c = cross_new(OP_RotaryEmbedding);
        if (form & 1) {
            cross_input(c, F32, 3, (int64_t[]){2, 5, 24}, false);
            cross_int(c, ATTR_num_heads, 3);
        } else {
            cross_input(c, F32, 4, (int64_t[]){2, 3, 5, 8}, false);
        }
        for (int i = 0; i < 10; i++) {
            positions[i] = cross_pick(0, 11);
        }
        bool given = form & 2;
        const int64_t with[] = {12, dim / 2}, without[] = {2, 5, dim / 2};
        cross_input(c, F32, given ? 2 : 3, given ? with : without, false);
        cross_input(c, F32, given ? 2 : 3, given ? with : without, false);
        if (given) {
            cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){2, 5}, positions, false);
        }
        cross_int(c, ATTR_interleaved, form >> 2 & 1);
        cross_int(c, ATTR_rotary_embedding_dim, dim == 8 ? 0 : dim);
        cross_check(c);
    }
}

Test(xnnpack_lanes, bytes_by_the_range_of_the_data)
{
    const float ranges[][2] = {{-1.0f, 1.0f}, {0.5f, 7.0f}, {-9.0f, -3.0f}, {0.0f, 0.0f}};
    for (size_t i = 0; i < 4; i++) {
        struct cross *c = cross_new(OP_DynamicQuantizeLinear);
        cross_range(c, ranges[i][0], ranges[i][1]);
        cross_input(c, F32, 2, (int64_t[]){3, 20001}, false);
        cross_outputs(c, 3);
        cross_check(c);
    }
}

Test(xnnpack_rotary, one_table_serves_the_whole_batch)
{
    struct cross *c = cross_new(OP_RotaryEmbedding);
    cross_input(c, F32, 4, (int64_t[]){3, 2, 5, 8}, false);
    cross_input(c, F32, 3, (int64_t[]){1, 5, 4}, false);
    cross_input(c, F32, 3, (int64_t[]){1, 5, 4}, false);
    cross_check(c);
}

static void transform_check(int64_t length, int form)
{
    static const int64_t axes[] = {1, 2};
    bool inverse = form & 1, onesided = form & 2, real = (form & 4) != 0 && !(inverse && onesided);
    struct cross *c = cross_new(OP_DFT);
    cross_input(c, F32, 4, (int64_t[]){2, 12, 9, real ? 1 : 2}, false);
    cross_data(c, PEN_DTYPE_I64, 0, NULL, &length, true);
    cross_data(c, PEN_DTYPE_I64, 0, NULL, &axes[form >> 3 & 1], true);
    cross_int(c, ATTR_inverse, inverse);
    cross_int(c, ATTR_onesided, onesided);
    cross_check(c);
}

Test(xnnpack_fourier, transforms_of_any_length_along_any_axis)
{
    static const int64_t lengths[] = {1, 2, 7, 12, 16, 15, 22};
    for (int form = 0; form < 16; form++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            transform_check(lengths[i], form);
        }
    }
}

Test(xnnpack_fourier, frames_with_and_without_a_window)
{
    for (int form = 0; form < 8; form++) {
        struct cross *c = cross_new(OP_STFT);
        const int64_t step = 5, frame = 20;
        cross_input(c, F32, 3, (int64_t[]){2, 90, form & 4 ? 2 : 1}, false);
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &step, true);
        if (form & 1) {
            cross_input(c, F32, 1, &frame, false);
        } else {
            cross_omit(c);
        }
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &frame, true);
        cross_int(c, ATTR_onesided, form >> 1 & 1);
        cross_check(c);
    }
}

Test(xnnpack_lanes, integers_are_reduced_over_any_axes)
{
    static const enum op ops[] = {OP_ReduceSum, OP_ReduceProd, OP_ReduceMax, OP_ReduceMin};
    static const int64_t axes[][3] = {{0, 2, 3}, {1, 3, 3}, {3, 3, 3}, {0, 1, 1}};
    for (int form = 0; form < 32; form++) {
        struct cross *c = cross_new(ops[form % 4]);
        cross_input(c, form & 4 ? PEN_DTYPE_I64 : PEN_DTYPE_I32, 4, (int64_t[]){3, 4, 5, 6}, false);
        cross_i64(c, form >> 3 < 2 ? 2 : 1, axes[form >> 3]);
        cross_int(c, ATTR_keepdims, form >> 2 & 1);
        cross_check(c);
    }
    struct cross *c = cross_new(OP_ReduceMax);
    cross_input(c, PEN_DTYPE_U8, 2, (int64_t[]){7, 9}, false);
    cross_check(c);
}

Test(xnnpack_lanes, places_of_the_largest_integers)
{
    for (int form = 0; form < 16; form++) {
        struct cross *c = cross_new(form & 1 ? OP_ArgMax : OP_ArgMin);
        cross_input(c, form & 2 ? PEN_DTYPE_I64 : PEN_DTYPE_I32, 3, (int64_t[]){4, 11, 6}, false);
        cross_int(c, ATTR_axis, form >> 3 & 1);
        cross_int(c, ATTR_select_last_index, form >> 2 & 1);
        cross_check(c);
    }
}

Test(xnnpack_lanes, powers_of_integers)
{
    const int64_t base[] = {-3, -1, 0, 1, 2, 7, 3, -1}, power[] = {3, 5, 0, -2, 62, 40, -1, -4};
    struct cross *c = cross_new(OP_Pow);
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){8}, base, false);
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){8}, power, false);
    cross_check(c);
}

Test(xnnpack_lanes, infinities_of_doubles)
{
    const double odd[] = {(double)INFINITY, -(double)INFINITY, (double)NAN, 0, 1e300};
    for (int form = 0; form < 4; form++) {
        struct cross *c = cross_new(form == 3 ? OP_IsNaN : OP_IsInf);
        cross_data(c, PEN_DTYPE_F64, 1, (int64_t[]){5}, odd, false);
        if (form < 3) {
            cross_int(c, ATTR_detect_positive, form != 1);
            cross_int(c, ATTR_detect_negative, form != 2);
        }
        cross_check(c);
    }
}

Test(xnnpack_lanes, columns_become_images)
{
    for (int form = 0; form < 8; form++) {
        int64_t stride = form & 1 ? 2 : 1, pad = form & 2 ? 1 : 0, dilation = form & 4 ? 2 : 1;
        int64_t rows = (9 + 2 * pad - 2 * dilation - 1) / stride + 1, columns = (8 + pad - dilation - 1) / stride + 1;
        struct cross *c = cross_new(OP_Col2Im);
        cross_input(c, F32, 3, (int64_t[]){2, 3 * 6, rows * columns}, false);
        cross_i64(c, 2, (int64_t[]){9, 8});
        cross_i64(c, 2, (int64_t[]){3, 2});
        cross_ints(c, ATTR_strides, 2, (int64_t[]){stride, stride});
        cross_ints(c, ATTR_pads, 4, (int64_t[]){pad, pad, pad, 0});
        cross_ints(c, ATTR_dilations, 2, (int64_t[]){dilation, dilation});
        cross_check(c);
    }
}
