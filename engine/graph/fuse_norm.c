/* Norms spelled out as formulas, back to the operator they mean. Each starts at the last node of the formula. */
#include "graph/fuse.h"

/* The last node becomes a norm over the last axis. */
static bool become_norm(struct rewrite *r, uint32_t last, enum op op, const uint32_t *in, uint32_t count, float epsilon)
{
    if (!fuse_become(r, last, op, in, count))
        return false;
    uint32_t made = r->g->node_count - 1;
    enum pen_status status = graph_attr_float(r->g, made, ATTR_epsilon, epsilon);
    if (status == PEN_OK)
        status = graph_attr_int(r->g, made, ATTR_axis, -1);
    return status == PEN_OK || rewrite_failed(r, status);
}

/* ---- layer norm over the last axis ------------------------------------------------------------------------------------------- */

/* ReduceMean over the last axis, kept; gives its input. */
static bool last_mean(const struct rewrite *r, uint32_t value, uint32_t *ret_x)
{
    const struct node *n = rewrite_maker(r, value);
    if (!n || n->op != OP_ReduceMean || !node_int(n, ATTR_keepdims, 1) || n->in_count != 2)
        return false;
    const struct value *axes = &r->g->values[n->in[1]];
    int32_t rank = rewrite_fact(r, n->in[0])->shape.rank;
    if (!axes->data || axes->dtype != PEN_DTYPE_I64 || axes->bytes != sizeof(int64_t) || rank < 1)
        return false;
    *ret_x = n->in[0];
    return shape_axis(*(const int64_t *)axes->data, rank) == rank - 1;
}

/* (x - mean(x)); gives x. */
static bool centred(const struct rewrite *r, uint32_t value, uint32_t *ret_x)
{
    const struct node *n = rewrite_maker(r, value);
    uint32_t x;
    if (!n || n->op != OP_Sub || !fuse_plain(n) || !last_mean(r, n->in[1], &x) || x != n->in[0])
        return false;
    *ret_x = x;
    return true;
}

/* d * d or d ^ 2. */
static bool squared(const struct rewrite *r, uint32_t value, uint32_t *ret_d)
{
    const struct node *n = rewrite_maker(r, value);
    float two;
    if (!fuse_plain(n) || !((n->op == OP_Pow && rewrite_scalar(r, n->in[1], &two) && fuse_near(two, 2)) ||
                            (n->op == OP_Mul && n->in[0] == n->in[1])))
        return false;
    *ret_d = n->in[0];
    return true;
}

/* sqrt(mean(d^2) + epsilon); gives d and epsilon. */
static bool deviation(const struct rewrite *r, uint32_t value, uint32_t *ret_d, float *ret_epsilon)
{
    const struct node *root = rewrite_maker(r, value);
    const struct node *add = root && root->op == OP_Sqrt ? rewrite_maker(r, root->in[0]) : NULL;
    uint32_t square;
    for (uint32_t k = 0; fuse_plain(add) && add->op == OP_Add && k < 2; k++) {
        if (rewrite_scalar(r, add->in[k], ret_epsilon) && last_mean(r, add->in[1 - k], &square))
            return squared(r, square, ret_d);
    }
    return false;
}

/* 1 / v; gives v. */
static bool inverse(const struct rewrite *r, uint32_t value, uint32_t *ret_of)
{
    const struct node *n = rewrite_maker(r, value);
    float one;
    if (!fuse_plain(n) || (n->op != OP_Reciprocal && n->op != OP_Div))
        return false;
    if (n->op == OP_Div && (!rewrite_scalar(r, n->in[0], &one) || !fuse_near(one, 1)))
        return false;
    *ret_of = n->in[n->op == OP_Div ? 1 : 0];
    return true;
}

/* A constant along the last axis of x; its other dimensions, if it has any, are 1. */
static bool along_last(const struct rewrite *r, uint32_t value, uint32_t x)
{
    const struct shape *s = &rewrite_fact(r, x)->shape;
    return s->rank > 0 && s->dim[s->rank - 1] > 0 && rewrite_floats(r, value, s->dim[s->rank - 1]) &&
           r->g->values[value].shape.rank >= 1 && r->g->values[value].shape.rank <= s->rank &&
           r->g->values[value].shape.dim[r->g->values[value].shape.rank - 1] == s->dim[s->rank - 1];
}

/* The same constant as a row of one dimension. */
static uint32_t as_row(struct rewrite *r, uint32_t value)
{
    const struct value *v = &r->g->values[value];
    const struct shape row = {.rank = 1, .dim = {v->shape.dim[v->shape.rank - 1]}};
    uint32_t made = VALUE_NONE;
    if (v->shape.rank == 1)
        return value;
    enum pen_status status = graph_constant(r->g, NULL, PEN_DTYPE_F32, &row, v->data, v->bytes, true, &made);
    if (status != PEN_OK)
        (void)rewrite_failed(r, status);
    return made;
}

/* (x - mean) / deviation * gain + bias */
static bool norm_of_quotient(struct rewrite *r, uint32_t node)
{
    const struct node *add = &r->g->nodes[node];
    uint32_t d, d2, x;
    float epsilon;
    if (add->op != OP_Add)
        return false;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t bias = add->in[k & 1];
        const struct node *mul = rewrite_only_maker(r, add->in[1 - (k & 1)], OP_Mul);
        if (!fuse_plain(mul))
            continue;
        uint32_t gain = mul->in[k >> 1];
        const struct node *div = rewrite_only_maker(r, mul->in[1 - (k >> 1)], OP_Div);
        if (!fuse_plain(div) || !deviation(r, div->in[1], &d, &epsilon) || !centred(r, div->in[0], &x))
            continue;
        /* the deviation may be taken of a second x - mean(x), written out again */
        bool same = d == div->in[0] || (centred(r, d, &d2) && d2 == x);
        if (!same || !along_last(r, gain, x) || !along_last(r, bias, x))
            continue;
        uint32_t in[3] = {x, as_row(r, gain), as_row(r, bias)};
        if (r->status != PEN_OK)
            return false;
        return become_norm(r, node, OP_LayerNormalization, in, 3, epsilon);
    }
    return false;
}

/* gain / sqrt(mean((x - mean)^2) + epsilon), TensorFlow's factor of x and of its mean; *ret_gain is VALUE_NONE where there is none. */
static bool scaled_inverse(const struct rewrite *r, uint32_t value, uint32_t x, uint32_t *ret_gain, float *ret_epsilon)
{
    const struct node *n = rewrite_maker(r, value);
    uint32_t root, d, of;
    for (uint32_t k = 0; n && n->op == OP_Mul && fuse_plain(n) && k < 2; k++) {
        if (along_last(r, n->in[k], x) && inverse(r, n->in[1 - k], &root) && deviation(r, root, &d, ret_epsilon) &&
            centred(r, d, &of) && of == x) {
            *ret_gain = n->in[k];
            return true;
        }
    }
    return false;
}

/* mean(x) * factor, the mean or the product perhaps below zero; *ret_negative says whether it is. */
static bool mean_times(const struct rewrite *r, uint32_t value, uint32_t x, uint32_t factor, bool *ret_negative)
{
    const struct node *n = rewrite_maker(r, value), *negated;
    uint32_t of;
    *ret_negative = n && n->op == OP_Neg;
    n = *ret_negative ? rewrite_maker(r, n->in[0]) : n;
    for (uint32_t k = 0; n && n->op == OP_Mul && fuse_plain(n) && k < 2; k++) {
        if (n->in[k] != factor)
            continue;
        negated = rewrite_maker(r, n->in[1 - k]);
        bool below = negated && negated->op == OP_Neg;
        if (last_mean(r, below ? negated->in[0] : n->in[1 - k], &of) && of == x) {
            *ret_negative ^= below;
            return true;
        }
    }
    return false;
}

/* bias - mean * factor, in the forms that converters leave; *ret_bias is VALUE_NONE where it was zero and went. */
static bool shift_read(const struct rewrite *r, uint32_t value, uint32_t x, uint32_t factor, uint32_t *ret_bias)
{
    const struct node *n = rewrite_maker(r, value);
    bool negative;
    *ret_bias = VALUE_NONE;
    if (mean_times(r, value, x, factor, &negative))
        return negative;
    if (!fuse_plain(n) || (n->op != OP_Sub && n->op != OP_Add))
        return false;
    for (uint32_t k = 0; k < (n->op == OP_Add ? 2u : 1u); k++) {
        if (along_last(r, n->in[k], x) && mean_times(r, n->in[1 - k], x, factor, &negative) &&
            negative == (n->op == OP_Add)) {
            *ret_bias = n->in[k];
            return true;
        }
    }
    return false;
}

/* x * factor + (bias - mean * factor), as tf.nn.batch_normalization spells the norm of a layer. */
static bool norm_of_factor(struct rewrite *r, uint32_t node)
{
    const struct node *last = &r->g->nodes[node];
    uint32_t gain, bias = VALUE_NONE;
    float epsilon;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t product = last->in[k & 1], shift = last->in[1 - (k & 1)];
        const struct node *mul = rewrite_only_maker(r, product, OP_Mul);
        if (!fuse_plain(mul) || (last->op == OP_Sub && (k & 1) != 0))
            continue;
        uint32_t x = mul->in[k >> 1], factor = mul->in[1 - (k >> 1)];
        bool negative = true;
        bool fits = scaled_inverse(r, factor, x, &gain, &epsilon) &&
                    (last->op == OP_Add ? shift_read(r, shift, x, factor, &bias)
                                        : mean_times(r, shift, x, factor, &negative) && !negative);
        if (!fits)
            continue;
        uint32_t in[3] = {x, as_row(r, gain), bias == VALUE_NONE ? VALUE_NONE : as_row(r, bias)};
        return r->status == PEN_OK &&
               become_norm(r, node, OP_LayerNormalization, in, bias == VALUE_NONE ? 2 : 3, epsilon);
    }
    return false;
}

bool fuse_layer_norm(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    if ((n->op != OP_Add && n->op != OP_Sub) || !fuse_plain(n) || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32)
        return false;
    return norm_of_quotient(r, node) || norm_of_factor(r, node);
}

/* ---- RMS norm over the last axis: gain * x / sqrt(mean(x^2) + epsilon), the quotient perhaps as a product ------------------------ */

/* x / sqrt(mean(x^2) + epsilon) */
static bool by_root(const struct rewrite *r, const struct node *n, uint32_t *ret_x, float *ret_epsilon)
{
    uint32_t root;
    if (fuse_plain(n) && n->op == OP_Div && deviation(r, n->in[1], ret_x, ret_epsilon))
        return *ret_x == n->in[0];
    for (uint32_t k = 0; fuse_plain(n) && n->op == OP_Mul && k < 2; k++) {
        if (inverse(r, n->in[k], &root) && deviation(r, root, ret_x, ret_epsilon) && *ret_x == n->in[1 - k])
            return true;
    }
    return false;
}

bool fuse_rms_norm(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    uint32_t x, inner;
    float epsilon;
    if (n->op != OP_Mul || !fuse_plain(n) || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *part = rewrite_only_maker(r, n->in[1 - k], OP_Mul);
        if (!part)
            part = rewrite_only_maker(r, n->in[1 - k], OP_Div);
        /* of what its mean was taken from, it is a part of a layer norm */
        if (!by_root(r, part, &x, &epsilon) || !along_last(r, n->in[k], x) || centred(r, x, &inner))
            continue;
        return become_norm(r, node, OP_RMSNormalization, (uint32_t[]){x, as_row(r, n->in[k])}, 2, epsilon);
    }
    return false;
}
