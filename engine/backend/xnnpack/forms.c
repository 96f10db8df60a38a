#include "backend/xnnpack/forms.h"

#include <math.h>

/* Functions without parameters. */
static const uint8_t plain_fn[OP_COUNT] = {
    [OP_Abs] = UNARY_ABS,           [OP_Acos] = UNARY_ACOS,
    [OP_Acosh] = UNARY_ACOSH,       [OP_Asin] = UNARY_ASIN,
    [OP_Asinh] = UNARY_ASINH,       [OP_Atan] = UNARY_ATAN,
    [OP_Atanh] = UNARY_ATANH,       [OP_Ceil] = UNARY_CEIL,
    [OP_Cos] = UNARY_COS,           [OP_Cosh] = UNARY_COSH,
    [OP_Erf] = UNARY_ERF,           [OP_Exp] = UNARY_EXP,
    [OP_Floor] = UNARY_FLOOR,       [OP_HardSwish] = UNARY_HARDSWISH,
    [OP_Log] = UNARY_LOG,           [OP_Mish] = UNARY_MISH,
    [OP_Neg] = UNARY_NEG,           [OP_Reciprocal] = UNARY_RECIPROCAL,
    [OP_Relu] = UNARY_RELU,         [OP_Round] = UNARY_ROUND,
    [OP_Sigmoid] = UNARY_SIGMOID,   [OP_Sign] = UNARY_SIGN,
    [OP_Sin] = UNARY_SIN,           [OP_Sinh] = UNARY_SINH,
    [OP_Softplus] = UNARY_SOFTPLUS, [OP_Softsign] = UNARY_SOFTSIGN,
    [OP_Sqrt] = UNARY_SQRT,         [OP_Tan] = UNARY_TAN,
    [OP_Tanh] = UNARY_TANH,
};

struct unary_form unary_form_of(const struct node *n)
{
    struct unary_form u = {.fn = (enum unary_fn)plain_fn[n->op]};
    switch (n->op) {
    case OP_Clip:
        u = (struct unary_form){.fn = UNARY_CLAMP, .a = -INFINITY, .b = INFINITY, .limits = true};
        break;
    case OP_Celu:
        u = (struct unary_form){.fn = UNARY_CELU, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_Elu:
        u = (struct unary_form){.fn = UNARY_ELU, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_Gelu:
        u.fn = node_text_is(n, ATTR_approximate, "tanh", false) ? UNARY_GELU_TANH : UNARY_GELU;
        break;
    case OP_HardSigmoid:
        u = (struct unary_form){
            .fn = UNARY_HARDSIGMOID, .a = node_float(n, ATTR_alpha, 0.2f), .b = node_float(n, ATTR_beta, 0.5f)};
        break;
    case OP_LeakyRelu:
        u = (struct unary_form){.fn = UNARY_LEAKY, .a = node_float(n, ATTR_alpha, 0.01f)};
        break;
    case OP_Selu:
        u = (struct unary_form){
            .fn = UNARY_SELU, .a = node_float(n, ATTR_alpha, 1.67326319f), .b = node_float(n, ATTR_gamma, 1.05070102f)};
        break;
    case OP_Shrink: /* y = x - bias beyond lambda: our loop adds its first parameter below -lambda */
        u = (struct unary_form){
            .fn = UNARY_SHRINK, .a = node_float(n, ATTR_bias, 0.0f), .b = node_float(n, ATTR_lambd, 0.5f)};
        break;
    case OP_Swish:
        u = (struct unary_form){.fn = UNARY_SWISH, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_ThresholdedRelu:
        u = (struct unary_form){.fn = UNARY_THRESHOLD, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    default:
        break;
    }
    return u;
}

/* A limit of Clip that is known; absent ones stay as they are. */
static bool limit_of(const struct shape_env *env, const struct node *n, uint32_t input, float *limit)
{
    const struct fact *f = input < n->in_count && n->in[input] != VALUE_NONE ? &env->facts[n->in[input]] : NULL;
    if (f != NULL && f->data != NULL && shape_elements(&f->shape) == 1) {
        *limit = *(const float *)f->data;
    }
    return f == NULL || (f->data != NULL && shape_elements(&f->shape) == 1);
}

bool unary_form_known(const struct shape_env *env, const struct node *n, struct unary_form *ret_form)
{
    struct unary_form u = unary_form_of(n);
    bool known = u.fn != UNARY_NONE && (!u.limits || (limit_of(env, n, 1, &u.a) && limit_of(env, n, 2, &u.b)));
    *ret_form = u;
    return known;
}

bool binary_fn_of(const struct node *n, enum binary_fn *ret_fn)
{
    static const struct {
        enum op op;
        enum binary_fn fn;
    } rows[] = {{OP_Add, BINARY_ADD}, {OP_Sub, BINARY_SUB},     {OP_Mul, BINARY_MUL}, {OP_Div, BINARY_DIV},
                {OP_Max, BINARY_MAX}, {OP_Min, BINARY_MIN},     {OP_Sum, BINARY_ADD}, {OP_Mean, BINARY_ADD},
                {OP_Pow, BINARY_POW}, {OP_PRelu, BINARY_PRELU}, {OP_Mod, BINARY_FMOD}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == n->op) {
            *ret_fn = n->op == OP_Mod && node_int(n, ATTR_fmod, 0) == 0 ? BINARY_MOD : rows[i].fn;
            return true;
        }
    }
    return false;
}
