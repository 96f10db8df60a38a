/* Moving data about. Integers with a scale are moved as they are when the scale does not change. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static bool same_quant(const struct tensor *a, const struct tensor *b)
{
    return a && b && a->dtype == b->dtype && a->quant.count == b->quant.count &&
           (a->quant.count == 0 ||
            (memcmp(a->quant.scale, b->quant.scale, a->quant.count * sizeof(float)) == 0 &&
             memcmp(a->quant.zero_point, b->quant.zero_point, a->quant.count * sizeof(int32_t)) == 0));
}

/* True when input `index` and the result share their integers' meaning (or are no such integers). */
static bool moves(struct call *c, uint32_t index)
{
    bool in = lite_quantised(c, index), out = lite_result_quantised(c, 0);
    return (!in && !out) || same_quant(lite_tensor(c, index), lite_result(c, 0));
}

static uint32_t moved_in(struct call *c, uint32_t index)
{
    return moves(c, index) ? lite_in(c, index) : lite_real(c, index);
}

static void moved_give(struct call *c, uint32_t index, uint32_t y)
{
    if (moves(c, index))
        lite_give(c, 0, y);
    else
        lite_give_real(c, 0, y);
}

static bool axis_in(struct call *c, uint32_t index, int64_t *ret)
{
    uint32_t count = 0;
    if (build_ints_of(c->b, lite_in(c, index), ret, 1, &count) && count == 1)
        return true;
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axis must be one constant");
    return false;
}

static uint32_t i64_in(struct call *c, uint32_t index)
{
    int64_t items[64];
    uint32_t count = 0, x = lite_in(c, index);
    const struct value *v = build_value(c->b, x);
    if (build_ints_of(c->b, x, items, 64, &count) && v->shape.rank == 1)
        return build_i64(c->b, items, count);
    return build_cast(c->b, x, PEN_DTYPE_I64);
}

void lower_identity(struct call *c)
{
    moved_give(c, 0, moved_in(c, 0));
}

void lower_reshape(struct call *c)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t count = 0;
    struct fb_list list = fb_vector(&c->options, 0, 4);
    uint32_t x = moved_in(c, 0), shape = lite_in(c, 1);
    if (shape != VALUE_NONE && !build_ints_of(c->b, shape, dims, PEN_MAX_RANK, &count)) {
        moved_give(c, 0, build_2(c->b, OP_Reshape, x, build_cast(c->b, shape, PEN_DTYPE_I64)));
        return;
    }
    if (shape == VALUE_NONE) {
        if (list.count > PEN_MAX_RANK)
            build_stop(c->b, PEN_ERR_TOO_LARGE, "more than 8 dimensions");
        for (count = 0; count < list.count && count < PEN_MAX_RANK; count++)
            dims[count] = fb_list_int(&list, count);
    }
    if (count == 1 && dims[0] == 0 && lite_result(c, 0)->shape.rank == 0)
        count = 0; /* how old converters write a scalar */
    uint32_t open = 0;
    for (uint32_t i = 0; i < count; i++) {
        open += dims[i] == -1;
        if (dims[i] < -1 || open > 1)
            build_stop(c->b, PEN_ERR_CORRUPT, "a new shape with more than one -1, or below it");
    }
    moved_give(c, 0, build_reshape(c->b, x, dims, count));
}

void lower_squeeze(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    struct fb_list list = fb_vector(&c->options, 0, 4);
    uint32_t count = list.count < PEN_MAX_RANK ? list.count : PEN_MAX_RANK;
    for (uint32_t i = 0; i < count; i++)
        axes[i] = fb_list_int(&list, i);
    moved_give(c, 0, build_2(c->b, OP_Squeeze, moved_in(c, 0), count ? build_i64(c->b, axes, count) : VALUE_NONE));
}

void lower_expand_dims(struct call *c)
{
    int64_t axis;
    if (axis_in(c, 1, &axis))
        moved_give(c, 0, build_unsqueeze(c->b, moved_in(c, 0), axis));
}

/* y_scale, y_zero, then x, x_scale, x_zero for each part */
static void concat_quantised(struct call *c, uint32_t *in, int64_t axis)
{
    uint32_t n = 2;
    lite_affine(c, lite_result(c, 0), &in[0], &in[1]);
    for (uint32_t i = 0; i < c->in.count; i++, n += 3) {
        in[n] = lite_in(c, i);
        lite_affine(c, lite_tensor(c, i), &in[n + 1], &in[n + 2]);
    }
    lite_give(c, 0, lite_clamp(c, build_axis_op(c->b, OP_QLinearConcat, in, n, axis), lite_activation(c, 1)));
}

void lower_concat(struct call *c)
{
    int64_t axis = lite_option(c, 0, 0);
    uint32_t *in = graph_alloc(c->b->g, (3 * (size_t)c->in.count + 2) * sizeof *in);
    bool same = true, all = lite_result_quantised(c, 0);
    for (uint32_t i = 0; i < c->in.count; i++) {
        same &= moves(c, i);
        all &= lite_quantised(c, i);
    }
    if (!in) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u parts", c->in.count);
        return;
    }
    if (!same && all) {
        concat_quantised(c, in, axis);
        return;
    }
    for (uint32_t i = 0; i < c->in.count; i++)
        in[i] = same ? lite_in(c, i) : lite_real(c, i);
    uint32_t y = build_axis_op(c->b, OP_Concat, in, c->in.count, axis);
    if (same && lite_result_quantised(c, 0)) {
        lite_give(c, 0, lite_clamp(c, y, lite_activation(c, 1)));
        return;
    }
    y = tf_activate(c->b, y, lite_activation(c, 1), 0.0f);
    lite_give_real(c, 0, y);
}

void lower_pack(struct call *c)
{
    uint32_t *in = graph_alloc(c->b->g, ((size_t)c->in.count + 1) * sizeof *in);
    bool same = true;
    for (uint32_t i = 0; i < c->in.count; i++)
        same &= moves(c, i);
    for (uint32_t i = 0; in && i < c->in.count; i++)
        in[i] = same ? lite_in(c, i) : lite_real(c, i);
    if (!in) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u parts", c->in.count);
        return;
    }
    uint32_t y = tf_pack(c->b, in, c->in.count, lite_option(c, 1, 0));
    if (same)
        lite_give(c, 0, y);
    else
        lite_give_real(c, 0, y);
}

void lower_unpack(struct call *c)
{
    uint32_t *out = graph_alloc(c->b->g, ((size_t)c->out.count + 1) * sizeof *out);
    if (!out) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u parts", c->out.count);
        return;
    }
    tf_unpack(c->b, lite_in(c, 0), lite_option(c, 1, 0), out, c->out.count);
    for (uint32_t i = 0; i < c->out.count; i++)
        lite_give(c, i, out[i]);
}

static void split(struct call *c, uint32_t x, uint32_t sizes, int64_t axis)
{
    uint32_t in[] = {x, sizes};
    uint32_t *out = graph_alloc(c->b->g, ((size_t)c->out.count + 1) * sizeof *out);
    if (!out) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for %u parts", c->out.count);
        return;
    }
    build_many(c->b, OP_Split, in, 2, out, c->out.count);
    build_int(c->b, ATTR_axis, axis);
    if (sizes == VALUE_NONE)
        build_int(c->b, ATTR_num_outputs, c->out.count);
    for (uint32_t i = 0; i < c->out.count; i++)
        lite_give(c, i, out[i]);
}

void lower_split(struct call *c)
{
    int64_t axis;
    if (axis_in(c, 0, &axis))
        split(c, lite_in(c, 1), VALUE_NONE, axis);
}

void lower_split_v(struct call *c)
{
    int64_t axis;
    if (axis_in(c, 2, &axis))
        split(c, lite_in(c, 0), tf_split_sizes(c->b, lite_in(c, 0), lite_in(c, 1), axis), axis);
}

void lower_slice(struct call *c)
{
    moved_give(c, 0, tf_slice(c->b, moved_in(c, 0), lite_in(c, 1), lite_in(c, 2)));
}

void lower_strided_slice(struct call *c)
{
    struct tf_masks masks = {.begin = lite_option(c, 0, 0),
                             .end = lite_option(c, 1, 0),
                             .ellipsis = lite_option(c, 2, 0),
                             .new_axis = lite_option(c, 3, 0),
                             .shrink = lite_option(c, 4, 0)};
    uint32_t begin = lite_in(c, 1), end = lite_in(c, 2);
    if (fb_bool(&c->options, 5, false)) /* counted from where it begins */
        end = build_2(c->b, OP_Add, begin, end);
    moved_give(c, 0, tf_strided_slice(c->b, moved_in(c, 0), begin, end, lite_in(c, 3), &masks));
}

void lower_pad(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    bool same = moves(c, 0), integers = same && lite_quantised(c, 0);
    uint32_t value = VALUE_NONE;
    if (c->in.count > 2)
        value = same ? lite_in(c, 2) : lite_real(c, 2);
    else if (integers)
        value = build_scalar(c->b, t->dtype, t->quant.zero_point[0]);
    const struct value *v = build_value(c->b, value);
    if (v && v->data && v->shape.rank == 1 && shape_elements(&v->shape) == 1) { /* a list of one is a scalar here */
        struct shape scalar = shape_scalar();
        value = build_const(c->b, v->dtype, &scalar, v->data, v->bytes, false);
    }
    moved_give(c, 0, tf_pad(c->b, moved_in(c, 0), lite_in(c, 1), "constant", value));
}

void lower_mirror_pad(struct call *c)
{
    const char *mode = fb_int(&c->options, 0, 1, 0) == 0 ? "reflect" : "symmetric";
    moved_give(c, 0, tf_pad(c->b, moved_in(c, 0), lite_in(c, 1), mode, VALUE_NONE));
}

void lower_transpose(struct call *c)
{
    int64_t perm[PEN_MAX_RANK];
    uint32_t count = 0;
    if (!build_ints_of(c->b, lite_in(c, 1), perm, PEN_MAX_RANK, &count)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its permutation must be constant");
        return;
    }
    moved_give(c, 0, build_transpose(c->b, moved_in(c, 0), perm, count));
}

void lower_gather(struct call *c)
{
    int64_t axis = lite_option(c, 0, 0), batch = lite_option(c, 1, 0);
    if (axis < 0)
        axis += lite_tensor(c, 0)->shape.rank;
    if (batch < 0 && lite_tensor(c, 1))
        batch += lite_tensor(c, 1)->shape.rank;
    moved_give(c, 0, tf_gather(c->b, moved_in(c, 0), lite_in(c, 1), axis, batch));
}

void lower_gather_nd(struct call *c)
{
    moved_give(c, 0, build_2(c->b, OP_GatherND, moved_in(c, 0), i64_in(c, 1)));
}

/* indices, updates, shape: what meets is added */
void lower_scatter_nd(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 1);
    uint32_t zeros = tf_fill(c->b, lite_in(c, 2), build_scalar(c->b, t ? t->dtype : PEN_DTYPE_F32, 0));
    uint32_t y = build_3(c->b, OP_ScatterND, zeros, build_cast(c->b, lite_in(c, 0), PEN_DTYPE_I64), lite_in(c, 1));
    build_text(c->b, ATTR_reduction, "add");
    lite_give(c, 0, y);
}

void lower_tile(struct call *c)
{
    moved_give(c, 0, build_2(c->b, OP_Tile, moved_in(c, 0), i64_in(c, 1)));
}

void lower_fill(struct call *c)
{
    lite_give(c, 0, build_2(c->b, OP_Expand, lite_in(c, 1), i64_in(c, 0)));
}

void lower_broadcast_to(struct call *c)
{
    moved_give(c, 0, build_2(c->b, OP_Expand, moved_in(c, 0), i64_in(c, 1)));
}

/* The shape that two shapes broadcast to: that of the sum of tensors that have them. */
void lower_broadcast_args(struct call *c)
{
    uint32_t a = build_1(c->b, OP_ConstantOfShape, i64_in(c, 0)), b = build_1(c->b, OP_ConstantOfShape, i64_in(c, 1));
    lite_give(c, 0, tf_shape(c->b, build_2(c->b, OP_Add, a, b), lite_result(c, 0)->dtype));
}

void lower_range(struct call *c)
{
    lite_give(c, 0, build_3(c->b, OP_Range, lite_in(c, 0), lite_in(c, 1), lite_in(c, 2)));
}

void lower_shape(struct call *c)
{
    lite_give(c, 0, tf_shape(c->b, lite_in(c, 0), lite_result(c, 0)->dtype));
}

void lower_rank(struct call *c)
{
    uint32_t shape = build_1(c->b, OP_Shape, lite_in(c, 0));
    lite_give(c, 0, build_cast(c->b, build_1(c->b, OP_Size, shape), PEN_DTYPE_I32));
}

void lower_zeros_like(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    uint32_t zero = build_scalar(c->b, t->dtype, lite_quantised(c, 0) ? t->quant.zero_point[0] : 0);
    lite_give(c, 0, build_2(c->b, OP_Expand, zero, build_1(c->b, OP_Shape, lite_in(c, 0))));
}

/* indices, depth, on, off */
void lower_one_hot(struct call *c)
{
    lite_give(c, 0, tf_one_hot(c->b, lite_in(c, 0), lite_in(c, 1), lite_in(c, 2), lite_in(c, 3), lite_option(c, 0, 0)));
}

void lower_top_k(struct call *c)
{
    uint32_t values, indices;
    tf_top_k(c->b, lite_in(c, 0), lite_in(c, 1), &values, &indices);
    lite_give(c, 0, values);
    lite_give(c, 1, indices);
}

/* Places of what is true, one row each. */
void lower_where(struct call *c)
{
    static const int64_t perm[] = {1, 0};
    lite_give(c, 0, build_transpose(c->b, build_1(c->b, OP_NonZero, lite_in(c, 0)), perm, 2));
}

void lower_unique(struct call *c)
{
    uint32_t x = lite_in(c, 0), out[3];
    build_many(c->b, OP_Unique, &x, 1, out, 3);
    build_int(c->b, ATTR_sorted, 0);
    lite_give(c, 0, out[0]);
    if (c->out.count > 1)
        lite_give(c, 1, build_cast(c->b, out[2], lite_result(c, 1)->dtype));
}

void lower_reverse(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    uint32_t count = 0, x = moved_in(c, 0);
    if (!build_ints_of(c->b, lite_in(c, 1), axes, PEN_MAX_RANK, &count)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axes must be constant");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        x = tf_reverse(c->b, x, axes[i]);
    moved_give(c, 0, x);
}

void lower_reverse_sequence(struct call *c)
{
    uint32_t y = build_2(c->b, OP_ReverseSequence, moved_in(c, 0), build_cast(c->b, lite_in(c, 1), PEN_DTYPE_I64));
    build_int(c->b, ATTR_time_axis, lite_option(c, 0, 0));
    build_int(c->b, ATTR_batch_axis, lite_option(c, 1, 0));
    moved_give(c, 0, y);
}

static void blocks(struct call *c, enum op op)
{
    int64_t size = lite_option(c, 0, 0);
    if (size < 1 || size > 65536)
        build_stop(c->b, PEN_ERR_INVALID, "a block of %lld", (long long)size);
    uint32_t y = build_1(c->b, op, moved_in(c, 0));
    build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_int(c->b, ATTR_blocksize, size);
    moved_give(c, 0, y);
}

void lower_space_to_depth(struct call *c)
{
    blocks(c, OP_SpaceToDepth);
}

void lower_depth_to_space(struct call *c)
{
    blocks(c, OP_DepthToSpace);
}

void lower_space_to_batch(struct call *c)
{
    uint32_t x = lite_real(c, 0); /* padding is the real zero */
    lite_give_real(c, 0, tf_space_to_batch(c->b, x, lite_in(c, 1), lite_in(c, 2), lite_tensor(c, 0)->shape.rank));
}

void lower_batch_to_space(struct call *c)
{
    uint32_t x = moved_in(c, 0);
    moved_give(c, 0, tf_batch_to_space(c->b, x, lite_in(c, 1), lite_in(c, 2), lite_tensor(c, 0)->shape.rank));
}

/* On the integers themselves, halves upwards, as the runtime's fixed-point kernel rounds: the mean of integers needs no scale. */
static uint32_t resize_integers(struct call *c, bool corners, bool half)
{
    enum pen_dtype dtype = lite_tensor(c, 0)->dtype;
    bool bytes = (dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_U8) && lite_tensor(c, 0)->shape.rank == 4;
    struct build *b = c->b;
    if (bytes) {
        uint32_t y = tf_resize(b, lite_in(c, 0), lite_in(c, 1), false, corners, half);
        build_int(b, ATTR_fixed_point, 1);
        return y;
    }
    uint32_t x = build_cast(b, lite_in(c, 0), PEN_DTYPE_F32);
    uint32_t y = tf_resize(b, x, lite_in(c, 1), false, corners, half);
    return build_cast(b, build_1(b, OP_Floor, build_2(b, OP_Add, y, build_f32_scalar(b, 0.5f))), dtype);
}

void lower_resize(struct call *c)
{
    bool nearest = tflite_row_find(c->code)->op == 1;
    unsigned first = nearest ? 0 : 2;
    bool corners = fb_bool(&c->options, first, false), half = fb_bool(&c->options, first + 1, false);
    if (nearest)
        moved_give(c, 0, tf_resize(c->b, moved_in(c, 0), lite_in(c, 1), true, corners, half));
    else if (lite_quantised(c, 0) && moves(c, 0))
        lite_give(c, 0, resize_integers(c, corners, half));
    else
        lite_give_real(c, 0, tf_resize(c->b, lite_real(c, 0), lite_in(c, 1), false, corners, half));
}

/* indices, shape, values, default */
void lower_sparse_to_dense(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    uint32_t indices = build_cast(c->b, lite_in(c, 0), PEN_DTYPE_I64), values = lite_in(c, 2);
    if (t->shape.rank == 0)
        indices = build_reshape(c->b, indices, (int64_t[]){1, 1}, 2);
    else if (t->shape.rank == 1)
        indices = build_unsqueeze(c->b, indices, -1);
    if (lite_tensor(c, 2) && lite_tensor(c, 2)->shape.rank == 0) {
        uint32_t rows = build_1(c->b, OP_Shape, indices);
        values = build_2(c->b, OP_Expand, values, build_slice(c->b, rows, 0, 0, 1, 1));
    }
    uint32_t dense = build_2(c->b, OP_Expand, lite_in(c, 3), i64_in(c, 1));
    lite_give(c, 0, build_3(c->b, OP_ScatterND, dense, indices, values));
}

void lower_matrix_diag(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    int64_t n = t->shape.rank > 0 ? t->shape.dim[t->shape.rank - 1] : 0;
    uint32_t size = build_i64(c->b, (int64_t[]){n, n}, 2);
    uint32_t eye = build_1(c->b, OP_EyeLike, build_1(c->b, OP_ConstantOfShape, size));
    eye = build_cast(c->b, eye, t->dtype);
    lite_give(c, 0, build_2(c->b, OP_Mul, build_unsqueeze(c->b, lite_in(c, 0), -1), eye));
}

/* Fills a list up to `most` with zeros. */
static uint32_t padded(struct build *b, uint32_t x, uint32_t most, uint32_t count)
{
    uint32_t parts[] = {build_i64(b, (int64_t[]){0}, 1), build_2(b, OP_Sub, most, count)};
    return build_2(b, OP_Pad, x, build_axis_op(b, OP_Concat, parts, 2, 0));
}

/* boxes, scores, most, overlap, score (and sigma): indices, (scores,) number; all filled up to `most` */
void lower_nms(struct call *c)
{
    static const int64_t one[] = {1};
    struct build *b = c->b;
    bool five = tflite_row_find(c->code)->op == 5;
    struct tf_nms n = {.boxes = lite_in(c, 0),
                       .scores = lite_in(c, 1),
                       .most = lite_in(c, 2),
                       .overlap = lite_in(c, 3),
                       .score = lite_in(c, 4)};
    uint32_t scores = VALUE_NONE;
    if (five && !build_f32_of(b, lite_in(c, 5), &n.sigma)) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "its sigma must be constant");
        return;
    }
    uint32_t kept = tf_non_max_suppression(b, &n, five ? &scores : NULL);
    uint32_t most = build_2(b, OP_Reshape, build_cast(b, lite_in(c, 2), PEN_DTYPE_I64), build_i64(b, one, 1));
    uint32_t count = build_1(b, OP_Shape, kept), last = five ? 2 : 1;
    lite_give(c, 0, padded(b, kept, most, count));
    if (five)
        lite_give(c, 1, padded(b, scores, most, count));
    uint32_t scalar = build_squeeze(b, build_cast(b, count, PEN_DTYPE_I32), 0);
    lite_give(c, last, scalar);
}

/* operand, update, start: the start is moved inside, then the update laid over. */
void lower_update_slice(struct call *c)
{
    struct build *b = c->b;
    uint32_t x = moved_in(c, 0), update = moved_in(c, 1), zero = build_i64(b, (int64_t[]){0}, 1);
    uint32_t size = build_1(b, OP_Shape, update), room = build_2(b, OP_Sub, build_1(b, OP_Shape, x), size);
    uint32_t start = build_2(b, OP_Max, build_2(b, OP_Min, build_cast(b, lite_in(c, 2), PEN_DTYPE_I64), room), zero);
    uint32_t parts[] = {start, build_2(b, OP_Sub, room, start)};
    uint32_t pads = build_axis_op(b, OP_Concat, parts, 2, 0);
    uint32_t ones = build_2(b, OP_Expand, build_scalar(b, PEN_DTYPE_U8, 1), size);
    uint32_t where = build_cast(b, build_2(b, OP_Pad, ones, pads), PEN_DTYPE_BOOL);
    moved_give(c, 0, build_3(b, OP_Where, where, build_2(b, OP_Pad, update, pads), x));
}

void lower_bitcast(struct call *c)
{
    uint32_t y = build_1(c->b, OP_BitCast, lite_in(c, 0));
    build_int(c->b, ATTR_to, lite_result(c, 0)->dtype);
    lite_give(c, 0, y);
}
