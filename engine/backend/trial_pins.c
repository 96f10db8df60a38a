#include "backend/trial_pins.h"

#include <string.h>

#include "graph/axes.h"

#define STEPS_MAX   64 /* nodes between an input and who says how large it is */
#define STRIDES_MAX 4

struct pinning {
    const struct graph *g;
    int64_t (*pins)[PEN_MAX_RANK];
};

static const struct value *constant_in(const struct graph *g, const struct node *n, uint32_t index)
{
    const struct value *v = node_in(g, n, index);
    return v != NULL && v->bytes > 0 && v->producer == NODE_NONE && shape_known(&v->shape) ? v : NULL;
}

/* ---- from a value back to an input ---- */

/* All dims of this name. */
static void pin(const struct pinning *p, uint32_t input, int32_t axis, int64_t size)
{
    const struct value *at = &p->g->values[p->g->inputs[input]];
    if (axis >= at->shape.rank || at->shape.dim[axis] != SHAPE_DIM_UNKNOWN || p->pins[input][axis] != 0) {
        return;
    }
    p->pins[input][axis] = size;
    for (uint32_t i = 0; at->symbol[axis] != NULL && i < p->g->input_count; i++) {
        const struct value *v = &p->g->values[p->g->inputs[i]];
        for (int32_t d = 0; d < v->shape.rank; d++) {
            bool same = v->symbol[d] != NULL && strcmp(v->symbol[d], at->symbol[axis]) == 0;
            p->pins[i][d] = same ? size : p->pins[i][d];
        }
    }
}

/* The one data input of an operator with broadcasting that is as large as its result; VALUE_NONE when that cannot be told. */
static uint32_t larger_operand(const struct graph *g, const struct node *n)
{
    uint32_t found = VALUE_NONE;
    int32_t rank = g->values[n->out[0]].shape.rank;
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (constant_in(g, n, i) != NULL) {
            continue;
        }
        if (found != VALUE_NONE || n->in[i] == VALUE_NONE || g->values[n->in[i]].shape.rank != rank) {
            return VALUE_NONE;
        }
        found = n->in[i];
    }
    return found;
}

/* The value in front of n whose axis *axis is that of its result; VALUE_NONE = n makes another one. */
static uint32_t before(const struct graph *g, const struct node *n, int32_t *axis)
{
    const struct attr *perm = node_attr(n, ATTR_perm);
    uint32_t traits = op_def(n->op)->traits;
    if (n->op == OP_Transpose && perm != NULL && (uint32_t)*axis < perm->count) {
        *axis = (int32_t)perm->ints[*axis];
        return n->in[0];
    }
    if (n->op == OP_Identity || n->op == OP_Cast || n->op == OP_DynamicQuantizeLinear || (traits & OP_UNARY) != 0) {
        return n->in[0];
    }
    return (traits & OP_BINARY) != 0 ? larger_operand(g, n) : VALUE_NONE;
}

static void follow(const struct pinning *p, uint32_t value, int32_t axis, int64_t size)
{
    for (int step = 0; step < STEPS_MAX && value != VALUE_NONE && axis >= 0 && size > 0; step++) {
        const struct value *v = &p->g->values[value];
        if (v->producer != NODE_NONE) {
            value = before(p->g, &p->g->nodes[v->producer], &axis);
            continue;
        }
        for (uint32_t i = 0; i < p->g->input_count; i++) {
            if (p->g->inputs[i] == value) {
                pin(p, i, axis, size);
            }
        }
        return;
    }
}

/* ---- who says how large ---- */

static int64_t conv_channels(const struct node *n, const struct shape *w)
{
    int64_t group = node_int(n, ATTR_group, 1), last = w->dim[w->rank - 1], size = 0;
    switch (node_int(n, ATTR_weight_layout, WEIGHT_OIHW)) {
    case WEIGHT_OHWI:
        size = last;
        break;
    case WEIGHT_HWIO:
        size = w->dim[w->rank - 2];
        break;
    case WEIGHT_HWIM:
        return w->dim[w->rank - 2];
    default:
        size = w->dim[1];
        break;
    }
    return group > 0 && group < INT32_MAX && size < INT32_MAX ? size * group : 0;
}

static void pin_spatial(const struct pinning *p, const struct node *n, int32_t rank)
{
    const struct value *w = constant_in(p->g, n, 1);
    struct spatial_axes at;
    if (w == NULL || !spatial_axes_of(n, rank, &at)) {
        return;
    }
    if (n->op == OP_BatchNormalization || n->op == OP_ConvTranspose) {
        follow(p, n->in[0], at.channel, w->shape.rank > 0 ? w->shape.dim[0] : 0);
    } else if (w->shape.rank >= 3) {
        follow(p, n->in[0], at.channel, conv_channels(n, &w->shape));
    }
}

static void pin_product(const struct pinning *p, const struct node *n, int32_t rank)
{
    const struct value *w = constant_in(p->g, n, 1);
    if (w == NULL || w->shape.rank < 2) {
        return;
    }
    bool turned = n->op == OP_Gemm && node_int(n, ATTR_transB, 0) != 0;
    int32_t axis = n->op == OP_Gemm && node_int(n, ATTR_transA, 0) != 0 ? 0 : rank - 1;
    follow(p, n->in[0], axis, w->shape.dim[w->shape.rank - (turned ? 1 : 2)]);
}

/* A constant beside a value of dynamic size, both larger than 1 there. */
static void pin_beside(const struct pinning *p, const struct node *n)
{
    uint32_t x = larger_operand(p->g, n);
    for (uint32_t i = 0; x != VALUE_NONE && i < n->in_count; i++) {
        const struct value *c = constant_in(p->g, n, i);
        int32_t rank = p->g->values[x].shape.rank;
        for (int32_t d = 0; c != NULL && d < c->shape.rank && c->shape.rank <= rank; d++) {
            if (c->shape.dim[d] > 1) {
                follow(p, x, rank - c->shape.rank + d, c->shape.dim[d]);
            }
        }
    }
}

void trial_pins(const struct graph *g, int64_t (*ret_pins)[PEN_MAX_RANK])
{
    const struct pinning p = {g, ret_pins};
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        const struct value *x = n->in_count > 0 ? node_in(g, n, 0) : NULL;
        if (x == NULL || x->shape.rank < 0 || n->dead) {
            continue;
        }
        if (n->op == OP_Conv || n->op == OP_ConvTranspose || n->op == OP_BatchNormalization) {
            pin_spatial(&p, n, x->shape.rank);
        } else if (n->op == OP_MatMul || n->op == OP_Gemm || n->op == OP_MatMulInteger) {
            pin_product(&p, n, x->shape.rank);
        } else if (n->op == OP_LSTM || n->op == OP_GRU || n->op == OP_RNN || n->op == OP_LSTMInteger) {
            const struct value *w = constant_in(g, n, 1);
            follow(&p, n->in[0], 2, w != NULL && w->shape.rank == 3 ? w->shape.dim[2] : 0);
        } else if ((op_def(n->op)->traits & OP_BINARY) != 0) {
            pin_beside(&p, n);
        }
    }
}

/* ---- patches ---- */

static size_t strides_find(const struct graph *g, int64_t *strides)
{
    size_t count = 0;
    for (uint32_t i = 0; i < g->node_count && count < STRIDES_MAX; i++) {
        const struct attr *a = g->nodes[i].op == OP_Conv ? node_attr(&g->nodes[i], ATTR_strides) : NULL;
        bool known = a == NULL || a->count == 0 || a->ints[0] < 2 || a->ints[0] > 1024;
        for (size_t k = 0; k < count && !known; k++) {
            known = strides[k] == a->ints[0];
        }
        if (!known) {
            strides[count++] = a->ints[0];
        }
    }
    return count;
}

/* Its side when n is a square of 2 and more, else 0. */
static int64_t side_of(int64_t n)
{
    int64_t side = 2;
    while (side < 1024 && side * side < n) {
        side++;
    }
    return side * side == n ? side : 0;
}

size_t trial_sides(const struct graph *g, int64_t *ret_sides, size_t room)
{
    int64_t strides[STRIDES_MAX];
    size_t stride_count = strides_find(g, strides), count = 0;
    for (uint32_t i = 0; i < g->node_count && stride_count > 0; i++) {
        const struct node *n = &g->nodes[i];
        const struct value *c = n->op != OP_Add        ? NULL
                                : constant_in(g, n, 1) ? constant_in(g, n, 1)
                                                       : constant_in(g, n, 0);
        if (c == NULL || c->shape.rank < 2) {
            continue;
        }
        for (int64_t extra = 0; extra <= 2; extra++) { /* tokens beside the patches: a class, a distillation */
            int64_t side = side_of(c->shape.dim[c->shape.rank - 2] - extra);
            for (size_t k = 0; k < stride_count && side > 0 && count < room; k++) {
                ret_sides[count++] = side * strides[k];
            }
        }
    }
    return count;
}
