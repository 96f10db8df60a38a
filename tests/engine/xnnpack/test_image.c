#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

Test(xnnpack_resize, modes_scales_and_positions)
{
    const char *modes[] = {"nearest", "linear", "cubic"};
    const char *positions[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                               "half_pixel_symmetric"};
    const char *nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const float scales[][4] = {{1, 2, 2, 1}, {1, 0.6f, 1.7f, 1}, {1, 3, 1, 1}, {2, 1, 1, 0.5f}};
    for (int i = 0; i < 3 * 5 * 4; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, F32, 4, (int64_t[]){1, 7, 9, 18}, false);
        cross_omit(c);
        cross_data(c, F32, 1, (int64_t[]){4}, scales[i % 4], true);
        cross_text(c, ATTR_mode, modes[i % 3]);
        cross_text(c, ATTR_coordinate_transformation_mode, positions[i % 5]);
        cross_text(c, ATTR_nearest_mode, nearest[i / 15]);
        cross_int(c, ATTR_antialias, i % 7 == 0);
        cross_int(c, ATTR_exclude_outside, i % 3 == 2 && i % 2 == 0);
        cross_check(c);
    }
}

Test(xnnpack_resize, sizes_of_named_axes)
{
    for (int i = 0; i < 2; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, F32, 4, (int64_t[]){1, 3, 10, 12}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 2, (int64_t[]){17, 24});
        cross_ints(c, ATTR_axes, 2, (int64_t[]){2, 3});
        cross_text(c, ATTR_mode, i ? "linear" : "nearest");
        cross_check(c);
    }
}

/* Lengths of which float and double quotients lie on both sides of whole numbers. */
Test(xnnpack_resize, nearest_of_many_lengths)
{
    const char *positions[] = {"asymmetric", "half_pixel", "align_corners"};
    for (int i = 0; i < 36; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, F32, 2, (int64_t[]){14 + i, 1}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 2, (int64_t[]){4 + i % 12 * 5, 1});
        cross_text(c, ATTR_mode, "nearest");
        cross_text(c, ATTR_nearest_mode, i % 4 < 2 ? "floor" : "round_prefer_ceil");
        cross_text(c, ATTR_coordinate_transformation_mode, positions[i % 3]);
        cross_int(c, ATTR_by_step, i % 2);
        cross_check(c);
    }
}

Test(xnnpack_lrn, both_layouts)
{
    for (int64_t i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_LRN);
        cross_input(c, F32, 4, (int64_t[]){2, 9, 5, 11}, false);
        cross_int(c, ATTR_size, 1 + i);
        cross_float(c, ATTR_alpha, 0.5f);
        cross_int(c, ATTR_layout, i % 2);
        cross_check(c);
    }
}

Test(xnnpack_arg, axes_and_ties)
{
    const float ties[12] = {1, 3, 3, 2, 0, 0, -1, 0, 5, 5, 5, 5};
    for (int64_t i = 0; i < 12; i++) {
        struct cross *c = cross_new(i % 2 ? OP_ArgMin : OP_ArgMax);
        if (i < 6) {
            cross_input(c, F32, 3, (int64_t[]){5, 6, 7}, false);
        } else {
            cross_data(c, F32, 3, (int64_t[]){1, 3, 4}, ties, false);
        }
        cross_int(c, ATTR_axis, i % 3);
        cross_int(c, ATTR_select_last_index, i % 4 == 3);
        cross_check(c);
    }
}
