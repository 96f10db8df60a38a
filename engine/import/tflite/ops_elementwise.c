/* Element-wise operators, reductions and normalisations; quantised ones in floats between DequantizeLinear and QuantizeLinear unless an integer form exists. */
#include <math.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static enum op row_op(const struct call *c)
{
    return (enum op)tflite_row_find(c->code)->op;
}

static bool integers(struct call *c)
{
    const struct tensor *t = lite_tensor(c, 0);
    return t &&
           (t->dtype == PEN_DTYPE_I32 || t->dtype == PEN_DTYPE_I64 || t->dtype == PEN_DTYPE_I16 ||
            t->dtype == PEN_DTYPE_I8 || t->dtype == PEN_DTYPE_U8) &&
           !lite_quantised(c, 0);
}

/* x, x_scale, x_zero, y_scale, y_zero */
static uint32_t quantised_unary(struct call *c, enum op op, float beta)
{
    uint32_t in[5] = {lite_in(c, 0)};
    lite_affine(c, lite_tensor(c, 0), &in[1], &in[2]);
    lite_affine(c, lite_result(c, 0), &in[3], &in[4]);
    if (beta != 1.0f)
        in[1] = build_f32_scalar(c->b, lite_tensor(c, 0)->quant.scale[0] * beta);
    return build_op(c->b, op, in, 5);
}

static bool both_quantised(struct call *c)
{
    return lite_quantised(c, 0) && lite_result_quantised(c, 0) && lite_tensor(c, 0)->quant.count == 1;
}

void lower_unary(struct call *c)
{
    enum op op = row_op(c);
    if (lite_int16(c, op, 0.0f))
        return;
    if (op == OP_Sigmoid && both_quantised(c))
        lite_give(c, 0, quantised_unary(c, OP_QLinearSigmoid, 1.0f));
    else
        lite_give_real(c, 0, build_1(c->b, op, lite_real(c, 0)));
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
static uint32_t quantised_binary(struct call *c, enum op op)
{
    uint32_t in[8] = {lite_in(c, 0), 0, 0, lite_in(c, 1)};
    lite_affine(c, lite_tensor(c, 0), &in[1], &in[2]);
    lite_affine(c, lite_tensor(c, 1), &in[4], &in[5]);
    lite_affine(c, lite_result(c, 0), &in[6], &in[7]);
    if (op == OP_Sub) {
        in[4] = build_f32_scalar(c->b, -lite_tensor(c, 1)->quant.scale[0]);
        op = OP_QLinearAdd;
    }
    uint32_t y = build_op(c->b, op, in, 8);
    if (op == OP_QLinearAdd)
        build_int(c->b, ATTR_fixed_point, 1);
    return y;
}

void lower_binary(struct call *c)
{
    enum op op = row_op(c);
    bool fused = op == OP_Add || op == OP_Mul || op == OP_Sub || op == OP_Div;
    enum tf_activation act = fused ? lite_activation(c, 0) : TF_ACT_NONE;
    if (!lite_tensor(c, 1)) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks its second input");
        return;
    }
    if ((op == OP_Add || op == OP_Mul || op == OP_Sub) && both_quantised(c) && lite_quantised(c, 1)) {
        uint32_t y = quantised_binary(c, op == OP_Add ? OP_QLinearAdd : op == OP_Mul ? OP_QLinearMul : OP_Sub);
        lite_give(c, 0, lite_clamp(c, y, act));
        return;
    }
    uint32_t y = build_2(c->b, op, lite_real(c, 0), lite_real(c, 1));
    lite_give_real(c, 0, fused ? tf_fuse(c->b, y, act, 0.0f) : y);
}

/* Comparisons and logic: never quantised results. */
void lower_compare(struct call *c)
{
    lite_give(c, 0, build_2(c->b, row_op(c), lite_real(c, 0), lite_real(c, 1)));
}

void lower_not_equal(struct call *c)
{
    lite_give(c, 0, build_1(c->b, OP_Not, build_2(c->b, OP_Equal, lite_real(c, 0), lite_real(c, 1))));
}

void lower_floor_div(struct call *c)
{
    lite_give_real(c, 0, tf_floor_div(c->b, lite_real(c, 0), lite_real(c, 1), integers(c)));
}

void lower_floor_mod(struct call *c)
{
    lite_give_real(c, 0, tf_floor_mod(c->b, lite_real(c, 0), lite_real(c, 1), integers(c)));
}

void lower_squared_difference(struct call *c)
{
    lite_give_real(c, 0, tf_squared_difference(c->b, lite_real(c, 0), lite_real(c, 1)));
}

void lower_rsqrt(struct call *c)
{
    if (lite_int16(c, OP_Reciprocal, 0.0f))
        return;
    lite_give_real(c, 0, tf_rsqrt(c->b, lite_real(c, 0)));
}

void lower_square(struct call *c)
{
    uint32_t x = lite_real(c, 0);
    lite_give_real(c, 0, build_2(c->b, OP_Mul, x, x));
}

void lower_relu(struct call *c)
{
    lite_give_real(c, 0, tf_activate(c->b, lite_real(c, 0), (enum tf_activation)row_op(c), 0.0f));
}

void lower_leaky(struct call *c)
{
    float alpha = fb_float(&c->options, 0, 0.0f);
    if (lite_int16(c, OP_LeakyRelu, alpha))
        return;
    if (both_quantised(c)) {
        uint32_t y = quantised_unary(c, OP_QLinearLeakyRelu, 1.0f);
        build_float(c->b, ATTR_alpha, alpha);
        lite_give(c, 0, y);
        return;
    }
    lite_give_real(c, 0, tf_activate(c->b, lite_real(c, 0), TF_ACT_LEAKY, alpha));
}

void lower_prelu(struct call *c)
{
    lite_give_real(c, 0, build_2(c->b, OP_PRelu, lite_real(c, 0), lite_real(c, 1)));
}

void lower_gelu(struct call *c)
{
    const bool tanh_form = fb_bool(&c->options, 0, false);
    if (lite_int16(c, OP_Gelu, tanh_form ? 1.0f : 0.0f))
        return;
    uint32_t y = build_1(c->b, OP_Gelu, lite_real(c, 0));
    if (tanh_form)
        build_text(c->b, ATTR_approximate, "tanh");
    lite_give_real(c, 0, y);
}

void lower_softmax(struct call *c)
{
    float beta = fb_float(&c->options, 0, 0.0f);
    uint32_t y;
    if (both_quantised(c)) {
        y = quantised_unary(c, OP_QLinearSoftmax, beta);
        build_int(c->b, ATTR_axis, -1);
        lite_give(c, 0, y);
        return;
    }
    uint32_t x = lite_real(c, 0);
    if (beta != 1.0f)
        x = build_2(c->b, OP_Mul, x, build_f32_scalar(c->b, beta));
    lite_give_real(c, 0, build_axis_op(c->b, OP_Softmax, &x, 1, -1));
}

void lower_log_softmax(struct call *c)
{
    uint32_t x = lite_real(c, 0);
    lite_give_real(c, 0, build_axis_op(c->b, OP_LogSoftmax, &x, 1, -1));
}

void lower_l2_norm(struct call *c)
{
    uint32_t y = tf_l2_normalise(c->b, lite_real(c, 0), -1, 1e-12f);
    lite_give_real(c, 0, tf_activate(c->b, y, lite_activation(c, 0), 0.0f));
}

/* x / (bias + alpha * sum of squares over 2 * radius + 1 channels) ^ beta; ours divides alpha by the number of channels. */
void lower_lrn(struct call *c)
{
    int64_t size = 2 * lite_option(c, 0, 0) + 1;
    if (size < 1 || size > 100000) {
        build_stop(c->b, PEN_ERR_INVALID, "a window of %lld channels", (long long)size);
        return;
    }
    uint32_t y = build_1(c->b, OP_LRN, lite_real(c, 0));
    build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_int(c->b, ATTR_size, size);
    build_float(c->b, ATTR_bias, fb_float(&c->options, 1, 0.0f));
    build_float(c->b, ATTR_alpha, fb_float(&c->options, 2, 0.0f) * (float)size);
    build_float(c->b, ATTR_beta, fb_float(&c->options, 3, 0.0f));
    lite_give_real(c, 0, y);
}

/* Axes as a list of int64, also when the file has a scalar. */
static uint32_t axes_in(struct call *c)
{
    int64_t axes[PEN_MAX_RANK];
    uint32_t count = 0, x = lite_in(c, 1);
    if (x == VALUE_NONE || !build_ints_of(c->b, x, axes, PEN_MAX_RANK, &count))
        return x == VALUE_NONE ? x : build_cast(c->b, x, PEN_DTYPE_I64);
    return build_i64(c->b, axes, count);
}

static uint32_t reduced(struct call *c, enum op op, uint32_t x)
{
    uint32_t axes = axes_in(c);
    const struct value *v = build_value(c->b, axes);
    if (v && v->data && v->bytes == 0)
        return x; /* no axes: nothing to reduce */
    return build_reduce(c->b, op, x, axes, fb_bool(&c->options, 0, false));
}

void lower_reduce(struct call *c)
{
    lite_give_real(c, 0, reduced(c, row_op(c), lite_real(c, 0)));
}

void lower_reduce_bool(struct call *c)
{
    uint32_t y = reduced(c, row_op(c), build_cast(c->b, lite_in(c, 0), PEN_DTYPE_U8));
    lite_give(c, 0, build_cast(c->b, y, PEN_DTYPE_BOOL));
}

void lower_arg(struct call *c)
{
    int64_t axis;
    uint32_t count, x = lite_in(c, 0); /* order is the same before and after quantising */
    const struct tensor *t = lite_result(c, 0);
    if (!build_ints_of(c->b, lite_in(c, 1), &axis, 1, &count) || count != 1) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axis must be constant");
        return;
    }
    uint32_t y = build_axis_op(c->b, row_op(c), &x, 1, axis);
    build_int(c->b, ATTR_keepdims, 0);
    lite_give(c, 0, t->dtype == PEN_DTYPE_I64 ? y : build_cast(c->b, y, t->dtype));
}

void lower_cast(struct call *c)
{
    enum pen_dtype to = lite_result(c, 0)->dtype;
    if (to == PEN_DTYPE_NONE || to == PEN_DTYPE_STRING || to == PEN_DTYPE_C64 || to == PEN_DTYPE_C128)
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "a cast to such elements");
    lite_give(c, 0, build_cast(c->b, lite_in(c, 0), to));
}

void lower_add_n(struct call *c)
{
    uint32_t y = lite_real(c, 0);
    for (uint32_t i = 1; i < c->in.count; i++)
        y = build_2(c->b, OP_Add, y, lite_real(c, i));
    lite_give_real(c, 0, y);
}

/* SELECT's condition may have one dimension where the others have more: it picks whole rows. */
void lower_select(struct call *c)
{
    uint32_t where = lite_in(c, 0);
    const struct tensor *t = lite_tensor(c, 0), *x = lite_tensor(c, 1);
    if (row_op(c) == OP_NONE && x && t->shape.rank == 1 && x->shape.rank > 1) {
        int64_t dims[PEN_MAX_RANK] = {-1};
        for (int32_t i = 1; i < x->shape.rank; i++)
            dims[i] = 1;
        where = build_reshape(c->b, where, dims, (uint32_t)x->shape.rank);
    }
    lite_give_real(c, 0, build_3(c->b, OP_Where, where, lite_real(c, 1), lite_real(c, 2)));
}

void lower_cumsum(struct call *c)
{
    uint32_t y = build_2(c->b, OP_CumSum, lite_in(c, 0), lite_in(c, 1));
    build_int(c->b, ATTR_exclusive, fb_bool(&c->options, 0, false));
    build_int(c->b, ATTR_reverse, fb_bool(&c->options, 1, false));
    lite_give(c, 0, y);
}

/* Training left it in: the values rounded to what the integers could hold, with zero nudged onto a step. */
void lower_fake_quant(struct call *c)
{
    struct build *b = c->b;
    float min = fb_float(&c->options, 0, 0.0f), max = fb_float(&c->options, 1, 0.0f);
    int64_t bits = lite_option(c, 2, 0);
    float low = fb_bool(&c->options, 3, false) ? 1.0f : 0.0f;
    if (bits < 2 || bits > 16 || !(min < max) || !isfinite(min) || !isfinite(max)) {
        build_stop(b, PEN_ERR_INVALID, "a fake quantisation to %lld bits", (long long)bits);
        return;
    }
    float high = (float)((1 << bits) - 1), scale = (max - min) / (high - low), zero = roundf(low - min / scale);
    zero = zero < low ? low : zero > high ? high : zero;
    uint32_t step = build_f32_scalar(b, scale), lowest = build_f32_scalar(b, (low - zero) * scale);
    uint32_t x = build_3(b, OP_Clip, lite_real(c, 0), lowest, build_f32_scalar(b, (high - zero) * scale));
    uint32_t inverse = build_f32_scalar(b, 1.0f / scale); /* halves go up */
    uint32_t q = build_2(b, OP_Mul, build_2(b, OP_Sub, x, lowest), inverse);
    q = build_1(b, OP_Floor, build_2(b, OP_Add, q, build_f32_scalar(b, 0.5f)));
    lite_give_real(c, 0, build_2(b, OP_Add, build_2(b, OP_Mul, q, step), lowest));
}

void lower_atan2(struct call *c)
{
    lite_give(c, 0, tf_atan2(c->b, lite_real(c, 0), lite_real(c, 1)));
}

/* Complex numbers have a last dimension of 2 more here. */
/* Towards minus infinity: a floored division by a power of two. */
void lower_right_shift(struct call *c)
{
    struct build *b = c->b;
    uint32_t x = build_cast(b, lite_in(c, 0), PEN_DTYPE_I64), n = build_cast(b, lite_in(c, 1), PEN_DTYPE_I64);
    uint32_t power = build_2(b, OP_Pow, build_i64_scalar(b, 2), n);
    lite_give(c, 0, build_cast(b, tf_floor_div(b, x, power, true), lite_tensor(c, 0)->dtype));
}
