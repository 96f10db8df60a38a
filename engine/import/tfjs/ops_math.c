/* Arithmetic, comparisons, reductions, normalisation. */
#include <stdio.h>
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static void unary(struct call *c)
{
    js_give(c, 0, build_1(c->b, (enum op)c->op, js_in(c, 0)));
}

static void binary(struct call *c)
{
    js_give(c, 0, build_2(c->b, (enum op)c->op, js_in(c, 0), js_in(c, 1)));
}

static void mul(struct call *c)
{
    if (!js_complex_mul(c))
        binary(c);
}

static void same(struct call *c)
{
    for (uint32_t i = 0; i < c->in_count; i++)
        js_give(c, i, js_in(c, i));
}

static void first(struct call *c)
{
    js_give(c, 0, js_in(c, 0));
}

/* Integers are divided towards minus infinity, as TF.js does. */
static void real_div(struct call *c)
{
    if (js_integers(c))
        js_give(c, 0, tf_floor_div(c->b, js_in(c, 0), js_in(c, 1), true));
    else
        js_give(c, 0, build_2(c->b, OP_Div, js_in(c, 0), js_in(c, 1)));
}

static void atan2_of(struct call *c)
{
    js_give(c, 0, tf_atan2(c->b, js_in(c, 0), js_in(c, 1)));
}

/* What lies above the upper or below the lower of the diagonals becomes zero; a negative number keeps that side whole. */
static void band_part(struct call *c)
{
    int64_t lower, upper;
    uint32_t x = js_in(c, 0);
    if (!js_scalar(c, 1, &lower) || !js_scalar(c, 2, &upper))
        return;
    if (upper >= 0) {
        x = build_2(c->b, OP_Trilu, x, build_i64_scalar(c->b, upper));
        build_int(c->b, ATTR_upper, 0);
    }
    if (lower >= 0) {
        x = build_2(c->b, OP_Trilu, x, build_i64_scalar(c->b, -lower));
        build_int(c->b, ATTR_upper, 1);
    }
    js_give(c, 0, x);
}

static void div_no_nan(struct call *c)
{
    struct build *b = c->b;
    uint32_t zero = build_f32_scalar(b, 0.0f), y = js_in(c, 1);
    uint32_t none = build_2(b, OP_Equal, y, zero);
    uint32_t safe = build_3(b, OP_Where, none, build_f32_scalar(b, 1.0f), y);
    js_give(c, 0, build_3(b, OP_Where, none, zero, build_2(b, OP_Div, js_in(c, 0), safe)));
}

static void floor_div(struct call *c)
{
    js_give(c, 0, tf_floor_div(c->b, js_in(c, 0), js_in(c, 1), js_integers(c)));
}

static void floor_mod(struct call *c)
{
    js_give(c, 0, tf_floor_mod(c->b, js_in(c, 0), js_in(c, 1), js_integers(c)));
}

static void squared_difference(struct call *c)
{
    js_give(c, 0, tf_squared_difference(c->b, js_in(c, 0), js_in(c, 1)));
}

static void not_equal(struct call *c)
{
    js_give(c, 0, build_1(c->b, OP_Not, build_2(c->b, OP_Equal, js_in(c, 0), js_in(c, 1))));
}

static void rsqrt(struct call *c)
{
    js_give(c, 0, tf_rsqrt(c->b, js_in(c, 0)));
}

static void square(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_Mul, js_in(c, 0), js_in(c, 0)));
}

static void relu6(struct call *c)
{
    js_give(c, 0, tf_activate(c->b, js_in(c, 0), TF_ACT_RELU6, 0.0f));
}

static void leaky(struct call *c)
{
    js_give(c, 0, tf_activate(c->b, js_in(c, 0), TF_ACT_LEAKY, js_attr_float(c, "alpha", 0.2f)));
}

static void expm1_of(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_Sub, build_1(c->b, OP_Exp, js_in(c, 0)), build_f32_scalar(c->b, 1.0f)));
}

static void log1p_of(struct call *c)
{
    js_give(c, 0, build_1(c->b, OP_Log, build_2(c->b, OP_Add, js_in(c, 0), build_f32_scalar(c->b, 1.0f))));
}

static void is_finite(struct call *c)
{
    uint32_t nan = build_1(c->b, OP_IsNaN, js_in(c, 0)), inf = build_1(c->b, OP_IsInf, js_in(c, 0));
    js_give(c, 0, build_1(c->b, OP_Not, build_2(c->b, OP_Or, nan, inf)));
}

static void add_n(struct call *c)
{
    uint32_t y = js_in(c, 0);
    for (uint32_t i = 1; i < c->in_count; i++)
        y = build_2(c->b, OP_Add, y, js_in(c, i));
    js_give(c, 0, y);
}

static void clip(struct call *c)
{
    uint32_t low = build_2(c->b, OP_Max, js_in(c, 0), js_in(c, 1));
    js_give(c, 0, build_2(c->b, OP_Min, low, js_in(c, 2)));
}

static void cast(struct call *c)
{
    enum pen_dtype to = js_attr_dtype(c, "DstT", PEN_DTYPE_F32);
    if (to == PEN_DTYPE_STRING)
        build_miss(c->b, "Cast to strings");
    else if (!js_complex_cast(c, to))
        js_give(c, 0, build_cast(c->b, js_in(c, 0), to));
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------ */

static bool keep_dims(const struct call *c)
{
    return js_attr_bool(c, "keep_dims", js_attr_bool(c, "keepDims", false));
}

/* Axes as a list, also when the file has a scalar. */
static uint32_t axes_of(struct call *c)
{
    static const int64_t flat[] = {-1};
    int64_t axes[PEN_MAX_RANK];
    uint32_t count = 0, x = js_in(c, 1);
    if (build_ints_of(c->b, x, axes, PEN_MAX_RANK, &count))
        return build_i64(c->b, axes, count);
    return build_2(c->b, OP_Reshape, build_cast(c->b, x, PEN_DTYPE_I64), build_i64(c->b, flat, 1));
}

static uint32_t reduced(struct call *c, enum op op, uint32_t x)
{
    uint32_t axes = axes_of(c);
    const struct value *v = build_value(c->b, axes);
    if (v && v->data && v->bytes == 0)
        return x;
    return build_reduce(c->b, op, x, axes, keep_dims(c));
}

static void reduce(struct call *c)
{
    uint32_t x = js_in(c, 0);
    if (c->op == OP_ReduceMean && js_integers(c))
        x = build_cast(c->b, x, PEN_DTYPE_F32);
    js_give(c, 0, reduced(c, (enum op)c->op, x));
}

static void reduce_bool(struct call *c)
{
    uint32_t y = reduced(c, (enum op)c->op, build_cast(c->b, js_in(c, 0), PEN_DTYPE_U8));
    js_give(c, 0, build_cast(c->b, y, PEN_DTYPE_BOOL));
}

static void arg(struct call *c)
{
    int64_t axis;
    uint32_t x = js_in(c, 0);
    if (!js_scalar(c, 1, &axis))
        return;
    uint32_t y = build_axis_op(c->b, (enum op)c->op, &x, 1, axis);
    build_int(c->b, ATTR_keepdims, 0);
    js_give(c, 0, build_cast(c->b, y, PEN_DTYPE_I32));
}

static void cumulate(struct call *c)
{
    uint32_t y = build_2(c->b, (enum op)c->op, js_in(c, 0), build_cast(c->b, js_in(c, 1), PEN_DTYPE_I64));
    build_int(c->b, ATTR_exclusive, js_attr_bool(c, "exclusive", false));
    build_int(c->b, ATTR_reverse, js_attr_bool(c, "reverse", false));
    js_give(c, 0, y);
}

static void softmax(struct call *c)
{
    uint32_t x = js_in(c, 0);
    js_give(c, 0, build_axis_op(c->b, (enum op)c->op, &x, 1, -1));
}

/* ---- matrices ---------------------------------------------------------------------------------------------------------------- */

static void mat_mul(struct call *c)
{
    struct fused f = js_fused(c);
    uint32_t bias = f.bias ? js_in(c, 2) : VALUE_NONE;
    bool flat = build_rank(c->b, bias) <= 1;
    uint32_t y = build_3(c->b, OP_Gemm, js_in(c, 0), js_in(c, 1), flat ? bias : VALUE_NONE);
    build_int(c->b, ATTR_transA, js_attr_bool(c, "transpose_a", false));
    build_int(c->b, ATTR_transB, js_attr_bool(c, "transpose_b", false));
    if (!flat)
        y = build_2(c->b, OP_Add, y, bias);
    if (f.prelu)
        y = build_2(c->b, OP_PRelu, y, js_in(c, 3));
    js_give(c, 0, f.prelu ? y : tf_fuse(c->b, y, f.act, f.alpha));
}

/* Transposed factors by Einsum, which needs no rank. */
static void batch_mat_mul(struct call *c)
{
    bool x = js_attr_bool(c, "adj_x", false), y = js_attr_bool(c, "adj_y", false);
    char equation[40];
    if (!x && !y) {
        js_give(c, 0, build_2(c->b, OP_MatMul, js_in(c, 0), js_in(c, 1)));
        return;
    }
    snprintf(equation, sizeof equation, "...%s,...%s->...ik", x ? "ji" : "ij", y ? "kj" : "jk");
    uint32_t z = build_2(c->b, OP_Einsum, js_in(c, 0), js_in(c, 1));
    build_text(c->b, ATTR_equation, equation);
    js_give(c, 0, z);
}

static void einsum(struct call *c)
{
    char equation[256];
    uint32_t y = build_op(c->b, OP_Einsum, c->in, c->in_count);
    build_text(c->b, ATTR_equation, js_attr_text(c, "equation", equation, sizeof equation));
    js_give(c, 0, y);
}

/* ---- normalisation ---------------------------------------------------------------------------------------------------------- */

/* x, scale, offset, mean, variance */
/* Of a list with one item per channel: so that it broadcasts against data of this format. */
static uint32_t along_channels(struct call *c, const char *format, uint32_t list)
{
    static const int64_t dims[PEN_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
    const size_t behind = strlen(strchr(format, 'C')) - 1;
    return behind == 0 ? list : build_reshape(c->b, list, dims, (uint32_t)behind + 1);
}

/*
 * is_training: mean and variance are those of this batch, over all axes but the channels'; inputs 3 and 4 are empty. Keras's LayerNormalization is written so, with the items to
 * normalise as pixels and a channel for each row. tensorflow.org, api_docs/python/tf/raw_ops/FusedBatchNormV3.
 */
static void batch_norm_of_batch(struct call *c, const char *format)
{
    struct build *b = c->b;
    int64_t axes[PEN_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; format[i] != '\0'; i++) {
        if (format[i] != 'C')
            axes[count++] = i;
    }
    const uint32_t list = build_i64(b, axes, count), mean = build_reduce(b, OP_ReduceMean, js_in(c, 0), list, true);
    const uint32_t off = build_2(b, OP_Sub, js_in(c, 0), mean);
    const uint32_t variance = build_reduce(b, OP_ReduceMean, build_2(b, OP_Mul, off, off), list, true);
    const uint32_t epsilon = build_f32_scalar(b, js_attr_float(c, "epsilon", 0.001f));
    const uint32_t y = build_2(b, OP_Div, off, build_1(b, OP_Sqrt, build_2(b, OP_Add, variance, epsilon)));
    const uint32_t scaled = build_2(b, OP_Mul, y, along_channels(c, format, js_in(c, 1)));
    js_give(c, 0, build_2(b, OP_Add, scaled, along_channels(c, format, js_in(c, 2))));
    js_give(c, 1, build_reshape(b, mean, (const int64_t[]){-1}, 1));
}

static void fused_batch_norm(struct call *c)
{
    char format[8];
    const char *layout = js_attr_text(c, "data_format", format, sizeof format);
    const struct value *mean = build_value(c->b, js_in(c, 3));
    if (js_attr_bool(c, "is_training", true) && mean != NULL && mean->shape.rank == 1 && mean->shape.dim[0] == 0) {
        batch_norm_of_batch(c, strchr(layout, 'C') != NULL ? layout : "NHWC");
        return;
    }
    uint32_t in[] = {js_in(c, 0), js_in(c, 1), js_in(c, 2), js_in(c, 3), js_in(c, 4)};
    uint32_t y = build_op(c->b, OP_BatchNormalization, in, 5);
    if (strcmp(js_attr_text(c, "data_format", format, sizeof format), "NCHW") != 0)
        build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_float(c->b, ATTR_epsilon, js_attr_float(c, "epsilon", 0.001f));
    js_give(c, 0, y);
}

static void lrn(struct call *c)
{
    int64_t size = 2 * js_attr_int(c, "depth_radius", 5) + 1;
    if (size < 1 || size > 100000) {
        build_stop(c->b, PEN_ERR_INVALID, "a window of %lld channels", (long long)size);
        return;
    }
    uint32_t y = build_1(c->b, OP_LRN, js_in(c, 0));
    build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    build_int(c->b, ATTR_size, size);
    build_float(c->b, ATTR_bias, js_attr_float(c, "bias", 1.0f));
    build_float(c->b, ATTR_alpha, js_attr_float(c, "alpha", 1.0f) * (float)size);
    build_float(c->b, ATTR_beta, js_attr_float(c, "beta", 0.5f));
    js_give(c, 0, y);
}

const struct tfjs_row js_rows_math[] = {
    JS_ROW(Abs, unary, OP_Abs),
    JS_ROW(Acos, unary, OP_Acos),
    JS_ROW(Acosh, unary, OP_Acosh),
    JS_ROW(Asin, unary, OP_Asin),
    JS_ROW(Asinh, unary, OP_Asinh),
    JS_ROW(Atan, unary, OP_Atan),
    JS_ROW(Atanh, unary, OP_Atanh),
    JS_ROW(Ceil, unary, OP_Ceil),
    JS_ROW(Cos, unary, OP_Cos),
    JS_ROW(Cosh, unary, OP_Cosh),
    JS_ROW(Elu, unary, OP_Elu),
    JS_ROW(Erf, unary, OP_Erf),
    JS_ROW(Exp, unary, OP_Exp),
    JS_ROW(Floor, unary, OP_Floor),
    JS_ROW(Inv, unary, OP_Reciprocal),
    JS_ROW(Invert, unary, OP_BitwiseNot),
    JS_ROW(IsInf, unary, OP_IsInf),
    JS_ROW(IsNan, unary, OP_IsNaN),
    JS_ROW(Log, unary, OP_Log),
    JS_ROW(LogicalNot, unary, OP_Not),
    JS_ROW(Neg, unary, OP_Neg),
    JS_ROW(Reciprocal, unary, OP_Reciprocal),
    JS_ROW(Relu, unary, OP_Relu),
    JS_ROW(Round, unary, OP_Round),
    JS_ROW(Selu, unary, OP_Selu),
    JS_ROW(Sigmoid, unary, OP_Sigmoid),
    JS_ROW(Sign, unary, OP_Sign),
    JS_ROW(Sin, unary, OP_Sin),
    JS_ROW(Sinh, unary, OP_Sinh),
    JS_ROW(Softplus, unary, OP_Softplus),
    JS_ROW(Softsign, unary, OP_Softsign),
    JS_ROW(Sqrt, unary, OP_Sqrt),
    JS_ROW(Tan, unary, OP_Tan),
    JS_ROW(Tanh, unary, OP_Tanh),
    JS_ROW(Expm1, expm1_of, 0),
    JS_ROW(IsFinite, is_finite, 0),
    JS_ROW(LeakyRelu, leaky, 0),
    JS_ROW(Log1p, log1p_of, 0),
    JS_ROW(Relu6, relu6, 0),
    JS_ROW(Rsqrt, rsqrt, 0),
    JS_ROW(Square, square, 0),
    JS_ROW(Cast, cast, 0),
    JS_ROW(ClipByValue, clip, 0),
    JS_ROW(Identity, same, 0),
    JS_ROW(IdentityN, same, 0),
    JS_ROW(FakeQuantWithMinMaxVars, first, 0), /* TF.js passes it through */
    JS_ROW(Print, first, 0),
    JS_ROW(StopGradient, same, 0),
    JS_ROW(PreventGradient, same, 0),
    JS_ROW(Snapshot, same, 0),
    JS_ROW(EnsureShape, first, 0),
    JS_ROW(Add, binary, OP_Add),
    JS_ROW(AddV2, binary, OP_Add),
    JS_ROW(BiasAddV1, binary, OP_Add),
    JS_ROW(BitwiseAnd, binary, OP_BitwiseAnd),
    JS_ROW(BitwiseOr, binary, OP_BitwiseOr),
    JS_ROW(BitwiseXor, binary, OP_BitwiseXor),
    JS_ROW(Equal, binary, OP_Equal),
    JS_ROW(Greater, binary, OP_Greater),
    JS_ROW(GreaterEqual, binary, OP_GreaterOrEqual),
    JS_ROW(Less, binary, OP_Less),
    JS_ROW(LessEqual, binary, OP_LessOrEqual),
    JS_ROW(LogicalAnd, binary, OP_And),
    JS_ROW(LogicalOr, binary, OP_Or),
    JS_ROW(LogicalXor, binary, OP_Xor),
    JS_ROW(Maximum, binary, OP_Max),
    JS_ROW(Minimum, binary, OP_Min),
    JS_ROW(Mul, mul, OP_Mul),
    JS_ROW(Pow, binary, OP_Pow),
    JS_ROW(Prelu, binary, OP_PRelu),
    JS_ROW(Sub, binary, OP_Sub),
    JS_ROW(AddN, add_n, 0),
    JS_ROW(Atan2, atan2_of, 0),
    JS_ROW(Div, real_div, 0),
    JS_ROW(DivNoNan, div_no_nan, 0),
    JS_ROW(FloorDiv, floor_div, 0),
    JS_ROW(FloorMod, floor_mod, 0),
    JS_ROW(Mod, floor_mod, 0),
    JS_ROW(NotEqual, not_equal, 0),
    JS_ROW(RealDiv, real_div, 0),
    JS_ROW(SquaredDifference, squared_difference, 0),
    JS_ROW(All, reduce_bool, OP_ReduceMin),
    JS_ROW(Any, reduce_bool, OP_ReduceMax),
    JS_ROW(ArgMax, arg, OP_ArgMax),
    JS_ROW(ArgMin, arg, OP_ArgMin),
    JS_ROW(Cumprod, cumulate, OP_CumProd),
    JS_ROW(Cumsum, cumulate, OP_CumSum),
    JS_ROW(EuclideanNorm, reduce, OP_ReduceL2),
    JS_ROW(Max, reduce, OP_ReduceMax),
    JS_ROW(Mean, reduce, OP_ReduceMean),
    JS_ROW(Min, reduce, OP_ReduceMin),
    JS_ROW(Prod, reduce, OP_ReduceProd),
    JS_ROW(Sum, reduce, OP_ReduceSum),
    JS_ROW(LogSoftmax, softmax, OP_LogSoftmax),
    JS_ROW(Softmax, softmax, OP_Softmax),
    JS_ROW(BatchMatMul, batch_mat_mul, 0),
    JS_ROW(BatchMatMulV2, batch_mat_mul, 0),
    JS_ROW(Einsum, einsum, 0),
    JS_ROW(MatMul, mat_mul, 0),
    JS_ROW(MatrixBandPart, band_part, 0),
    JS_ROW(_FusedMatMul, mat_mul, 0),
    JS_ROW(FusedBatchNorm, fused_batch_norm, 0),
    JS_ROW(FusedBatchNormV2, fused_batch_norm, 0),
    JS_ROW(FusedBatchNormV3, fused_batch_norm, 0),
    JS_ROW(LRN, lrn, 0),
    {NULL, NULL, 0},
};
