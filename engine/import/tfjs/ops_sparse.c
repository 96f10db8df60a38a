/* Counting, searching in sorted rows, and sparse tensors. */
#include <string.h>

#include "graph/internal.h"
#include "import/build/sample.h"
#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static uint32_t wide(struct call *c, uint32_t index)
{
    return build_cast(c->b, js_in(c, index), PEN_DTYPE_I64);
}

static uint32_t axis_list(struct call *c, int64_t axis)
{
    return build_i64(c->b, &axis, 1);
}

static bool empty_in(struct call *c, uint32_t index)
{
    const struct value *v = build_value(c->b, js_in(c, index));
    return !v || (v->data && v->bytes == 0);
}

/* ---- counting ------------------------------------------------------------------------------------------------------------- */

/* x [..., n], size, weights [..., n] or empty: one row per element that is on at its number, summed over the elements. */
static void bincount(struct call *c)
{
    struct build *b = c->b;
    uint32_t on = build_f32_scalar(b, 1.0f), off = build_f32_scalar(b, 0.0f);
    uint32_t hits = tf_one_hot(b, js_in(c, 0), js_in(c, 1), on, off, -1);
    bool binary = js_attr_bool(c, "binary_output", false);
    if (!empty_in(c, 2) && !binary)
        hits = build_2(b, OP_Mul, hits, build_unsqueeze(b, build_cast(b, js_in(c, 2), PEN_DTYPE_F32), -1));
    uint32_t y = build_reduce(b, binary ? OP_ReduceMax : OP_ReduceSum, hits, axis_list(c, -2), false);
    enum pen_dtype dtype = build_dtype(b, js_in(c, 2));
    js_give(c, 0, dtype == PEN_DTYPE_NONE || dtype == PEN_DTYPE_F32 ? y : build_cast(b, y, dtype));
}

/* Sorted rows [b, n], values [b, m]: how many of a row lie before each value. */
static void bound(struct call *c)
{
    struct build *b = c->b;
    uint32_t rows = build_unsqueeze(b, js_in(c, 0), 1), values = build_unsqueeze(b, js_in(c, 1), 2);
    uint32_t before = build_cast(b, build_2(b, (enum op)c->op, rows, values), PEN_DTYPE_I32);
    js_give(c, 0, build_reduce(b, OP_ReduceSum, before, axis_list(c, 2), false));
}

/* ---- sparse tensors --------------------------------------------------------------------------------------------------------- */

/* Indices may be one number, a list (of one axis) or rows; one value may stand for all. indices, shape, values, default */
static void sparse_to_dense(struct call *c)
{
    struct build *b = c->b;
    uint32_t shape = js_i64(c, 1), rank = build_1(b, OP_Size, shape), minus = build_i64(b, (int64_t[]){-1}, 1);
    uint32_t form[] = {minus, build_reshape(b, rank, (int64_t[]){1}, 1)};
    uint32_t indices = build_2(b, OP_Reshape, wide(c, 0), build_axis_op(b, OP_Concat, form, 2, 0));
    uint32_t count = build_slice(b, build_1(b, OP_Shape, indices), 0, 0, 1, 1);
    uint32_t dense = build_2(b, OP_Expand, js_in(c, 3), shape), values = build_2(b, OP_Expand, js_in(c, 2), count);
    js_give(c, 0, build_3(b, OP_ScatterND, dense, indices, values));
}

/* How far one step along each axis of a shape is: [r]. */
static uint32_t steps_of(struct build *b, uint32_t shape)
{
    uint32_t y = build_2(b, OP_CumProd, shape, build_i64_scalar(b, 0));
    build_int(b, ATTR_exclusive, 1);
    build_int(b, ATTR_reverse, 1);
    return y;
}

/* indices [n, r], shape [r], new shape [s] with at most one -1 */
static void sparse_reshape(struct call *c)
{
    struct build *b = c->b;
    uint32_t shape = wide(c, 1), to = wide(c, 2), zero = axis_list(c, 0);
    uint32_t all = build_reduce(b, OP_ReduceProd, shape, zero, true),
             open = build_2(b, OP_Less, to, build_i64_scalar(b, 0));
    uint32_t given = build_reduce(b, OP_ReduceProd, build_3(b, OP_Where, open, build_i64_scalar(b, 1), to), zero, true);
    to = build_3(b, OP_Where, open, build_2(b, OP_Div, all, given), to);
    uint32_t places = build_2(b, OP_Mul, wide(c, 0), steps_of(b, shape));
    uint32_t flat = build_reduce(b, OP_ReduceSum, places, axis_list(c, 1), true); /* [n, 1] */
    uint32_t rows = build_2(b, OP_Mod, build_2(b, OP_Div, flat, steps_of(b, to)), to);
    js_give(c, 0, build_cast(b, rows, PEN_DTYPE_I32));
    js_give(c, 1, build_cast(b, to, PEN_DTYPE_I32));
}

/* Rows of the data picked by index, summed or averaged by (rising) segment. */
static void sparse_segment(struct call *c)
{
    struct build *b = c->b;
    uint32_t pick[] = {js_in(c, 0), wide(c, 1)}, rows = build_axis_op(b, OP_Gather, pick, 2, 0), segments = wide(c, 2);
    uint32_t last = build_reduce(b, OP_ReduceMax, segments, axis_list(c, 0), true);
    uint32_t count = build_2(b, OP_Add, last, build_i64(b, (int64_t[]){1}, 1)), at = build_unsqueeze(b, segments, 1);
    uint32_t dims[] = {count, build_slice(b, build_1(b, OP_Shape, rows), 0, 1, INT64_MAX, 1)};
    uint32_t zeros = build_2(b, OP_Expand, build_f32_scalar(b, 0.0f), build_axis_op(b, OP_Concat, dims, 2, 0));
    uint32_t sums = build_3(b, OP_ScatterND, zeros, at, rows);
    build_text(b, ATTR_reduction, "add");
    if (c->op == 0) {
        js_give(c, 0, sums);
        return;
    }
    uint32_t ones = build_2(b, OP_Expand, build_f32_scalar(b, 1.0f), build_1(b, OP_Shape, segments));
    uint32_t sizes = build_3(b, OP_ScatterND, build_2(b, OP_Expand, build_f32_scalar(b, 0.0f), count), at, ones);
    build_text(b, ATTR_reduction, "add");
    uint32_t ranks = build_1(b, OP_Size, build_1(b, OP_Shape, rows)), one = build_i64_scalar(b, 1);
    uint32_t tail = build_2(b, OP_Expand, one, build_reshape(b, build_2(b, OP_Sub, ranks, one), (int64_t[]){1}, 1));
    uint32_t form[] = {build_i64(b, (int64_t[]){-1}, 1), tail};
    sizes = build_2(b, OP_Reshape, build_2(b, OP_Max, sizes, build_f32_scalar(b, 1.0f)),
                    build_axis_op(b, OP_Concat, form, 2, 0));
    js_give(c, 0, build_2(b, OP_Div, sums, sizes));
}

/*
 * indices [n, r], values [n], shape [r], default: a row of the first axis that has no entry gets one at its start. The entries, old and new, are put in the
 * order of their rows, those of one row as they came.
 */
static void fill_empty_rows(struct call *c)
{
    struct build *b = c->b;
    uint32_t indices = wide(c, 0), values = js_in(c, 1), shape = wide(c, 2), one = build_i64_scalar(b, 1),
             zero = build_i64_scalar(b, 0);
    uint32_t rows = build_squeeze(b, build_slice(b, indices, 1, 0, 1, 1), 1),
             height = build_slice(b, shape, 0, 0, 1, 1);
    uint32_t entries = build_1(b, OP_Size, rows);
    uint32_t ones = build_2(b, OP_Expand, one, build_reshape(b, entries, (int64_t[]){1}, 1));
    uint32_t counts = build_3(b, OP_ScatterND, build_2(b, OP_Expand, zero, height), build_unsqueeze(b, rows, 1), ones);
    build_text(b, ATTR_reduction, "add");
    uint32_t bare = build_2(b, OP_Equal, counts, zero),
             added = build_transpose(b, build_1(b, OP_NonZero, bare), (int64_t[]){1, 0}, 2);
    uint32_t width = build_slice(b, build_1(b, OP_Shape, indices), 0, 1, 2, 1),
             lack = build_slice(b, build_1(b, OP_Shape, added), 0, 0, 1, 1);
    uint32_t rest[] = {lack, build_2(b, OP_Sub, width, axis_list(c, 1))};
    uint32_t starts[] = {added, build_2(b, OP_Expand, zero, build_axis_op(b, OP_Concat, rest, 2, 0))};
    uint32_t all_rows[] = {indices, build_axis_op(b, OP_Concat, starts, 2, 1)},
             every = build_axis_op(b, OP_Concat, all_rows, 2, 0);
    uint32_t all_values[] = {values, build_2(b, OP_Expand, js_in(c, 3), lack)},
             items = build_axis_op(b, OP_Concat, all_values, 2, 0);
    /* keys row * total + place are distinct, so that their order is a stable one by row */
    uint32_t first = build_squeeze(b, build_slice(b, every, 1, 0, 1, 1), 1), total = build_1(b, OP_Size, first);
    uint32_t keys = build_2(b, OP_Add, build_2(b, OP_Mul, first, total), build_3(b, OP_Range, zero, total, one));
    uint32_t sort[] = {keys, build_reshape(b, total, (int64_t[]){1}, 1)}, sorted[2];
    build_many(b, OP_TopK, sort, 2, sorted, 2);
    build_int(b, ATTR_largest, 0);
    uint32_t pick[] = {every, sorted[1]}, pick_value[] = {items, sorted[1]};
    js_give(c, 0, build_cast(b, build_axis_op(b, OP_Gather, pick, 2, 0), PEN_DTYPE_I32));
    js_give(c, 1, build_axis_op(b, OP_Gather, pick_value, 2, 0));
    js_give(c, 2, bare);
    uint32_t zeros = build_2(b, OP_Expand, zero, build_reshape(b, total, (int64_t[]){1}, 1));
    uint32_t places =
        build_3(b, OP_ScatterND, zeros, build_unsqueeze(b, sorted[1], 1), build_3(b, OP_Range, zero, total, one));
    uint32_t old =
        build_op(b, OP_Slice, (uint32_t[]){places, axis_list(c, 0), build_reshape(b, entries, (int64_t[]){1}, 1)}, 3);
    js_give(c, 3, build_cast(b, old, PEN_DTYPE_I32));
}

const struct tfjs_row js_rows_sparse[] = {
    JS_ROW(Bincount, bincount, 0),
    JS_ROW(DenseBincount, bincount, 0),
    JS_ROW(LowerBound, bound, OP_Less),
    JS_ROW(UpperBound, bound, OP_LessOrEqual),
    JS_ROW(SparseFillEmptyRows, fill_empty_rows, 0),
    JS_ROW(SparseReshape, sparse_reshape, 0),
    JS_ROW(SparseSegmentMean, sparse_segment, 1),
    JS_ROW(SparseSegmentSum, sparse_segment, 0),
    JS_ROW(SparseToDense, sparse_to_dense, 0),
    {NULL, NULL, 0},
};
