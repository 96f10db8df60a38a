#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static const enum pen_dtype types[] = {PEN_DTYPE_F32, PEN_DTYPE_I64, PEN_DTYPE_BOOL, PEN_DTYPE_F16, PEN_DTYPE_U8};

Test(xnnpack_transpose, every_order_of_four_dims)
{
    for (int64_t code = 0; code < 256; code++) {
        int64_t perm[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        if ((1 << perm[0] | 1 << perm[1] | 1 << perm[2] | 1 << perm[3]) != 15) {
            continue;
        }
        for (size_t t = 0; t < 5; t++) {
            struct cross *c = cross_new(OP_Transpose);
            cross_input(c, types[t], 4, (int64_t[]){2, 9, 17, 21}, false);
            cross_ints(c, ATTR_perm, 4, perm);
            cross_check(c);
        }
    }
}

Test(xnnpack_transpose, shapes)
{
    const int64_t shapes[][5] = {
        {1, 3, 64, 64, 1}, {1, 1, 1, 1, 1}, {5, 1, 7, 1, 3}, {2, 64, 1, 100, 1}, {3, 0, 2, 2, 2}};
    for (size_t i = 0; i < 5; i++) {
        struct cross *c = cross_new(OP_Transpose);
        cross_input(c, F32, 5, shapes[i], false);
        cross_ints(c, ATTR_perm, 5, (int64_t[]){0, 2, 3, 1, 4});
        cross_check(c);
        c = cross_new(OP_Transpose);
        cross_input(c, F32, 5, shapes[i], false);
        cross_check(c);
    }
}

Test(xnnpack_move, concat_and_split_along_each_axis)
{
    for (int64_t axis = -3; axis < 3; axis++) {
        for (size_t t = 0; t < 5; t++) {
            struct cross *c = cross_new(OP_Concat);
            int64_t dims[3] = {4, 5, 6};
            for (int k = 0; k < 3; k++) {
                dims[(axis + 3) % 3] = 3 + 2 * k - (k == 1 ? 5 : 0); /* 3, 0, 7 */
                cross_input(c, types[t], 3, dims, k == 2);
            }
            cross_int(c, ATTR_axis, axis);
            cross_check(c);
            c = cross_new(OP_Split);
            cross_input(c, types[t], 3, (int64_t[]){8, 8, 8}, false);
            cross_i64(c, 3, (int64_t[]){1, 4, 3});
            cross_outputs(c, 3);
            cross_int(c, ATTR_axis, axis);
            cross_check(c);
        }
    }
}

/* Rows of all lengths that are copied in place, with what lies between them left alone; and pieces of a transpose that threads share. */
Test(xnnpack_move, rows_and_turns_of_any_length)
{
    for (int64_t i = 0; i < 160; i++) {
        const int64_t long_row = i < 80 ? i : cross_pick(1, 400), rows = cross_pick(1, 50);
        struct cross *c = cross_new(OP_Concat);
        cross_input(c, types[i % 5], 3, (int64_t[]){2, rows, long_row}, false);
        cross_input(c, types[i % 5], 3, (int64_t[]){2, rows, cross_pick(0, 9)}, i % 3 == 0);
        cross_int(c, ATTR_axis, 2);
        cross_check(c);
        c = cross_new(OP_Transpose);
        cross_input(c, types[cross_pick(0, 4)], 3,
                    (int64_t[]){2, i < 80 ? i % 20 : cross_pick(1, 150), i < 80 ? i : cross_pick(1, 3000)}, false);
        cross_ints(c, ATTR_perm, 3, (int64_t[]){0, 2, 1});
        cross_check(c);
    }
}

/* What is around the kept part is filled, and nothing else: more, fewer and as many in each dim. */
Test(xnnpack_move, constants_around)
{
    for (int64_t i = 0; i < 120; i++) {
        int64_t dims[4], pads[8] = {0};
        for (int d = 0; d < 4; d++) {
            dims[d] = cross_pick(1, 9);
        }
        for (int d = 0; d < 8; d++) {
            const bool there = (i & 1 << d % 4) != 0;
            pads[d] = there ? cross_pick(i > 60 && dims[d % 4] > 2 ? -1 : 0, d % 4 == 3 ? 20 : 3) : 0;
        }
        struct cross *c = cross_new(OP_Pad);
        cross_input(c, types[i % 5], 4, dims, false);
        cross_i64(c, 8, pads);
        if (i % 3 != 0) {
            cross_input(c, types[i % 5], 0, NULL, true);
        }
        cross_check(c);
    }
}

Test(xnnpack_move, slices)
{
    const int64_t rows[][9] = {/* starts, ends, steps of axes 0, 1, 2 */
                               {0, 1, 2, 4, 9, 30, 1, 1, 1},
                               {1, -8, 0, 100, 100, 100, 2, 3, 1},
                               {-1, 8, 29, -100, 0, -100, -1, -2, -3},
                               {0, 0, 5, 4, 9, 5, 1, 1, 1},
                               {3, 0, 0, 0, 9, 30, -1, 1, 7}};
    for (size_t i = 0; i < 5; i++) {
        for (int constant = 0; constant < 2; constant++) {
            struct cross *c = cross_new(OP_Slice);
            cross_input(c, types[i], 3, (int64_t[]){4, 9, 30}, false);
            for (int k = 0; k < 2; k++) {
                cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){3}, rows[i] + k * 3, constant != 0);
            }
            cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){3}, (int64_t[]){0, 1, 2}, constant != 0);
            cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){3}, rows[i] + 6, constant != 0);
            cross_check(c);
        }
    }
}

Test(xnnpack_move, expand_and_tile)
{
    for (size_t t = 0; t < 5; t++) {
        struct cross *c = cross_new(OP_Expand);
        cross_input(c, types[t], 3, (int64_t[]){3, 1, 7}, false);
        cross_i64(c, 4, (int64_t[]){2, 3, 5, 1});
        cross_check(c);
        c = cross_new(OP_Tile);
        cross_input(c, types[t], 3, (int64_t[]){3, 4, 7}, false);
        cross_i64(c, 3, (int64_t[]){2, 1, 3});
        cross_check(c);
    }
}

Test(xnnpack_move, depth_and_space)
{
    for (int form = 0; form < 8; form++) {
        bool last = (form & 1) != 0, depth = (form & 2) != 0;
        struct cross *c = cross_new(depth ? OP_DepthToSpace : OP_SpaceToDepth);
        int64_t nhwc[4] = {2, 6, 4, 12}, nchw[4] = {2, 12, 6, 4};
        cross_input(c, F32, 4, last ? nhwc : nchw, false);
        cross_int(c, ATTR_blocksize, 2);
        cross_int(c, ATTR_layout, last);
        if (depth && (form & 4) != 0) {
            cross_text(c, ATTR_mode, "CRD");
        }
        cross_check(c);
    }
}

Test(xnnpack_gather, axes_and_index_types)
{
    for (int64_t axis = 0; axis < 3; axis++) {
        struct cross *c = cross_new(OP_Gather);
        cross_input(c, types[axis], 3, (int64_t[]){10, 11, 12}, axis == 0);
        cross_input(c, axis == 1 ? PEN_DTYPE_I32 : PEN_DTYPE_I64, 2, (int64_t[]){3, 4}, false); /* -9 to 9 */
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
    }
}

Test(xnnpack_number, comparisons_logic_and_choice)
{
    const enum op compare[] = {OP_Equal, OP_Greater, OP_GreaterOrEqual, OP_Less, OP_LessOrEqual},
                  logic[] = {OP_And, OP_Or, OP_Xor};
    const enum pen_dtype numbers[] = {PEN_DTYPE_F32, PEN_DTYPE_I64, PEN_DTYPE_I32};
    for (size_t i = 0; i < 15; i++) {
        struct cross *c = cross_new(compare[i % 5]);
        cross_input(c, numbers[i / 5], 3, (int64_t[]){4, 5, 6}, false);
        cross_input(c, numbers[i / 5], 2, (int64_t[]){5, 1}, false);
        cross_check(c);
    }
    for (size_t i = 0; i < 3; i++) {
        struct cross *c = cross_new(logic[i]);
        cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){40, 5}, false);
        cross_input(c, PEN_DTYPE_BOOL, 1, (int64_t[]){5}, false);
        cross_check(c);
    }
    for (size_t i = 0; i < 5; i++) {
        struct cross *c = cross_new(OP_Where);
        cross_input(c, PEN_DTYPE_BOOL, 3, (int64_t[]){1, 5, 6}, false);
        cross_input(c, types[i], 3, (int64_t[]){4, 5, 6}, false);
        cross_input(c, types[i], 0, NULL, true);
        cross_check(c);
    }
}

Test(xnnpack_number, casts)
{
    const enum pen_dtype from[] = {PEN_DTYPE_F32, PEN_DTYPE_I64, PEN_DTYPE_I32, PEN_DTYPE_U8, PEN_DTYPE_BOOL},
                         to[] = {PEN_DTYPE_F32, PEN_DTYPE_I64,  PEN_DTYPE_I32, PEN_DTYPE_BOOL,
                                 PEN_DTYPE_F16, PEN_DTYPE_BF16, PEN_DTYPE_F64};
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < 7; k++) {
            struct cross *c = cross_new(OP_Cast);
            cross_range(c, -100.0f, 100.0f);
            cross_input(c, from[i], 2, (int64_t[]){3, 50}, false);
            cross_int(c, ATTR_to, to[k]);
            cross_check(c);
        }
    }
}

Test(xnnpack_one_hot, axes_and_indices_out_of_range)
{
    for (int64_t axis = -1; axis < 3; axis++) {
        struct cross *c = cross_new(OP_OneHot);
        cross_input(c, axis == 0 ? PEN_DTYPE_I32 : PEN_DTYPE_I64, 2, (int64_t[]){5, 6}, false); /* -9 to 9 */
        cross_i64(c, 1, (int64_t[]){7});
        cross_data(c, F32, 1, (int64_t[]){2}, (float[]){-1.0f, 2.5f}, true);
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
    }
}

Test(xnnpack_move, gather_elements)
{
    for (int64_t axis = -1; axis < 3; axis++) {
        int64_t index[4 * 5 * 6];
        for (size_t i = 0; i < sizeof index / sizeof index[0]; i++) {
            index[i] = cross_pick(-4, 3);
        }
        for (int i = 0; i < 2; i++) {
            struct cross *c = cross_new(OP_GatherElements);
            cross_input(c, i ? PEN_DTYPE_U8 : PEN_DTYPE_F32, 3, (int64_t[]){4, 7, 6}, false);
            cross_data(c, PEN_DTYPE_I64, 3, (int64_t[]){4, 5, 6}, index, i != 0);
            cross_int(c, ATTR_axis, axis);
            cross_check(c);
        }
    }
}

Test(xnnpack_move, pieces_by_tuples_of_indices)
{
    const int64_t points[] = {0, 1, 2, 3, -1, 4, 3, -5, 0, 2, 2, 2};
    const int32_t narrow[] = {0, 1, 2, 3, -1, 4, 3, -5, 0, 2, 2, 2};
    for (int i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_GatherND);
        cross_input(c, i & 1 ? PEN_DTYPE_U8 : PEN_DTYPE_F32, 4, (int64_t[]){4, 5, 6, 3}, false);
        if (i < 3) {
            cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){i == 0 ? 5 : 4, i + 1}, points, i == 1);
        } else if (i < 5) {
            cross_data(c, PEN_DTYPE_I32, 3, (int64_t[]){2, 3, 2}, narrow, false);
        } else {
            cross_data(c, PEN_DTYPE_I64, 3, (int64_t[]){4, 3, 1}, points, false);
            cross_int(c, ATTR_batch_dims, 1);
        }
        cross_check(c);
    }
}

Test(xnnpack_move, sequences_in_the_other_order)
{
    const int64_t lengths[] = {0, 5, 3, 1};
    for (int64_t batch = 0; batch < 2; batch++) {
        for (size_t t = 0; t < 5; t++) {
            struct cross *c = cross_new(OP_ReverseSequence);
            cross_input(c, types[t], 4, batch == 0 ? (int64_t[]){4, 5, 3, 2} : (int64_t[]){5, 4, 3, 2}, false);
            cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){4}, lengths, t % 2 == 0);
            cross_int(c, ATTR_batch_axis, batch);
            cross_int(c, ATTR_time_axis, 1 - batch);
            cross_check(c);
        }
    }
}

Test(xnnpack_move, labels_for_numbers)
{
    const int64_t keys[] = {7, -2, 900, 0, -2, 13}, values[] = {1, 2, 3, 4, 5, 6}, x[] = {-2, 1, 13, 900, 8, 0, 7, -3};
    for (int named = 0; named < 2; named++) {
        struct cross *c = cross_new(OP_LabelEncoder);
        cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){2, 4}, x, false);
        cross_ints(c, ATTR_keys_int64s, 6, keys);
        cross_ints(c, ATTR_values_int64s, 6, values);
        if (named == 1)
            cross_int(c, ATTR_default_int64, 42);
        cross_check(c);
    }
    const char *const texts[] = {"a", "b", "c", "d", "e", "f"};
    struct cross *c = cross_new(OP_LabelEncoder);
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){8}, x, false);
    cross_ints(c, ATTR_keys_int64s, 6, keys);
    cross_texts(c, ATTR_values_strings, 6, texts);
    cross_refused(c);
}
