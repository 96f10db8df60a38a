#include "backend/vulkan/ops/integer.h"

#include "backend/vulkan/ops/chain.h"

static const struct {
    enum op op;
    uint32_t code;
    bool operand, compare;
} rows[] = {
    {OP_Add, EW_ADD, true, false},         {OP_Sub, EW_SUB, true, false},
    {OP_Mul, EW_MUL, true, false},         {OP_Div, EW_DIV, true, false},
    {OP_Mod, EW_MOD_FLOOR, true, false},   {OP_Max, EW_MAX, true, false},
    {OP_Min, EW_MIN, true, false},         {OP_Sum, EW_ADD, true, false},
    {OP_BitwiseAnd, EW_AND, true, false},  {OP_BitwiseOr, EW_OR, true, false},
    {OP_BitwiseXor, EW_XOR, true, false},  {OP_Equal, EW_EQUAL, true, true},
    {OP_Greater, EW_GREATER, true, true},  {OP_GreaterOrEqual, EW_GREATER_EQUAL, true, true},
    {OP_Less, EW_LESS, true, true},        {OP_LessOrEqual, EW_LESS_EQUAL, true, true},
    {OP_Abs, EW_ABS, false, false},        {OP_Neg, EW_NEG, false, false},
    {OP_Sign, EW_SIGN, false, false},      {OP_Relu, EW_RELU, false, false},
    {OP_BitwiseNot, EW_NOT, false, false}, {OP_Cast, EW_NONE, false, false},
    {OP_CastLike, EW_NONE, false, false},  {OP_Clip, EW_CLIP, false, false},
    {OP_Where, EW_WHERE, false, false},
};

static int row_of(enum op op)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == op) {
            return (int)i;
        }
    }
    return -1;
}

/* UINT32_MAX: not whole, or elements that a shader cannot address one by one everywhere. */
static uint32_t kind_of(enum pen_dtype dtype)
{
    if (dtype == PEN_DTYPE_U32 || dtype == PEN_DTYPE_U64) {
        return dtype == PEN_DTYPE_U32 ? EW_U32 : EW_U64;
    }
    return dtype == PEN_DTYPE_F32 ? UINT32_MAX : vk_chain_kind(dtype);
}

/* Inputs that are numbers of the computation; the second one of CastLike only lends its type. */
static uint32_t inputs_of(const struct node *n)
{
    return n->op == OP_CastLike ? 1 : n->in_count;
}

bool vk_integer_takes(const struct graph *g, const struct node *n)
{
    const struct value *y = node_out(g, n, 0);
    bool whole = row_of(n->op) >= 0 && kind_of(y->dtype) != UINT32_MAX, number = y->dtype != PEN_DTYPE_BOOL;
    for (uint32_t i = 0; i < inputs_of(n); i++) {
        const struct value *v = node_in(g, n, i);
        whole = whole && (v == NULL || kind_of(v->dtype) != UINT32_MAX);
        number = number || (v != NULL && v->dtype != PEN_DTYPE_BOOL);
    }
    return whole && (number || n->op == OP_Where);
}

static bool has_zero(const struct value *v)
{
    size_t size = pen_dtype_bits(v->dtype) / 8;
    const uint8_t *at = v->data;
    for (size_t i = 0; i + size <= v->bytes; i += size) {
        bool zero = true;
        for (size_t k = 0; k < size; k++) {
            zero = zero && at[i + k] == 0;
        }
        if (zero) {
            return true;
        }
    }
    return false;
}

bool vk_integer_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *y = node_out(g, n, 0);
    for (uint32_t i = 0; i < inputs_of(n); i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->shape.rank > y->shape.rank) {
            return vk_refuse(ret_reason, "an input of more dims than the output");
        }
    }
    if ((n->op == OP_Div || n->op == OP_Mod) && (!vk_constant(g, n, 1) || has_zero(node_in(g, n, 1)))) {
        return vk_refuse(ret_reason, "whole numbers divided by what is computed, or by zero");
    }
    return (y->shape.rank <= EW_RANK_MAX && n->in_count <= EW_INPUTS_MAX) ||
           vk_refuse(ret_reason, "more than four inputs or six dims");
}

static uint32_t input_add(struct vk_build *b, struct vk_chain *c, uint32_t index)
{
    const struct fact *f = vk_in(b, index);
    return vk_chain_input(c, vk_in_cell(b, index), &f->shape, kind_of(f->dtype));
}

void vk_integer_build(struct vk_build *b)
{
    const struct node *n = b->n;
    int row = row_of(n->op);
    uint32_t code = n->op == OP_Mod && node_int(n, ATTR_fmod, 0) != 0 ? EW_MOD_TRUNC : rows[row].code;
    struct vk_chain c;
    vk_chain_init(&c, &vk_out(b, 0)->shape);
    c.whole = true;
    input_add(b, &c, 0);
    if (n->op == OP_Where) {
        uint32_t yes = input_add(b, &c, 1), no = input_add(b, &c, 2);
        vk_chain_step(&c, EW_WHERE, yes | no << 4, 0.0f, 0.0f);
    } else if (n->op == OP_Clip) {
        for (uint32_t i = 1; i < n->in_count; i++) {
            if (vk_in(b, i) != NULL) {
                vk_chain_step(&c, i == 1 ? EW_CLAMP_MIN : EW_CLAMP_MAX, input_add(b, &c, i), 0.0f, 0.0f);
            }
        }
    } else if (!rows[row].operand) {
        vk_chain_step(&c, code, 0, 0.0f, 0.0f);
    }
    for (uint32_t i = 1; rows[row].operand && i < n->in_count; i++) {
        vk_chain_step(&c, code, input_add(b, &c, i), 0.0f, 0.0f);
    }
    vk_chain_dispatch(b, &c, vk_out_cell(b, 0), kind_of(vk_out(b, 0)->dtype));
}
