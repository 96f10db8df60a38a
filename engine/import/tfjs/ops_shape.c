/* Shapes, slices, moving data, and makers of tensors. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static void constant(struct call *c)
{
    uint32_t value = js_weight(c->s->r, c->b, c->n->name);
    if (value == VALUE_NONE)
        build_stop(c->b, PEN_ERR_CORRUPT, "the weights manifest has no data for it");
    js_give(c, 0, value);
}

static void nothing(struct call *c)
{
    (void)c;
}

static void placeholder(struct call *c)
{
    if (c->in_count > 0)
        js_give(c, 0, js_in(c, 0)); /* PlaceholderWithDefault that nobody feeds */
    else
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "an input inside a function");
}

static void reshape(struct call *c)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t count = 0;
    if (build_ints_of(c->b, js_in(c, 1), dims, PEN_MAX_RANK, &count))
        js_give(c, 0, build_reshape(c->b, js_in(c, 0), dims, count));
    else
        js_give(c, 0, build_2(c->b, OP_Reshape, js_in(c, 0), build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64)));
}

static void squeeze(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    int count = js_attr_ints(c, "squeeze_dims", axes, PEN_MAX_RANK);
    if (count < 0)
        count = js_attr_ints(c, "axis", axes, PEN_MAX_RANK);
    uint32_t list = count > 0 ? build_i64(c->b, axes, (uint32_t)count) : VALUE_NONE;
    js_give(c, 0, build_2(c->b, OP_Squeeze, js_in(c, 0), list));
}

static void expand_dims(struct call *c)
{
    int64_t axis;
    if (js_scalar(c, 1, &axis))
        js_give(c, 0, build_unsqueeze(c->b, js_in(c, 0), axis));
}

static void shape(struct call *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        js_give(c, i, tf_shape(c->b, js_in(c, i), PEN_DTYPE_I32));
}

static void size(struct call *c)
{
    js_give(c, 0, build_cast(c->b, build_1(c->b, OP_Size, js_in(c, 0)), PEN_DTYPE_I32));
}

static void rank(struct call *c)
{
    uint32_t dims = build_1(c->b, OP_Shape, js_in(c, 0));
    js_give(c, 0, build_cast(c->b, build_1(c->b, OP_Size, dims), PEN_DTYPE_I32));
}

static void pack(struct call *c)
{
    js_give(c, 0, tf_pack(c->b, c->in, c->in_count, js_attr_int(c, "axis", 0)));
}

static void give_parts(struct call *c, const uint32_t *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        js_give(c, i, parts[i]);
}

static uint32_t *parts_new(struct call *c, int64_t count)
{
    uint32_t *parts =
        count > 0 && count <= CALL_INPUTS_MAX ? graph_alloc(c->b->g, (size_t)count * sizeof *parts) : NULL;
    if (!parts)
        build_stop(c->b, PEN_ERR_INVALID, "it makes %lld parts", (long long)count);
    return parts;
}

static void unpack(struct call *c)
{
    int64_t count = js_attr_int(c, "num", 0);
    uint32_t *parts = parts_new(c, count);
    if (!parts)
        return;
    tf_unpack(c->b, js_in(c, 0), js_attr_int(c, "axis", 0), parts, (uint32_t)count);
    give_parts(c, parts, (uint32_t)count);
}

/* ConcatV2 has its axis last, Concat first. */
static void concat(struct call *c)
{
    bool first = c->op == 1;
    int64_t axis;
    if (c->in_count < 2 || !js_scalar(c, first ? 0 : c->in_count - 1, &axis)) {
        build_stop(c->b, PEN_ERR_INVALID, "nothing to join");
        return;
    }
    js_give(c, 0, build_axis_op(c->b, OP_Concat, c->in + (first ? 1 : 0), c->in_count - 1, axis));
}

static void split(struct call *c)
{
    int64_t axis, count = js_attr_int(c, "num_split", 0);
    bool sizes = c->op == 1;
    uint32_t *parts = parts_new(c, count);
    if (!parts || !js_scalar(c, sizes ? 2 : 0, &axis))
        return;
    uint32_t x = js_in(c, sizes ? 0 : 1), in[] = {x, sizes ? tf_split_sizes(c->b, x, js_in(c, 1), axis) : VALUE_NONE};
    build_many(c->b, OP_Split, in, 2, parts, (uint32_t)count);
    build_int(c->b, ATTR_axis, axis);
    if (!sizes)
        build_int(c->b, ATTR_num_outputs, count);
    give_parts(c, parts, (uint32_t)count);
}

static void slice(struct call *c)
{
    js_give(c, 0, tf_slice(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2)));
}

static void strided_slice(struct call *c)
{
    struct tf_masks masks = {.begin = js_attr_int(c, "begin_mask", 0),
                             .end = js_attr_int(c, "end_mask", 0),
                             .ellipsis = js_attr_int(c, "ellipsis_mask", 0),
                             .new_axis = js_attr_int(c, "new_axis_mask", 0),
                             .shrink = js_attr_int(c, "shrink_axis_mask", 0)};
    js_give(c, 0, tf_strided_slice(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), js_in(c, 3), &masks));
}

static void pad(struct call *c)
{
    js_give(c, 0, tf_pad(c->b, js_in(c, 0), js_in(c, 1), "constant", js_in(c, 2)));
}

static void mirror_pad(struct call *c)
{
    char mode[16];
    bool reflect = strcmp(js_attr_text(c, "mode", mode, sizeof mode), "SYMMETRIC") != 0;
    js_give(c, 0, tf_pad(c->b, js_in(c, 0), js_in(c, 1), reflect ? "reflect" : "symmetric", VALUE_NONE));
}

static void transpose(struct call *c)
{
    int64_t perm[PEN_MAX_RANK];
    uint32_t count = 0;
    if (!build_ints_of(c->b, js_in(c, 1), perm, PEN_MAX_RANK, &count))
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its permutation must be constant");
    js_give(c, 0, build_transpose(c->b, js_in(c, 0), perm, count));
}

static void gather(struct call *c)
{
    int64_t axis = 0;
    if (c->op == 2 && !js_scalar(c, 2, &axis))
        return;
    js_give(c, 0, tf_gather(c->b, js_in(c, 0), js_in(c, 1), axis, js_attr_int(c, "batch_dims", 0)));
}

static void gather_nd(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_GatherND, js_in(c, 0), build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64)));
}

static void scatter_nd(struct call *c)
{
    enum pen_dtype dtype = js_attr_dtype(c, "T", PEN_DTYPE_F32), known = build_dtype(c->b, js_in(c, 1));
    dtype = known == PEN_DTYPE_NONE ? dtype : known;
    uint32_t zeros = tf_fill(c->b, js_in(c, 2), build_scalar(c->b, dtype, 0));
    uint32_t y = build_3(c->b, OP_ScatterND, zeros, build_cast(c->b, js_in(c, 0), PEN_DTYPE_I64), js_in(c, 1));
    build_text(c->b, ATTR_reduction, "add");
    js_give(c, 0, y);
}

static void tensor_scatter_update(struct call *c)
{
    uint32_t indices = build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64);
    js_give(c, 0, build_3(c->b, OP_ScatterND, js_in(c, 0), indices, js_in(c, 2)));
}

static void tile(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_Tile, js_in(c, 0), js_i64(c, 1)));
}

static void fill(struct call *c)
{
    js_give(c, 0, tf_fill(c->b, js_i64(c, 0), js_in(c, 1)));
}

static void broadcast_to(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_Expand, js_in(c, 0), js_i64(c, 1)));
}

static void range(struct call *c)
{
    js_give(c, 0, build_3(c->b, OP_Range, js_in(c, 0), js_in(c, 1), js_in(c, 2)));
}

static void lin_space(struct call *c)
{
    struct build *b = c->b;
    uint32_t count = build_cast(b, js_in(c, 2), PEN_DTYPE_F32), one = build_f32_scalar(b, 1.0f);
    uint32_t at = build_3(b, OP_Range, build_f32_scalar(b, 0.0f), count, one);
    uint32_t gaps = build_2(b, OP_Max, build_2(b, OP_Sub, count, one), one);
    uint32_t step = build_2(b, OP_Div, build_2(b, OP_Sub, js_in(c, 1), js_in(c, 0)), gaps);
    js_give(c, 0, build_2(b, OP_Add, js_in(c, 0), build_2(b, OP_Mul, at, step)));
}

static void filled_like(struct call *c)
{
    uint32_t item = build_scalar(c->b, js_attr_dtype(c, "T", PEN_DTYPE_F32), c->op);
    js_give(c, 0, build_2(c->b, OP_Expand, item, build_1(c->b, OP_Shape, js_in(c, 0))));
}

/* indices, depth, on, off */
static void one_hot(struct call *c)
{
    js_give(c, 0, tf_one_hot(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), js_in(c, 3), js_attr_int(c, "axis", -1)));
}

static void top_k(struct call *c)
{
    uint32_t values = VALUE_NONE, indices = VALUE_NONE;
    tf_top_k(c->b, js_in(c, 0), js_in(c, 1), &values, &indices);
    js_give(c, 0, values);
    js_give(c, 1, indices);
}

static void where(struct call *c)
{
    static const int64_t perm[] = {1, 0};
    uint32_t rows = build_transpose(c->b, build_1(c->b, OP_NonZero, js_in(c, 0)), perm, 2);
    js_give(c, 0, build_cast(c->b, rows, PEN_DTYPE_I32));
}

/* A condition of one dimension beside values of more picks whole rows (Select only). */
static void select_of(struct call *c)
{
    uint32_t condition = js_in(c, 0);
    int32_t rows = build_rank(c->b, condition), all = build_rank(c->b, js_in(c, 1));
    if (c->op == 1 && rows == 1 && all > 1) {
        int64_t dims[PEN_MAX_RANK] = {-1};
        for (int32_t i = 1; i < all; i++)
            dims[i] = 1;
        condition = build_reshape(c->b, condition, dims, (uint32_t)all);
    }
    js_give(c, 0, build_3(c->b, OP_Where, condition, js_in(c, 1), js_in(c, 2)));
}

static void unique(struct call *c)
{
    uint32_t x = js_in(c, 0), out[3], count = 0;
    int64_t axis;
    bool along = c->in_count > 1 && build_ints_of(c->b, js_in(c, 1), &axis, 1, &count) && count == 1;
    build_many(c->b, OP_Unique, &x, 1, out, 3);
    build_int(c->b, ATTR_sorted, 0);
    if (along)
        build_int(c->b, ATTR_axis, axis);
    js_give(c, 0, out[0]);
    js_give(c, 1, build_cast(c->b, out[2], PEN_DTYPE_I32));
}

static void constant_of(struct call *c)
{
    uint32_t item = build_scalar(c->b, js_attr_dtype(c, "T", PEN_DTYPE_F32), c->op);
    js_give(c, 0, build_2(c->b, OP_Expand, item, js_i64(c, 0)));
}

/* x, one flag per axis */
static void reverse_flagged(struct call *c)
{
    int64_t flags[PEN_MAX_RANK];
    uint32_t count = 0, x = js_in(c, 0);
    if (!build_ints_of(c->b, js_in(c, 1), flags, PEN_MAX_RANK, &count))
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axes must be constant");
    for (uint32_t i = 0; i < count; i++)
        x = flags[i] ? tf_reverse(c->b, x, i) : x;
    js_give(c, 0, x);
}

/* The shape that two shapes broadcast to: that of the sum of tensors that have them. */
static void broadcast_args(struct call *c)
{
    uint32_t a = build_1(c->b, OP_ConstantOfShape, js_i64(c, 0)), b = build_1(c->b, OP_ConstantOfShape, js_i64(c, 1));
    js_give(c, 0, tf_shape(c->b, build_2(c->b, OP_Add, a, b), PEN_DTYPE_I32));
}

/* What of x is not among y, and where it was. */
static void list_diff(struct call *c)
{
    struct build *b = c->b;
    uint32_t same = build_2(b, OP_Equal, build_unsqueeze(b, js_in(c, 0), 1), build_unsqueeze(b, js_in(c, 1), 0));
    uint32_t any =
        build_reduce(b, OP_ReduceMax, build_cast(b, same, PEN_DTYPE_U8), build_i64(b, (int64_t[]){1}, 1), false);
    uint32_t none = build_1(b, OP_Not, build_cast(b, any, PEN_DTYPE_BOOL));
    uint32_t at = build_squeeze(b, build_1(b, OP_NonZero, none), 0), in[] = {js_in(c, 0), at};
    js_give(c, 0, build_axis_op(b, OP_Gather, in, 2, 0));
    js_give(c, 1, build_cast(b, at, PEN_DTYPE_I32));
}

static void reverse(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    uint32_t count = 0, x = js_in(c, 0);
    if (!build_ints_of(c->b, js_in(c, 1), axes, PEN_MAX_RANK, &count))
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axes must be constant");
    for (uint32_t i = 0; i < count; i++)
        x = tf_reverse(c->b, x, axes[i]);
    js_give(c, 0, x);
}

/* Images of 4 dimensions when two block sizes are given, sequences of 3 when one is. */
static void block_batch(struct call *c)
{
    const struct value *v = build_value(c->b, js_in(c, 1));
    int32_t dims = build_rank(c->b, js_in(c, 0));
    if (dims < 0)
        dims = v && v->shape.rank == 1 ? (int32_t)v->shape.dim[0] + 2 : 4;
    js_give(c, 0,
            c->op == 0 ? tf_space_to_batch(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), dims)
                       : tf_batch_to_space(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), dims));
}

static void block_depth(struct call *c)
{
    char format[8];
    int64_t block = js_attr_int(c, "block_size", 0);
    if (block < 1 || block > 65536)
        build_stop(c->b, PEN_ERR_INVALID, "a block of %lld", (long long)block);
    uint32_t y = build_1(c->b, (enum op)c->op, js_in(c, 0));
    if (strcmp(js_attr_text(c, "data_format", format, sizeof format), "NCHW") != 0)
        build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_int(c->b, ATTR_blocksize, block);
    js_give(c, 0, y);
}

const struct tfjs_row js_rows_shape[] = {
    JS_ROW(Const, constant, 0),
    JS_ROW(NoOp, nothing, 0),
    JS_ROW(Assert, nothing, 0),
    JS_ROW(Placeholder, placeholder, 0),
    JS_ROW(PlaceholderWithDefault, placeholder, 0),
    JS_ROW(Reshape, reshape, 0),
    JS_ROW(Squeeze, squeeze, 0),
    JS_ROW(ExpandDims, expand_dims, 0),
    JS_ROW(Shape, shape, 0),
    JS_ROW(ShapeN, shape, 0),
    JS_ROW(Size, size, 0),
    JS_ROW(Rank, rank, 0),
    JS_ROW(Pack, pack, 0),
    JS_ROW(Unpack, unpack, 0),
    JS_ROW(ConcatV2, concat, 0),
    JS_ROW(Concat, concat, 1),
    JS_ROW(Split, split, 0),
    JS_ROW(SplitV, split, 1),
    JS_ROW(Slice, slice, 0),
    JS_ROW(StridedSlice, strided_slice, 0),
    JS_ROW(Pad, pad, 0),
    JS_ROW(PadV2, pad, 0),
    JS_ROW(MirrorPad, mirror_pad, 0),
    JS_ROW(Transpose, transpose, 0),
    JS_ROW(Gather, gather, 0),
    JS_ROW(GatherV2, gather, 2),
    JS_ROW(GatherNd, gather_nd, 0),
    JS_ROW(ScatterNd, scatter_nd, 0),
    JS_ROW(TensorScatterUpdate, tensor_scatter_update, 0),
    JS_ROW(Tile, tile, 0),
    JS_ROW(Fill, fill, 0),
    JS_ROW(BroadcastTo, broadcast_to, 0),
    JS_ROW(Range, range, 0),
    JS_ROW(LinSpace, lin_space, 0),
    JS_ROW(ZerosLike, filled_like, 0),
    JS_ROW(OnesLike, filled_like, 1),
    JS_ROW(OneHot, one_hot, 0),
    JS_ROW(TopKV2, top_k, 0),
    JS_ROW(TopK, top_k, 0),
    JS_ROW(Where, where, 0),
    JS_ROW(Select, select_of, 1),
    JS_ROW(SelectV2, select_of, 0),
    JS_ROW(Unique, unique, 0),
    JS_ROW(UniqueV2, unique, 0),
    JS_ROW(ListDiff, list_diff, 0),
    JS_ROW(Reverse, reverse_flagged, 0),
    JS_ROW(BroadcastArgs, broadcast_args, 0),
    JS_ROW(Zeros, constant_of, 0),
    JS_ROW(Ones, constant_of, 1),
    JS_ROW(ReverseV2, reverse, 0),
    JS_ROW(SpaceToBatchND, block_batch, 0),
    JS_ROW(BatchToSpaceND, block_batch, 1),
    JS_ROW(SpaceToDepth, block_depth, OP_SpaceToDepth),
    JS_ROW(DepthToSpace, block_depth, OP_DepthToSpace),
    {NULL, NULL, 0},
};
