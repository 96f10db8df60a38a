#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/chain.h"
#include "backend/vulkan/ops/epilogue.h"
#include "backend/vulkan/ops/integer.h"
#include "backend/vulkan/ops/ops.h"

#include <math.h>

/*
 * Element-wise operators. A node whose only reader is element-wise too, of the same shape, waits for it: both become steps of one dispatch (at most six steps,
 * four inputs).
 */
struct row {
    uint32_t code;
    enum attr_key a_key, b_key;
    float a, b;
    bool boolean; /* inputs and output are bool */
    bool compare; /* f32 inputs, bool output */
    bool operand; /* takes the node's other inputs */
};

#define UNARY(code_)                                                                                                   \
    {                                                                                                                  \
        .code = code_                                                                                                  \
    }
static const struct row rows[OP_COUNT] = {
    [OP_Abs] = UNARY(EW_ABS),
    [OP_Acos] = UNARY(EW_ACOS),
    [OP_Acosh] = UNARY(EW_ACOSH),
    [OP_Asin] = UNARY(EW_ASIN),
    [OP_Asinh] = UNARY(EW_ASINH),
    [OP_Atan] = UNARY(EW_ATAN),
    [OP_Atanh] = UNARY(EW_ATANH),
    [OP_Ceil] = UNARY(EW_CEIL),
    [OP_Celu] = {.code = EW_CELU, .a_key = ATTR_alpha, .a = 1.0f},
    [OP_Clip] = UNARY(EW_CLIP),
    [OP_Cos] = UNARY(EW_COS),
    [OP_Cosh] = UNARY(EW_COSH),
    [OP_Elu] = {.code = EW_ELU, .a_key = ATTR_alpha, .a = 1.0f},
    [OP_Erf] = UNARY(EW_ERF),
    [OP_Exp] = UNARY(EW_EXP),
    [OP_Floor] = UNARY(EW_FLOOR),
    [OP_Gelu] = UNARY(EW_GELU),
    [OP_HardSigmoid] = {.code = EW_HARD_SIGMOID, .a_key = ATTR_alpha, .b_key = ATTR_beta, .a = 0.2f, .b = 0.5f},
    [OP_HardSwish] = UNARY(EW_HARD_SWISH),
    [OP_LeakyRelu] = {.code = EW_LEAKY, .a_key = ATTR_alpha, .a = 0.01f},
    [OP_Log] = UNARY(EW_LOG),
    [OP_Mish] = UNARY(EW_MISH),
    [OP_Neg] = UNARY(EW_NEG),
    [OP_Reciprocal] = UNARY(EW_RECIPROCAL),
    [OP_Relu] = UNARY(EW_RELU),
    [OP_Round] = UNARY(EW_ROUND),
    [OP_Selu] = {.code = EW_SELU, .a_key = ATTR_alpha, .b_key = ATTR_gamma, .a = 1.67326319f, .b = 1.05070102f},
    [OP_Shrink] = {.code = EW_SHRINK, .a_key = ATTR_lambd, .b_key = ATTR_bias, .a = 0.5f},
    [OP_Sigmoid] = UNARY(EW_SIGMOID),
    [OP_Sign] = UNARY(EW_SIGN),
    [OP_Sin] = UNARY(EW_SIN),
    [OP_Sinh] = UNARY(EW_SINH),
    [OP_Softplus] = UNARY(EW_SOFTPLUS),
    [OP_Softsign] = UNARY(EW_SOFTSIGN),
    [OP_Sqrt] = UNARY(EW_SQRT),
    [OP_Swish] = {.code = EW_SWISH, .a_key = ATTR_alpha, .a = 1.0f},
    [OP_Tan] = UNARY(EW_TAN),
    [OP_Tanh] = UNARY(EW_TANH),
    [OP_ThresholdedRelu] = {.code = EW_THRESHOLDED, .a_key = ATTR_alpha, .a = 1.0f},
    [OP_IsNaN] = {.code = EW_IS_NAN, .compare = true},
    [OP_IsInf] = {.code = EW_IS_INF,
                  .a_key = ATTR_detect_negative,
                  .b_key = ATTR_detect_positive,
                  .a = 1.0f,
                  .b = 1.0f,
                  .compare = true},
    [OP_Not] = {.code = EW_NOT, .boolean = true},
    [OP_Cast] = UNARY(EW_NONE),

    [OP_Add] = {.code = EW_ADD, .operand = true},
    [OP_Sub] = {.code = EW_SUB, .operand = true},
    [OP_Mul] = {.code = EW_MUL, .operand = true},
    [OP_Div] = {.code = EW_DIV, .operand = true},
    [OP_Max] = {.code = EW_MAX, .operand = true},
    [OP_Min] = {.code = EW_MIN, .operand = true},
    [OP_Sum] = {.code = EW_ADD, .operand = true},
    [OP_Mean] = {.code = EW_ADD, .operand = true},
    [OP_Pow] = {.code = EW_POW, .operand = true},
    [OP_PRelu] = {.code = EW_PRELU, .operand = true},
    [OP_Mod] = {.code = EW_MOD_TRUNC, .operand = true},
    [OP_Equal] = {.code = EW_EQUAL, .operand = true, .compare = true},
    [OP_Greater] = {.code = EW_GREATER, .operand = true, .compare = true},
    [OP_GreaterOrEqual] = {.code = EW_GREATER_EQUAL, .operand = true, .compare = true},
    [OP_Less] = {.code = EW_LESS, .operand = true, .compare = true},
    [OP_LessOrEqual] = {.code = EW_LESS_EQUAL, .operand = true, .compare = true},
    [OP_And] = {.code = EW_AND, .operand = true, .boolean = true},
    [OP_Or] = {.code = EW_OR, .operand = true, .boolean = true},
    [OP_Xor] = {.code = EW_XOR, .operand = true, .boolean = true},
    [OP_Where] = {.code = EW_WHERE, .operand = true},
};

/* ---- supports ---- */

static bool inputs_are(const struct graph *g, const struct node *n, uint32_t from, enum pen_dtype dtype)
{
    for (uint32_t i = from; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->dtype != dtype) {
            return false;
        }
    }
    return true;
}

static bool ranks_fit(const struct graph *g, const struct node *n)
{
    const struct value *y = node_out(g, n, 0);
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->shape.rank > y->shape.rank) {
            return false; /* PRelu's slope may have a higher rank than x; only of ones, but then reference knows what it means */
        }
    }
    return y->shape.rank <= EW_RANK_MAX && n->in_count <= EW_INPUTS_MAX;
}

static bool types_fit(const struct graph *g, const struct node *n)
{
    const struct row *row = &rows[n->op];
    enum pen_dtype out = node_out(g, n, 0)->dtype;
    if (row->boolean) {
        return out == PEN_DTYPE_BOOL && inputs_are(g, n, 0, PEN_DTYPE_BOOL);
    }
    if (row->compare) {
        bool equal = n->op == OP_Equal && inputs_are(g, n, 0, PEN_DTYPE_BOOL);
        return out == PEN_DTYPE_BOOL && (equal || inputs_are(g, n, 0, PEN_DTYPE_F32));
    }
    if (n->op == OP_Where) {
        return vk_dtype_is(node_in(g, n, 0), PEN_DTYPE_BOOL) && inputs_are(g, n, 1, PEN_DTYPE_F32);
    }
    if (n->op == OP_Pow) {
        const struct value *e = node_in(g, n, 1);
        return vk_dtype_is(node_in(g, n, 0), PEN_DTYPE_F32) &&
               (e->dtype == PEN_DTYPE_F32 || e->dtype == PEN_DTYPE_I32 || e->dtype == PEN_DTYPE_I64);
    }
    return vk_all_f32(g, n);
}

static bool elementwise_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (vk_integer_takes(g, n)) {
        return vk_integer_supports(g, n, ret_reason);
    }
    if (!types_fit(g, n)) {
        return vk_refuse(ret_reason, rows[n->op].boolean ? "only bool" : "only f32");
    }
    if (n->op == OP_Mod && node_int(n, ATTR_fmod, 0) == 0) {
        return vk_refuse(ret_reason, "only fmod");
    }
    return ranks_fit(g, n) || vk_refuse(ret_reason, "more than four inputs or six dims");
}

static bool small_integer(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_BOOL || dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

/* Between these words are moved, not numbers. */
static bool integer_words(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_I32 || dtype == PEN_DTYPE_I64;
}

/* Numbers pass through f32: between wide integers that is not exact. */
static bool cast_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    enum pen_dtype from = node_in(g, n, 0)->dtype, to = node_out(g, n, 0)->dtype;
    if ((from == PEN_DTYPE_F16 && to == PEN_DTYPE_F32) || (from == PEN_DTYPE_F32 && to == PEN_DTYPE_F16)) {
        return true;
    }
    if (integer_words(from) && integer_words(to)) {
        return true;
    }
    if (vk_integer_takes(g, n)) {
        return vk_integer_supports(g, n, ret_reason);
    }
    bool fits = vk_chain_kind(from) != UINT32_MAX && vk_chain_kind(to) != UINT32_MAX;
    if (!fits || (!small_integer(from) && to != PEN_DTYPE_F32 && to != PEN_DTYPE_BOOL)) {
        return vk_refuse(ret_reason, "a conversion that f32 cannot hold");
    }
    return ranks_fit(g, n) || vk_refuse(ret_reason, "more than six dims");
}

/* ---- steps ---- */

static uint32_t input_add(struct vk_build *b, struct vk_chain *c, const struct node *n, uint32_t index)
{
    const struct fact *f = &b->env->facts[n->in[index]];
    return vk_chain_input(c, vk_value_cell(b, n->in[index]), &f->shape, vk_chain_kind(f->dtype));
}

/* A bound of Clip; *ret_known is false for one that is computed. */
static float bound_read(const struct vk_build *b, const struct node *n, uint32_t index, float def, bool *ret_known)
{
    if (index >= n->in_count || n->in[index] == VALUE_NONE) {
        return def;
    }
    const struct fact *f = &b->env->facts[n->in[index]];
    *ret_known = *ret_known && f->data != NULL;
    return f->data != NULL ? *(const float *)f->data : def;
}

static void clip_steps(struct vk_build *b, struct vk_chain *c, const struct node *n)
{
    bool known = true;
    float low = bound_read(b, n, 1, -INFINITY, &known), high = bound_read(b, n, 2, INFINITY, &known);
    if (known) {
        vk_chain_step(c, EW_CLIP, 0, low, high);
        return;
    }
    for (uint32_t i = 1; i < 3 && i < n->in_count; i++) {
        if (n->in[i] != VALUE_NONE) {
            vk_chain_step(c, i == 1 ? EW_CLAMP_MIN : EW_CLAMP_MAX, input_add(b, c, n, i), 0.0f, 0.0f);
        }
    }
}

static void unary_step(struct vk_chain *c, const struct node *n)
{
    const struct row *row = &rows[n->op];
    uint32_t code = n->op == OP_Gelu && node_text_is(n, ATTR_approximate, "tanh", false) ? EW_GELU_TANH : row->code;
    float a = row->a, b = row->b;
    if (row->a_key != ATTR_NONE) {
        a = n->op == OP_IsInf ? (float)node_int(n, row->a_key, 1) : node_float(n, row->a_key, a);
    }
    if (row->b_key != ATTR_NONE) {
        b = n->op == OP_IsInf ? (float)node_int(n, row->b_key, 1) : node_float(n, row->b_key, b);
    }
    if (code != EW_NONE) {
        vk_chain_step(c, code, 0, a, b);
    }
}

/* The node's steps on x, which is its input `x_index`. */
static void node_steps(struct vk_build *b, struct vk_chain *c, const struct node *n, uint32_t x_index)
{
    const struct row *row = &rows[n->op];
    struct vk_act act = vk_act_read(n);
    if (n->op == OP_Clip) {
        clip_steps(b, c, n);
    } else if (n->op == OP_Where) {
        uint32_t yes = input_add(b, c, n, 1), no = input_add(b, c, n, 2);
        vk_chain_step(c, EW_WHERE, yes | no << 4, 0.0f, 0.0f);
    } else if (!row->operand) {
        unary_step(c, n);
    } else {
        for (uint32_t i = 0; i < n->in_count; i++) {
            if (i != x_index) {
                uint32_t swap = i < x_index ? EW_SWAP : 0;
                vk_chain_step(c, row->code | swap, input_add(b, c, n, i), 0.0f, 0.0f);
            }
        }
        if (n->op == OP_Mean) {
            vk_chain_step(c, EW_SCALE, 0, 1.0f / (float)n->in_count, 0.0f);
        }
    }
    vk_chain_act(c, &act);
}

/* ---- chains ---- */

/* Which input of `n` is this value. */
static uint32_t place_of(const struct node *n, uint32_t value)
{
    uint32_t i = 0;
    while (n->in[i] != value) {
        i++;
    }
    return i;
}

/* The nodes that end in `n`, the first of them first: those that wait for their reader. */
static uint32_t chain_nodes(const struct vk_build *b, const struct node *n, const struct node **nodes)
{
    const struct node *back[EW_STEPS_MAX + 1];
    uint32_t count = 0;
    for (const struct node *at = n; at != NULL && count <= EW_STEPS_MAX;) {
        const struct node *before = NULL;
        back[count++] = at;
        for (uint32_t i = 0; i < at->in_count; i++) {
            if (at->in[i] != VALUE_NONE && vk_deferred(b, at->in[i])) {
                before = &b->g->nodes[b->g->values[at->in[i]].producer];
            }
        }
        at = before;
    }
    for (uint32_t i = 0; i < count; i++) {
        nodes[i] = back[count - 1 - i];
    }
    return count;
}

static void chain_make(struct vk_build *b, const struct node *const *nodes, uint32_t count, struct vk_chain *c)
{
    vk_chain_init(c, &b->env->facts[nodes[count - 1]->out[0]].shape);
    input_add(b, c, nodes[0], 0);
    for (uint32_t i = 0; i < count; i++) {
        node_steps(b, c, nodes[i], i == 0 ? 0 : place_of(nodes[i], nodes[i - 1]->out[0]));
    }
}

/* Steps and inputs that a node adds to a chain. */
static uint32_t step_bound(const struct node *n)
{
    uint32_t own = n->op == OP_Clip ? 2 : rows[n->op].operand ? n->in_count - 1 : 1;
    return own + (n->op == OP_Mean) + (node_int(n, ATTR_act, ACT_NONE) != ACT_NONE);
}

static bool room_for(const struct vk_build *b, const struct node *n, const struct node *next)
{
    const struct node *nodes[EW_STEPS_MAX + 1];
    uint32_t count = chain_nodes(b, n, nodes), steps = step_bound(next), inputs = 1 + next->in_count - 1;
    if (vk_epilogue_first(nodes[0])) {
        return vk_epilogue_takes(b, nodes, count, next);
    }
    for (uint32_t i = 0; i < count; i++) {
        steps += step_bound(nodes[i]);
        inputs += nodes[i]->in_count - 1;
    }
    return count < EW_STEPS_MAX && steps <= EW_STEPS_MAX && inputs <= EW_INPUTS_MAX;
}

/* May `n` become a step of its reader? */
static bool can_wait(const struct vk_build *b)
{
    const struct node *n = b->n, *next = vk_user(b, n->out[0]);
    const struct fact *f = vk_out(b, 0);
    if (vk_build_apart(b) || next == NULL || !vk_alike(b, next) || vk_op_find(next->op) == NULL ||
        rows[next->op].code + (next->op == OP_Cast) == 0 || f->dtype != PEN_DTYPE_F32 ||
        !shape_equal(&f->shape, &b->env->facts[next->out[0]].shape)) {
        return false;
    }
    uint32_t at = place_of(next, n->out[0]);
    if ((next->op == OP_Where && at != 0) || (next->op == OP_Clip && at != 0)) {
        return false;
    }
    if (next->op == OP_Cast && vk_chain_kind(b->env->facts[next->out[0]].dtype) == UINT32_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < next->in_count; i++) {
        if (i != at && next->in[i] != VALUE_NONE && vk_deferred(b, next->in[i])) {
            return false;
        }
    }
    return room_for(b, n, next);
}

static void elementwise_build(struct vk_build *b)
{
    const struct node *nodes[EW_STEPS_MAX + 1];
    struct vk_chain c;
    if (vk_integer_takes(b->g, b->n)) {
        vk_integer_build(b);
        return;
    }
    if (can_wait(b)) {
        vk_defer(b);
        return;
    }
    uint32_t count = chain_nodes(b, b->n, nodes);
    if (vk_epilogue_first(nodes[0])) {
        vk_epilogue_build(b, nodes, count);
        return;
    }
    chain_make(b, nodes, count, &c);
    vk_chain_dispatch(b, &c, vk_out_cell(b, 0), vk_chain_kind(vk_out(b, 0)->dtype));
}

/* i64 to i32 keeps the low words; i32 to i64 adds the signs. */
static void words_build(struct vk_build *b, enum pen_dtype from, enum pen_dtype to)
{
    size_t count = vk_elements(vk_in(b, 0));
    if (from == to) {
        vk_view(b, 0);
    } else if (to == PEN_DTYPE_I32) {
        struct vk_box low = {.rank = 1, .dim = {count}, .x_step = {2}, .y_step = {1}};
        vk_box_copy(b, &low, vk_out_cell(b, 0), vk_in_cell(b, 0), 4);
    } else {
        struct vk_work *w = vk_dispatch(b, SHADER_widen_i32);
        vk_bind(w, vk_in_cell(b, 0), VK_READ);
        vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
        vk_push(w, count);
        vk_items(w, count);
    }
}

/* Between f16 and f32 two elements make a word; where floats are stored as f16 there is nothing to do. */
static void cast_build(struct vk_build *b)
{
    enum pen_dtype from = vk_in(b, 0)->dtype, to = vk_out(b, 0)->dtype;
    bool narrow = to == PEN_DTYPE_F16;
    if (integer_words(from) && integer_words(to)) {
        words_build(b, from, to);
        return;
    }
    if (from != PEN_DTYPE_F16 && !narrow) {
        elementwise_build(b);
    } else if (vk_build_f16(b)) {
        vk_view(b, 0);
    } else {
        struct vk_work *w = vk_dispatch(b, narrow ? SHADER_narrow : SHADER_widen);
        vk_bind(w, vk_in_cell(b, 0), VK_READ);
        vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
        vk_push(w, vk_elements(vk_in(b, 0)));
        vk_items(w, (vk_elements(vk_in(b, 0)) + 1) / 2);
    }
}

const struct vk_op vk_op_elementwise = {elementwise_supports, NULL, elementwise_build};
const struct vk_op vk_op_cast = {cast_supports, NULL, cast_build};
