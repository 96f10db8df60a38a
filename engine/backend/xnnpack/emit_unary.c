#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/* Element-wise with one data input, f32. */
struct unary {
    enum unary_fn fn;
    float a, b;
    bool limits; /* Clip: a and b come from inputs 1 and 2 */
    size_t count;
    struct act act;
};

struct unary_job {
    const struct unary *u;
    const float *x;
    float *y;
    float a, b;
};

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

static struct unary read(const struct node *n)
{
    struct unary u = {.fn = (enum unary_fn)plain_fn[n->op]};
    switch (n->op) {
    case OP_Clip:
        u = (struct unary){.fn = UNARY_CLAMP, .a = -INFINITY, .b = INFINITY, .limits = true};
        break;
    case OP_Celu:
        u = (struct unary){.fn = UNARY_CELU, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_Elu:
        u = (struct unary){.fn = UNARY_ELU, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_Gelu:
        u.fn = node_text_is(n, ATTR_approximate, "tanh", false) ? UNARY_GELU_TANH : UNARY_GELU;
        break;
    case OP_HardSigmoid:
        u = (struct unary){
            .fn = UNARY_HARDSIGMOID, .a = node_float(n, ATTR_alpha, 0.2f), .b = node_float(n, ATTR_beta, 0.5f)};
        break;
    case OP_LeakyRelu:
        u = (struct unary){.fn = UNARY_LEAKY, .a = node_float(n, ATTR_alpha, 0.01f)};
        break;
    case OP_Selu:
        u = (struct unary){
            .fn = UNARY_SELU, .a = node_float(n, ATTR_alpha, 1.67326319f), .b = node_float(n, ATTR_gamma, 1.05070102f)};
        break;
    case OP_Shrink: /* y = x - bias beyond lambda: our loop adds its first parameter below -lambda */
        u = (struct unary){
            .fn = UNARY_SHRINK, .a = node_float(n, ATTR_bias, 0.0f), .b = node_float(n, ATTR_lambd, 0.5f)};
        break;
    case OP_Swish:
        u = (struct unary){.fn = UNARY_SWISH, .a = node_float(n, ATTR_alpha, 1.0f)};
        break;
    case OP_ThresholdedRelu:
        u = (struct unary){.fn = UNARY_THRESHOLD, .a = node_float(n, ATTR_alpha, 1.0f)};
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

bool unary_fn_of(const struct shape_env *env, const struct node *n, enum unary_fn *ret_fn, float *ret_a, float *ret_b)
{
    struct unary u = read(n);
    *ret_fn = u.fn;
    bool known = u.fn != UNARY_NONE && (!u.limits || (limit_of(env, n, 1, &u.a) && limit_of(env, n, 2, &u.b)));
    *ret_a = u.a;
    *ret_b = u.b;
    return known;
}

static bool unary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (node_in(g, n, 0) != NULL && unary_int_takes(node_in(g, n, 0)->dtype, n->op) && node_int(n, ATTR_act, 0) == 0) {
        return true;
    }
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    return read(n).fn != UNARY_NONE || refuse(ret_reason, "no such function");
}

static void unary_task(void *context, size_t unit)
{
    const struct unary_job *j = context;
    size_t from = unit * CHUNK;
    size_t n = j->u->count - from < CHUNK ? j->u->count - from : CHUNK;
    isa_own()->unary(j->u->fn, j->x + from, j->y + from, n, j->a, j->b);
}

static enum pen_status unary_run(struct step *s, struct run *r)
{
    const struct unary *u = s->state;
    struct unary_job j = {u, s->in[0], s->out[0], u->a, u->b};
    if (u->limits) {
        j.a = s->n->in_count > 1 && s->in[1] != NULL ? *(const float *)s->in[1] : -INFINITY;
        j.b = s->n->in_count > 2 && s->in[2] != NULL ? *(const float *)s->in[2] : INFINITY;
    }
    parallel(r, unary_task, &j, (u->count + CHUNK - 1) / CHUNK);
    act_all(&u->act, s->out[0], u->count, r);
    return PEN_OK;
}

static enum pen_status unary_build(struct build *b)
{
    if (unary_int_takes(build_in(b, 0)->dtype, b->n->op)) {
        return unary_int_build(b);
    }
    struct unary *u = build_alloc(b, sizeof *u);
    if (u == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *u = read(b->n);
    u->count = (size_t)shape_elements(&build_out(b, 0)->shape);
    u->act = act_read(b->n);
    for (uint32_t i = 1; i < b->n->in_count; i++) {
        if (build_in(b, i) != NULL && shape_elements(&build_in(b, i)->shape) != 1) {
            return build_fail(b, PEN_ERR_SHAPE, "a limit is not one number");
        }
    }
    if (shape_elements(&build_in(b, 0)->shape) != (int64_t)u->count) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
    }
    b->inplace = 1;
    b->step->state = u;
    b->step->run = unary_run;
    return PEN_OK;
}

const struct emitter emit_unary = {unary_supports, NULL, unary_build};
