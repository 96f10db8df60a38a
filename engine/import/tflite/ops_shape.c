/* Other shapes and orders of the same data, lists of places, resizing. */
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

void lower_identity(struct call *c)
{
    lite_give_moved(c, 0, lite_moved(c, 0));
}

void lower_reshape(struct call *c)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t count = 0;
    struct fb_list list = fb_vector(&c->options, 0, 4);
    uint32_t x = lite_moved(c, 0), shape = lite_in(c, 1);
    if (shape != VALUE_NONE && !build_ints_of(c->b, shape, dims, PEN_MAX_RANK, &count)) {
        lite_give_moved(c, 0, build_2(c->b, OP_Reshape, x, build_cast(c->b, shape, PEN_DTYPE_I64)));
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
    lite_give_moved(c, 0, build_reshape(c->b, x, dims, count));
}

void lower_squeeze(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    struct fb_list list = fb_vector(&c->options, 0, 4);
    uint32_t count = list.count < PEN_MAX_RANK ? list.count : PEN_MAX_RANK;
    for (uint32_t i = 0; i < count; i++)
        axes[i] = fb_list_int(&list, i);
    lite_give_moved(c, 0,
                    build_2(c->b, OP_Squeeze, lite_moved(c, 0), count ? build_i64(c->b, axes, count) : VALUE_NONE));
}

void lower_expand_dims(struct call *c)
{
    int64_t axis;
    if (lite_axis(c, 1, &axis))
        lite_give_moved(c, 0, build_unsqueeze(c->b, lite_moved(c, 0), axis));
}

void lower_pad(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    bool same = lite_moves(c, 0), integers = same && lite_quantised(c, 0);
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
    lite_give_moved(c, 0, tf_pad(c->b, lite_moved(c, 0), lite_in(c, 1), "constant", value));
}

void lower_mirror_pad(struct call *c)
{
    const char *mode = fb_int(&c->options, 0, 1, 0) == 0 ? "reflect" : "symmetric";
    lite_give_moved(c, 0, tf_pad(c->b, lite_moved(c, 0), lite_in(c, 1), mode, VALUE_NONE));
}

void lower_transpose(struct call *c)
{
    int64_t perm[PEN_MAX_RANK];
    uint32_t count = 0;
    if (!build_ints_of(c->b, lite_in(c, 1), perm, PEN_MAX_RANK, &count)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its permutation must be constant");
        return;
    }
    lite_give_moved(c, 0, build_transpose(c->b, lite_moved(c, 0), perm, count));
}

void lower_tile(struct call *c)
{
    lite_give_moved(c, 0, build_2(c->b, OP_Tile, lite_moved(c, 0), lite_i64(c, 1)));
}

void lower_fill(struct call *c)
{
    lite_give(c, 0, tf_fill(c->b, lite_i64(c, 0), lite_in(c, 1)));
}

void lower_broadcast_to(struct call *c)
{
    lite_give_moved(c, 0, build_2(c->b, OP_Expand, lite_moved(c, 0), lite_i64(c, 1)));
}

/* The shape that two shapes broadcast to: that of the sum of tensors that have them. */
void lower_broadcast_args(struct call *c)
{
    uint32_t a = build_1(c->b, OP_ConstantOfShape, lite_i64(c, 0)),
             b = build_1(c->b, OP_ConstantOfShape, lite_i64(c, 1));
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
    uint32_t count = 0, x = lite_moved(c, 0);
    if (!build_ints_of(c->b, lite_in(c, 1), axes, PEN_MAX_RANK, &count)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axes must be constant");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        x = tf_reverse(c->b, x, axes[i]);
    lite_give_moved(c, 0, x);
}

void lower_reverse_sequence(struct call *c)
{
    uint32_t y = build_2(c->b, OP_ReverseSequence, lite_moved(c, 0), build_cast(c->b, lite_in(c, 1), PEN_DTYPE_I64));
    build_int(c->b, ATTR_time_axis, lite_option(c, 0, 0));
    build_int(c->b, ATTR_batch_axis, lite_option(c, 1, 0));
    lite_give_moved(c, 0, y);
}

static void blocks(struct call *c, enum op op)
{
    int64_t size = lite_option(c, 0, 0);
    if (size < 1 || size > 65536)
        build_stop(c->b, PEN_ERR_INVALID, "a block of %lld", (long long)size);
    uint32_t y = build_1(c->b, op, lite_moved(c, 0));
    build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_int(c->b, ATTR_blocksize, size);
    lite_give_moved(c, 0, y);
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
    uint32_t x = lite_moved(c, 0);
    lite_give_moved(c, 0, tf_batch_to_space(c->b, x, lite_in(c, 1), lite_in(c, 2), lite_tensor(c, 0)->shape.rank));
}

/* On the integers themselves, halves upwards, as the runtime's fixed-point kernel rounds: the mean of integers needs no scale. */
static uint32_t resize_integers(struct call *c, bool corners, bool half)
{
    enum pen_dtype dtype = lite_tensor(c, 0)->dtype;
    bool fixed = (dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I16) &&
                 lite_tensor(c, 0)->shape.rank == 4;
    struct build *b = c->b;
    if (fixed) {
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
        lite_give_moved(c, 0, tf_resize(c->b, lite_moved(c, 0), lite_in(c, 1), true, corners, half));
    else if (lite_quantised(c, 0) && lite_moves(c, 0))
        lite_give(c, 0, resize_integers(c, corners, half));
    else
        lite_give_real(c, 0, tf_resize(c->b, lite_real(c, 0), lite_in(c, 1), false, corners, half));
}

void lower_matrix_diag(struct call *c)
{
    uint32_t n = lite_dims(c, lite_in(c, 0), -1, INT64_MAX), both[] = {n, n};
    uint32_t size = build_axis_op(c->b, OP_Concat, both, 2, 0);
    uint32_t eye = build_1(c->b, OP_EyeLike, build_1(c->b, OP_ConstantOfShape, size));
    eye = build_cast(c->b, eye, lite_tensor(c, 0)->dtype);
    lite_give(c, 0, build_2(c->b, OP_Mul, build_unsqueeze(c->b, lite_in(c, 0), -1), eye));
}

void lower_bitcast(struct call *c)
{
    uint32_t y = build_1(c->b, OP_BitCast, lite_in(c, 0));
    build_int(c->b, ATTR_to, lite_result(c, 0)->dtype);
    lite_give(c, 0, y);
}
