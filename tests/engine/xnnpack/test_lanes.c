/* Along one axis and at computed places: running sums, TopK, Hardmax, norms, triangles, crops, scatters, grids, rotary positions. */
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
