/* Formulas spelled out by exporters, back to the operator they mean. Each starts at the last node of the formula. */
#include <math.h>

#include "graph/fuse.h"

bool fuse_near(float a, double b)
{
    return fabs((double)a - b) <= 1e-5 * (fabs(b) + 1e-3);
}

/* A binary node's input that is a constant scalar near `want`; gives the other input. */
static bool with_scalar(const struct rewrite *r, const struct node *n, double want, uint32_t *ret_other)
{
    for (uint32_t k = 0; k < 2; k++) {
        float item;
        if (rewrite_scalar(r, n->in[k], &item) && fuse_near(item, want)) {
            *ret_other = n->in[1 - k];
            return true;
        }
    }
    return false;
}

bool fuse_plain(const struct node *n)
{
    return n && node_int(n, ATTR_act, ACT_NONE) == ACT_NONE;
}

bool fuse_become(struct rewrite *r, uint32_t last, enum op op, const uint32_t *in, uint32_t count)
{
    /* A constant of the formula with more dims than its input gives them to the result; the operator would not. */
    if (rewrite_fact(r, in[0])->shape.rank != rewrite_fact(r, r->g->nodes[last].out[0])->shape.rank)
        return false;
    uint32_t out = rewrite_node(r, op, r->g->nodes[last].name, in, count);
    if (r->status != PEN_OK)
        return false;
    rewrite_absorb(r, r->g->values[out].producer, last);
    return true;
}

/* ---- x * sigmoid(x) ------------------------------------------------------------------------------------------------ */

bool fuse_swish(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    if (n->op != OP_Mul || !fuse_plain(n) || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *gate = rewrite_only_maker(r, n->in[k], OP_Sigmoid);
        const struct node *hard = rewrite_only_maker(r, n->in[k], OP_HardSigmoid);
        uint32_t x = n->in[1 - k];
        if (gate && gate->in[0] == x)
            return fuse_become(r, node, OP_Swish, &x, 1);
        if (hard && hard->in[0] == x && fuse_near(node_float(hard, ATTR_alpha, 0.2f), 1.0 / 6.0) &&
            fuse_near(node_float(hard, ATTR_beta, 0.5f), 0.5))
            return fuse_become(r, node, OP_HardSwish, &x, 1);
    }
    return false;
}

/* ---- x * clip(x + 3, 0, 6) / 6, the factor anywhere ------------------------------------------------------------------- */

static bool is_gate(const struct rewrite *r, uint32_t value, uint32_t x)
{
    const struct node *clip = rewrite_only_maker(r, value, OP_Clip);
    float low = -1, high = -1;
    uint32_t inner;
    const struct node *add;
    if (clip) {
        if (clip->in_count < 3 || !rewrite_scalar(r, clip->in[1], &low) || !rewrite_scalar(r, clip->in[2], &high))
            return false;
        add = rewrite_only_maker(r, clip->in[0], OP_Add);
    } else { /* the clip was fused into the addition already */
        add = rewrite_only_maker(r, value, OP_Add);
        if (!add || node_int(add, ATTR_act, ACT_NONE) != ACT_CLAMP)
            return false;
        low = node_float(add, ATTR_act_min, -1);
        high = node_float(add, ATTR_act_max, -1);
    }
    return add && fuse_near(low, 0) && fuse_near(high, 6) && (clip ? fuse_plain(add) : true) &&
           with_scalar(r, add, 3, &inner) && inner == x;
}

/* x * gate, not scaled yet. */
static bool gated(const struct rewrite *r, const struct node *n, uint32_t *ret_x)
{
    for (uint32_t k = 0; n && n->op == OP_Mul && fuse_plain(n) && k < 2; k++) {
        if (is_gate(r, n->in[k], n->in[1 - k])) {
            *ret_x = n->in[1 - k];
            return true;
        }
    }
    return false;
}

/* v / 6 or v * (1/6); gives v. */
static bool sixth(const struct rewrite *r, const struct node *n, uint32_t *ret_value)
{
    float item;
    if (!fuse_plain(n))
        return false;
    if (n->op == OP_Div && rewrite_scalar(r, n->in[1], &item) && fuse_near(item, 6)) {
        *ret_value = n->in[0];
        return true;
    }
    return n->op == OP_Mul && with_scalar(r, n, 1.0 / 6.0, ret_value);
}

bool fuse_hard_swish(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    uint32_t inner, x;
    if ((n->op != OP_Mul && n->op != OP_Div) || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32)
        return false;
    if (sixth(r, n, &inner) && gated(r, rewrite_only_maker(r, inner, OP_Mul), &x))
        return fuse_become(r, node, OP_HardSwish, &x, 1);
    for (uint32_t k = 0; n->op == OP_Mul && fuse_plain(n) && k < 2; k++) { /* x * (gate / 6) */
        struct node *scaled = rewrite_only_maker(r, n->in[k], OP_Div);
        if (!scaled)
            scaled = rewrite_only_maker(r, n->in[k], OP_Mul);
        if (scaled && sixth(r, scaled, &inner) && is_gate(r, inner, n->in[1 - k])) {
            x = n->in[1 - k];
            return fuse_become(r, node, OP_HardSwish, &x, 1);
        }
    }
    return false;
}

/* ---- gelu: x * 0.5 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)); the factors in any order -------- */

#define POLYNOMIAL_DEPTH 8

/* c[0] + c[1] x + c[2] x^2 + c[3] x^3 */
struct polynomial {
    double c[4];
};

static bool polynomial_times(const struct polynomial *a, const struct polynomial *b, struct polynomial *ret)
{
    struct polynomial p = {0};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            double part = a->c[i] * b->c[k];
            if (i + k > 3 && part != 0.0)
                return false;
            if (i + k <= 3)
                p.c[i + k] += part;
        }
    }
    *ret = p;
    return true;
}

static bool polynomial_read(const struct rewrite *r, uint32_t value, uint32_t x, int depth, struct polynomial *ret);

static bool polynomial_power(const struct polynomial *base, float power, struct polynomial *ret)
{
    struct polynomial p = *base;
    if (!fuse_near(power, 2) && !fuse_near(power, 3))
        return false;
    for (int i = 1; i < (fuse_near(power, 3) ? 3 : 2); i++) {
        if (!polynomial_times(&p, base, &p))
            return false;
    }
    *ret = p;
    return true;
}

static bool polynomial_node(const struct rewrite *r, const struct node *n, uint32_t x, int depth,
                            struct polynomial *ret)
{
    struct polynomial a, b;
    float scalar;
    if (!polynomial_read(r, n->in[0], x, depth - 1, &a))
        return false;
    if (n->op == OP_Pow)
        return rewrite_scalar(r, n->in[1], &scalar) && polynomial_power(&a, scalar, ret);
    if (!polynomial_read(r, n->in[1], x, depth - 1, &b))
        return false;
    if (n->op == OP_Mul)
        return polynomial_times(&a, &b, ret);
    for (int i = 0; i < 4; i++)
        ret->c[i] = a.c[i] + b.c[i];
    return true;
}

/* What additions, products and powers make of x and constant scalars. */
static bool polynomial_read(const struct rewrite *r, uint32_t value, uint32_t x, int depth, struct polynomial *ret)
{
    float scalar;
    *ret = (struct polynomial){0};
    if (value == x) {
        ret->c[1] = 1.0;
        return true;
    }
    if (rewrite_scalar(r, value, &scalar)) {
        ret->c[0] = (double)scalar;
        return true;
    }
    const struct node *n = depth > 0 ? rewrite_maker(r, value) : NULL;
    bool known = n && fuse_plain(n) && n->in_count == 2 && (n->op == OP_Add || n->op == OP_Mul || n->op == OP_Pow);
    return known && polynomial_node(r, n, x, depth, ret);
}

static bool is_root_two_part(const struct rewrite *r, uint32_t value, uint32_t x)
{
    const struct node *scaled = rewrite_maker(r, value);
    uint32_t inner;
    float item;
    if (!fuse_plain(scaled))
        return false;
    if (scaled->op == OP_Div && rewrite_scalar(r, scaled->in[1], &item) && fuse_near(item, 1.4142135623730951))
        return scaled->in[0] == x;
    return scaled->op == OP_Mul && with_scalar(r, scaled, 0.7071067811865476, &inner) && inner == x;
}

/* 1 + erf(x / sqrt 2), or 1 + tanh(...); says which. */
static bool gelu_term(const struct rewrite *r, uint32_t value, uint32_t x, bool *ret_tanh)
{
    const struct node *add = rewrite_only_maker(r, value, OP_Add);
    struct polynomial p;
    uint32_t inner;
    if (!fuse_plain(add) || !with_scalar(r, add, 1, &inner))
        return false;
    const struct node *erf = rewrite_only_maker(r, inner, OP_Erf), *tanh = rewrite_only_maker(r, inner, OP_Tanh);
    *ret_tanh = tanh != NULL;
    if (erf)
        return is_root_two_part(r, erf->in[0], x);
    return tanh && polynomial_read(r, tanh->in[0], x, POLYNOMIAL_DEPTH, &p) && fabs(p.c[0]) < 1e-9 &&
           fuse_near((float)p.c[1], 0.7978845608028654) && fabs(p.c[2]) < 1e-9 &&
           fuse_near((float)p.c[3], 0.7978845608028654 * 0.044715);
}

/* x * 0.5 * term in any order; gives x. */
static bool gelu_read(const struct rewrite *r, const struct node *n, uint32_t *ret_x, bool *ret_tanh)
{
    uint32_t inner, half;
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *other = rewrite_maker(r, n->in[1 - k]);
        const struct node *product = rewrite_only_maker(r, n->in[k], OP_Mul);
        /* (x * 0.5) * term */
        bool halved = other && other->op == OP_Mul && fuse_plain(other) && with_scalar(r, other, 0.5, &half);
        *ret_x = halved ? half : VALUE_NONE;
        if (halved && gelu_term(r, n->in[k], half, ret_tanh))
            return true;
        if (!fuse_plain(product))
            continue;
        /* (x * term) * 0.5 */
        for (uint32_t i = 0; with_scalar(r, n, 0.5, &inner) && inner == n->in[k] && i < 2; i++) {
            *ret_x = product->in[1 - i];
            if (gelu_term(r, product->in[i], *ret_x, ret_tanh))
                return true;
        }
        /* x * (0.5 * term) */
        *ret_x = n->in[1 - k];
        if (with_scalar(r, product, 0.5, &inner) && gelu_term(r, inner, *ret_x, ret_tanh))
            return true;
    }
    return false;
}

bool fuse_gelu(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    uint32_t x;
    bool tanh = false;
    if (n->op != OP_Mul || !fuse_plain(n) || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32 ||
        !gelu_read(r, n, &x, &tanh) || !fuse_become(r, node, OP_Gelu, &x, 1))
        return false;
    enum pen_status status = tanh ? graph_attr_text(r->g, r->g->node_count - 1, ATTR_approximate, "tanh") : PEN_OK;
    return status == PEN_OK || rewrite_failed(r, status);
}
