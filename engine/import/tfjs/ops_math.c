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
    if (to == PEN_DTYPE_STRING || to == PEN_DTYPE_C64) {
        build_miss(c->b, "Cast to strings or complex numbers");
        return;
    }
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
static void fused_batch_norm(struct call *c)
{
    char format[8];
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
    {"Abs", unary, OP_Abs},
    {"Acos", unary, OP_Acos},
    {"Acosh", unary, OP_Acosh},
    {"Asin", unary, OP_Asin},
    {"Asinh", unary, OP_Asinh},
    {"Atan", unary, OP_Atan},
    {"Atanh", unary, OP_Atanh},
    {"Ceil", unary, OP_Ceil},
    {"Cos", unary, OP_Cos},
    {"Cosh", unary, OP_Cosh},
    {"Elu", unary, OP_Elu},
    {"Erf", unary, OP_Erf},
    {"Exp", unary, OP_Exp},
    {"Floor", unary, OP_Floor},
    {"Inv", unary, OP_Reciprocal},
    {"Invert", unary, OP_BitwiseNot},
    {"IsInf", unary, OP_IsInf},
    {"IsNan", unary, OP_IsNaN},
    {"Log", unary, OP_Log},
    {"LogicalNot", unary, OP_Not},
    {"Neg", unary, OP_Neg},
    {"Reciprocal", unary, OP_Reciprocal},
    {"Relu", unary, OP_Relu},
    {"Round", unary, OP_Round},
    {"Selu", unary, OP_Selu},
    {"Sigmoid", unary, OP_Sigmoid},
    {"Sign", unary, OP_Sign},
    {"Sin", unary, OP_Sin},
    {"Sinh", unary, OP_Sinh},
    {"Softplus", unary, OP_Softplus},
    {"Softsign", unary, OP_Softsign},
    {"Sqrt", unary, OP_Sqrt},
    {"Tan", unary, OP_Tan},
    {"Tanh", unary, OP_Tanh},
    {"Expm1", expm1_of, 0},
    {"IsFinite", is_finite, 0},
    {"LeakyRelu", leaky, 0},
    {"Log1p", log1p_of, 0},
    {"Relu6", relu6, 0},
    {"Rsqrt", rsqrt, 0},
    {"Square", square, 0},
    {"Cast", cast, 0},
    {"ClipByValue", clip, 0},
    {"Identity", same, 0},
    {"IdentityN", same, 0},
    {"FakeQuantWithMinMaxVars", first, 0}, /* TF.js passes it through */
    {"Print", first, 0},
    {"StopGradient", same, 0},
    {"PreventGradient", same, 0},
    {"Snapshot", same, 0},
    {"EnsureShape", first, 0},
    {"Add", binary, OP_Add},
    {"AddV2", binary, OP_Add},
    {"BiasAddV1", binary, OP_Add},
    {"BitwiseAnd", binary, OP_BitwiseAnd},
    {"BitwiseOr", binary, OP_BitwiseOr},
    {"BitwiseXor", binary, OP_BitwiseXor},
    {"Equal", binary, OP_Equal},
    {"Greater", binary, OP_Greater},
    {"GreaterEqual", binary, OP_GreaterOrEqual},
    {"Less", binary, OP_Less},
    {"LessEqual", binary, OP_LessOrEqual},
    {"LogicalAnd", binary, OP_And},
    {"LogicalOr", binary, OP_Or},
    {"LogicalXor", binary, OP_Xor},
    {"Maximum", binary, OP_Max},
    {"Minimum", binary, OP_Min},
    {"Mul", mul, OP_Mul},
    {"Pow", binary, OP_Pow},
    {"Prelu", binary, OP_PRelu},
    {"Sub", binary, OP_Sub},
    {"AddN", add_n, 0},
    {"Atan2", atan2_of, 0},
    {"Div", real_div, 0},
    {"DivNoNan", div_no_nan, 0},
    {"FloorDiv", floor_div, 0},
    {"FloorMod", floor_mod, 0},
    {"Mod", floor_mod, 0},
    {"NotEqual", not_equal, 0},
    {"RealDiv", real_div, 0},
    {"SquaredDifference", squared_difference, 0},
    {"All", reduce_bool, OP_ReduceMin},
    {"Any", reduce_bool, OP_ReduceMax},
    {"ArgMax", arg, OP_ArgMax},
    {"ArgMin", arg, OP_ArgMin},
    {"Cumprod", cumulate, OP_CumProd},
    {"Cumsum", cumulate, OP_CumSum},
    {"EuclideanNorm", reduce, OP_ReduceL2},
    {"Max", reduce, OP_ReduceMax},
    {"Mean", reduce, OP_ReduceMean},
    {"Min", reduce, OP_ReduceMin},
    {"Prod", reduce, OP_ReduceProd},
    {"Sum", reduce, OP_ReduceSum},
    {"LogSoftmax", softmax, OP_LogSoftmax},
    {"Softmax", softmax, OP_Softmax},
    {"BatchMatMul", batch_mat_mul, 0},
    {"BatchMatMulV2", batch_mat_mul, 0},
    {"Einsum", einsum, 0},
    {"MatMul", mat_mul, 0},
    {"MatrixBandPart", band_part, 0},
    {"_FusedMatMul", mat_mul, 0},
    {"FusedBatchNorm", fused_batch_norm, 0},
    {"FusedBatchNormV2", fused_batch_norm, 0},
    {"FusedBatchNormV3", fused_batch_norm, 0},
    {"LRN", lrn, 0},
    {NULL, NULL, 0},
};
