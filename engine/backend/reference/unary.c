/* Element-wise operators of one input: y_i = f(x_i). Formulas: ONNX operator reference. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

#include "backend/reference/activation.h"

/* Parameters of one node: attributes with their defaults, or the bounds of Clip. */
struct unary_params {
    double a, b;
};

typedef double (*unary_f64)(double x, const struct unary_params *p);

#define UNARY(name, formula)                                                                                           \
    static double name(double x, const struct unary_params *p)                                                         \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return formula;                                                                                                \
    }

static double softplus(double x) /* ln(1 + e^x) without overflow */
{
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double unit_clipped(double x) /* to [0, 1]; NaN passes */
{
    return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x;
}

UNARY(u_abs, fabs(x))
UNARY(u_acos, acos(x))
UNARY(u_acosh, acosh(x))
UNARY(u_asin, asin(x))
UNARY(u_asinh, asinh(x))
UNARY(u_atan, atan(x))
UNARY(u_atanh, atanh(x))
UNARY(u_ceil, ceil(x))
UNARY(u_celu, x > 0.0 ? x : p->a * expm1(x / p->a))
UNARY(u_clip, x<p->a ? fmin(p->a, p->b) : x> p->b ? p->b : x) /* min > max: everything is max */
UNARY(u_cos, cos(x))
UNARY(u_cosh, cosh(x))
UNARY(u_elu, x < 0.0 ? p->a * expm1(x) : x)
UNARY(u_erf, erf(x))
UNARY(u_exp, exp(x))
UNARY(u_floor, floor(x))
UNARY(u_gelu, 0.5 * x * (1.0 + erf(x / 1.4142135623730950488))) /* x * normal cdf */
UNARY(u_gelu_tanh, 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
UNARY(u_hard_sigmoid, unit_clipped(p->a *x + p->b))
UNARY(u_hard_swish, x *fmax(0.0, fmin(1.0, x / 6.0 + 0.5)))
UNARY(u_leaky, x < 0.0 ? p->a * x : x)
UNARY(u_log, log(x))
UNARY(u_mish, x *tanh(softplus(x)))
UNARY(u_neg, -x)
UNARY(u_reciprocal, 1.0 / x)
UNARY(u_relu, x < 0.0 ? 0.0 : x)
UNARY(u_round, nearbyint(x)) /* halves to even */
UNARY(u_selu, p->b *(x > 0.0 ? x : p->a * expm1(x)))
UNARY(u_shrink, x<-p->a ? x + p->b : x> p->a ? x - p->b : 0.0)
UNARY(u_sigmoid, 1.0 / (1.0 + exp(-x)))
UNARY(u_sign, x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x)
UNARY(u_sin, sin(x))
UNARY(u_sinh, sinh(x))
UNARY(u_softplus, softplus(x))
UNARY(u_softsign, x / (1.0 + fabs(x)))
UNARY(u_sqrt, sqrt(x))
UNARY(u_swish, x / (1.0 + exp(-p->a * x)))
UNARY(u_tan, tan(x))
UNARY(u_tanh, tanh(x))
UNARY(u_thresholded, x > p->a ? x : 0.0)

/* Per operator: function, first and second attribute with their defaults. */
struct unary_row {
    unary_f64 fn;
    enum attr_key a_key, b_key;
    float a, b;
};

static const struct unary_row rows[OP_COUNT] = {
    [OP_Abs] = {.fn = u_abs},
    [OP_Acos] = {.fn = u_acos},
    [OP_Acosh] = {.fn = u_acosh},
    [OP_Asin] = {.fn = u_asin},
    [OP_Asinh] = {.fn = u_asinh},
    [OP_Atan] = {.fn = u_atan},
    [OP_Atanh] = {.fn = u_atanh},
    [OP_Ceil] = {.fn = u_ceil},
    [OP_Celu] = {u_celu, ATTR_alpha, ATTR_NONE, 1.0f, 0.0f},
    [OP_Cos] = {.fn = u_cos},
    [OP_Cosh] = {.fn = u_cosh},
    [OP_Elu] = {u_elu, ATTR_alpha, ATTR_NONE, 1.0f, 0.0f},
    [OP_Erf] = {.fn = u_erf},
    [OP_Exp] = {.fn = u_exp},
    [OP_Floor] = {.fn = u_floor},
    [OP_Gelu] = {.fn = u_gelu},
    [OP_HardSigmoid] = {u_hard_sigmoid, ATTR_alpha, ATTR_beta, 0.2f, 0.5f},
    [OP_HardSwish] = {.fn = u_hard_swish},
    [OP_LeakyRelu] = {u_leaky, ATTR_alpha, ATTR_NONE, 0.01f, 0.0f},
    [OP_Log] = {.fn = u_log},
    [OP_Mish] = {.fn = u_mish},
    [OP_Neg] = {.fn = u_neg},
    [OP_Reciprocal] = {.fn = u_reciprocal},
    [OP_Relu] = {.fn = u_relu},
    [OP_Round] = {.fn = u_round},
    [OP_Selu] = {u_selu, ATTR_alpha, ATTR_gamma, 1.67326319217681884765625f, 1.05070102214813232421875f},
    [OP_Shrink] = {u_shrink, ATTR_lambd, ATTR_bias, 0.5f, 0.0f},
    [OP_Sigmoid] = {.fn = u_sigmoid},
    [OP_Sign] = {.fn = u_sign},
    [OP_Sin] = {.fn = u_sin},
    [OP_Sinh] = {.fn = u_sinh},
    [OP_Softplus] = {.fn = u_softplus},
    [OP_Softsign] = {.fn = u_softsign},
    [OP_Sqrt] = {.fn = u_sqrt},
    [OP_Swish] = {u_swish, ATTR_alpha, ATTR_NONE, 1.0f, 0.0f},
    [OP_Tan] = {.fn = u_tan},
    [OP_Tanh] = {.fn = u_tanh},
    [OP_ThresholdedRelu] = {u_thresholded, ATTR_alpha, ATTR_NONE, 1.0f, 0.0f},
};

static void map_f64(const struct rt_value *x, struct rt_value *y, unary_f64 fn, const struct unary_params *p,
                    const struct activation_fused *act)
{
    double block[ELEMENT_BLOCK];
    int64_t total = shape_elements(&x->shape);
    for (int64_t at = 0; at < total; at += ELEMENT_BLOCK) {
        int64_t n = total - at < ELEMENT_BLOCK ? total - at : ELEMENT_BLOCK;
        load_f64(x->data, x->dtype, at, 1, n, block);
        for (int64_t i = 0; i < n; i++) {
            block[i] = fn(block[i], p);
        }
        activation_apply(act, block, n);
        store_f64(y->data, y->dtype, at, 1, n, block);
    }
}

/* The few operators that integers have, exact for all 64 bits. */
static int64_t unary_i64(enum op op, int64_t x, bool is_unsigned)
{
    bool negative = x < 0 && !is_unsigned;
    switch (op) {
    case OP_Abs:
        return negative ? (int64_t)(0u - (uint64_t)x) : x;
    case OP_Neg:
        return (int64_t)(0u - (uint64_t)x);
    case OP_Relu:
        return negative ? 0 : x;
    case OP_Sign:
        return negative ? -1 : x != 0;
    case OP_BitwiseNot:
        return ~x;
    case OP_Not:
        return x == 0;
    default: /* Ceil, Floor, Round: integers are whole already */
        return x;
    }
}

static bool has_i64(enum op op)
{
    switch (op) {
    case OP_Abs:
    case OP_Neg:
    case OP_Relu:
    case OP_Sign:
    case OP_BitwiseNot:
    case OP_Not:
    case OP_Ceil:
    case OP_Floor:
    case OP_Round:
        return true;
    default:
        return false;
    }
}

static void map_i64(const struct rt_value *x, struct rt_value *y, enum op op)
{
    int64_t block[ELEMENT_BLOCK];
    int64_t total = shape_elements(&x->shape);
    bool is_unsigned = element_class(x->dtype) == ELEMENT_UNSIGNED;
    for (int64_t at = 0; at < total; at += ELEMENT_BLOCK) {
        int64_t n = total - at < ELEMENT_BLOCK ? total - at : ELEMENT_BLOCK;
        load_i64(x->data, x->dtype, at, 1, n, block);
        for (int64_t i = 0; i < n; i++) {
            block[i] = unary_i64(op, block[i], is_unsigned);
        }
        store_i64(y->data, y->dtype, at, 1, n, block);
    }
}

enum pen_status kernel_unary(struct kernel_call *k)
{
    const struct unary_row *row = &rows[k->n->op];
    struct activation_fused act = activation_of(k->n);
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status != PEN_OK) {
        return status;
    }
    if (element_class(k->in[0].dtype) != ELEMENT_FLOAT && has_i64(k->n->op)) {
        map_i64(&k->in[0], &k->out[0], k->n->op);
        return PEN_OK;
    }
    if (row->fn == NULL) {
        return kernel_fail(k, PEN_ERR_DTYPE, "not defined for %s", pen_dtype_name(k->in[0].dtype));
    }
    struct unary_params p = {(double)node_float(k->n, row->a_key, row->a),
                             (double)node_float(k->n, row->b_key, row->b)};
    bool by_tanh = k->n->op == OP_Gelu && node_text_is(k->n, ATTR_approximate, "tanh", false);
    map_f64(&k->in[0], &k->out[0], by_tanh ? u_gelu_tanh : row->fn, &p, &act);
    return PEN_OK;
}

/* Clip: y = min(max(x, low), high); each bound is optional. */
static void clip_i64(const struct kernel_call *k, bool is_unsigned)
{
    const struct rt_value *x = &k->in[0];
    int64_t total = shape_elements(&x->shape);
    bool has_low = kernel_has(k, 1), has_high = kernel_has(k, 2);
    int64_t low = has_low ? load_one_i64(k->in[1].data, k->in[1].dtype, 0) : 0;
    int64_t high = has_high ? load_one_i64(k->in[2].data, k->in[2].dtype, 0) : 0;
    for (int64_t i = 0; i < total; i++) {
        int64_t v = load_one_i64(x->data, x->dtype, i);
        v = has_low && (is_unsigned ? (uint64_t)v < (uint64_t)low : v < low) ? low : v;
        v = has_high && (is_unsigned ? (uint64_t)v > (uint64_t)high : v > high) ? high : v;
        store_one_i64(k->out[0].data, x->dtype, i, v);
    }
}

enum pen_status kernel_clip(struct kernel_call *k)
{
    struct activation_fused act = {.kind = ACT_NONE};
    enum pen_status status = kernel_output_like(k, 0, 0);
    for (uint32_t i = 1; i <= 2 && status == PEN_OK; i++) {
        if (kernel_has(k, i) && shape_elements(&k->in[i].shape) != 1) {
            return kernel_fail(k, PEN_ERR_SHAPE, "bound %u must be a scalar", i);
        }
    }
    if (status != PEN_OK) {
        return status;
    }
    if (element_class(k->in[0].dtype) != ELEMENT_FLOAT) {
        clip_i64(k, element_class(k->in[0].dtype) == ELEMENT_UNSIGNED);
        return PEN_OK;
    }
    struct unary_params p = {kernel_scalar(k, 1, -INFINITY), kernel_scalar(k, 2, INFINITY)};
    map_f64(&k->in[0], &k->out[0], u_clip, &p, &act);
    return PEN_OK;
}

/* IsNaN, IsInf: bool per element. */
enum pen_status kernel_is(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    bool positive = node_int(k->n, ATTR_detect_positive, 1) != 0,
         negative = node_int(k->n, ATTR_detect_negative, 1) != 0;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_BOOL, &x->shape);
    if (status != PEN_OK) {
        return status;
    }
    uint8_t *y = k->out[0].data;
    int64_t total = shape_elements(&x->shape);
    for (int64_t i = 0; i < total; i++) {
        double v = load_one_f64(x->data, x->dtype, i);
        bool infinite = isinf(v) && (v > 0.0 ? positive : negative);
        bool hit = k->n->op == OP_IsNaN ? isnan(v) : infinite;
        y[i] = hit ? 1 : 0;
    }
    return PEN_OK;
}
