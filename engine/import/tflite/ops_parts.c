/* Tensors put together from parts, taken apart, read and written at places. */
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

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
        same &= lite_moves(c, i);
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
    uint32_t y = same ? lite_row_set(c) : VALUE_NONE;
    if (y == VALUE_NONE)
        y = build_axis_op(c->b, OP_Concat, in, c->in.count, axis);
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
        same &= lite_moves(c, i);
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
    if (lite_axis(c, 0, &axis))
        split(c, lite_in(c, 1), VALUE_NONE, axis);
}

void lower_split_v(struct call *c)
{
    int64_t axis;
    if (lite_axis(c, 2, &axis))
        split(c, lite_in(c, 0), tf_split_sizes(c->b, lite_in(c, 0), lite_in(c, 1), axis), axis);
}

void lower_slice(struct call *c)
{
    lite_give_moved(c, 0, tf_slice(c->b, lite_moved(c, 0), lite_in(c, 1), lite_in(c, 2)));
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
    lite_give_moved(c, 0, tf_strided_slice(c->b, lite_moved(c, 0), begin, end, lite_in(c, 3), &masks));
}

void lower_gather(struct call *c)
{
    int64_t axis = lite_option(c, 0, 0), batch = lite_option(c, 1, 0);
    if (axis < 0)
        axis += lite_tensor(c, 0)->shape.rank;
    if (batch < 0 && lite_tensor(c, 1))
        batch += lite_tensor(c, 1)->shape.rank;
    lite_give_moved(c, 0, tf_gather(c->b, lite_moved(c, 0), lite_in(c, 1), axis, batch));
}

void lower_gather_nd(struct call *c)
{
    lite_give_moved(c, 0, build_2(c->b, OP_GatherND, lite_moved(c, 0), lite_i64(c, 1)));
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
    uint32_t dense = build_2(c->b, OP_Expand, lite_in(c, 3), lite_i64(c, 1));
    lite_give(c, 0, build_3(c->b, OP_ScatterND, dense, indices, values));
}

/* operand, update, start: the start is moved inside, then the update laid over. */
void lower_update_slice(struct call *c)
{
    struct build *b = c->b;
    uint32_t x = lite_moved(c, 0), update = lite_moved(c, 1), zero = build_i64(b, (int64_t[]){0}, 1);
    uint32_t size = build_1(b, OP_Shape, update), room = build_2(b, OP_Sub, build_1(b, OP_Shape, x), size);
    uint32_t start = build_2(b, OP_Max, build_2(b, OP_Min, build_cast(b, lite_in(c, 2), PEN_DTYPE_I64), room), zero);
    uint32_t parts[] = {start, build_2(b, OP_Sub, room, start)};
    uint32_t pads = build_axis_op(b, OP_Concat, parts, 2, 0);
    uint32_t ones = build_2(b, OP_Expand, build_scalar(b, PEN_DTYPE_U8, 1), size);
    uint32_t where = build_cast(b, build_2(b, OP_Pad, ones, pads), PEN_DTYPE_BOOL);
    lite_give_moved(c, 0, build_3(b, OP_Where, where, build_2(b, OP_Pad, update, pads), x));
}
