#include "backend/vulkan/ops/epilogue.h"

#include <math.h>

static bool rows_of(const struct value *c, size_t outs)
{
    return c != NULL && c->data != NULL && c->dtype == PEN_DTYPE_F32 && c->shape.rank >= 1 &&
           shape_elements(&c->shape) == (int64_t)outs && c->shape.dim[c->shape.rank - 1] == (int64_t)outs;
}

/* The only reader of a value in the graph. */
static const struct node *only_reader(const struct graph *g, uint32_t value)
{
    const struct node *found = NULL;
    uint32_t readers = 0;
    for (uint32_t i = 0; i < g->output_count; i++) {
        readers += g->outputs[i] == value;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        for (uint32_t k = 0; !g->nodes[i].dead && k < g->nodes[i].in_count; k++) {
            if (g->nodes[i].in[k] == value) {
                found = &g->nodes[i];
                readers++;
            }
        }
    }
    return readers == 1 ? found : NULL;
}

const struct value *vk_epilogue_bias(const struct graph *g, const struct node *n, size_t outs)
{
    const struct node *add = n->op == OP_MatMul || n->op == OP_MatMulNBits ? only_reader(g, n->out[0]) : NULL;
    const struct value *c = add != NULL && add->op == OP_Add ? node_in(g, add, add->in[0] == n->out[0] ? 1 : 0) : NULL;
    return rows_of(c, outs) ? c : NULL;
}

/* Of a product as its node has it. */
static struct vk_epilogue plain_of(const struct vk_build *b, bool bias)
{
    return (struct vk_epilogue){
        .bias = bias, .packed = !bias && vk_packed_there(b, VK_EPILOGUE_BIAS), .act = vk_act_read(b->n)};
}

/* What the node does to each element by itself; ACT_NONE: something else. */
static struct vk_act act_of(const struct node *n)
{
    switch (n->op) {
    case OP_Gelu:
        return (struct vk_act){node_text_is(n, ATTR_approximate, "tanh", false) ? VK_ACT_GELU_TANH : VK_ACT_GELU, 0, 0};
    case OP_Relu:
        return (struct vk_act){ACT_CLAMP, 0.0f, INFINITY};
    case OP_LeakyRelu:
        return (struct vk_act){ACT_LEAKY, node_float(n, ATTR_alpha, 0.01f), 0.0f};
    case OP_HardSwish:
        return (struct vk_act){.kind = ACT_HARDSWISH};
    case OP_Sigmoid:
        return (struct vk_act){.kind = ACT_SIGMOID};
    case OP_Tanh:
        return (struct vk_act){.kind = ACT_TANH};
    case OP_Swish:
        return (struct vk_act){.kind = node_float(n, ATTR_alpha, 1.0f) == 1.0f ? ACT_SWISH : ACT_NONE};
    default:
        return (struct vk_act){.kind = ACT_NONE};
    }
}

/* One activation at most. */
static bool act_join(struct vk_epilogue *e, const struct vk_act *act)
{
    if (act->kind == ACT_NONE) {
        return true;
    }
    bool free = e->act.kind == ACT_NONE && e->adds != VK_RESIDUAL_BEHIND;
    e->act = free ? *act : e->act;
    return free;
}

/* *ret_residual: the value that is added, if one is. */
static bool add_join(const struct vk_build *b, struct vk_epilogue *e, const struct node *n, uint32_t value,
                     uint32_t *ret_residual)
{
    const uint32_t other = n->in[n->in[0] == value ? 1 : 0];
    const struct shape *y = &b->env->facts[n->out[0]].shape, *x = &b->env->facts[other].shape;
    const struct vk_act act = vk_act_read(n);
    bool plain = !e->bias && e->act.kind == ACT_NONE && e->adds == VK_RESIDUAL_NONE;
    if (plain && e->packed && rows_of(&b->g->values[other], (size_t)y->dim[y->rank - 1])) {
        e->bias = true;
    } else if (e->adds == VK_RESIDUAL_NONE && other != value && shape_equal(x, y)) {
        e->adds = e->act.kind == ACT_NONE ? VK_RESIDUAL_BEFORE : VK_RESIDUAL_BEHIND;
        *ret_residual = other;
    } else {
        return false;
    }
    return act_join(e, &act);
}

/* The node's work on `value`, as one more piece of the epilogue. */
static bool join(const struct vk_build *b, struct vk_epilogue *e, const struct node *n, uint32_t value,
                 uint32_t *ret_residual)
{
    if (n->op == OP_Add && n->in_count == 2) {
        return add_join(b, e, n, value, ret_residual);
    }
    const struct vk_act act = act_of(n);
    return act.kind != ACT_NONE && node_int(n, ATTR_act, ACT_NONE) == ACT_NONE && act_join(e, &act);
}

bool vk_epilogue_waits(struct vk_build *b, bool bias)
{
    struct vk_epilogue e = plain_of(b, bias);
    const uint32_t out = b->n->out[0];
    const struct node *next = vk_user(b, out);
    uint32_t residual = VALUE_NONE;
    if (vk_build_apart(b) || next == NULL || !vk_alike(b, next) || vk_op_find(next->op) == NULL ||
        !shape_equal(&b->env->facts[out].shape, &b->env->facts[next->out[0]].shape)) {
        return false;
    }
    for (uint32_t i = 0; i < next->in_count; i++) {
        if (next->in[i] != out && next->in[i] != VALUE_NONE && vk_deferred(b, next->in[i])) {
            return false;
        }
    }
    if (!join(b, &e, next, out, &residual)) {
        return false;
    }
    vk_defer(b);
    return true;
}

bool vk_epilogue_first(const struct node *first)
{
    return first->op == OP_Conv || first->op == OP_Gemm || first->op == OP_MatMul || first->op == OP_MatMulNBits;
}

/* False: not all of them can be joined. */
static bool nodes_join(const struct vk_build *own, const struct node *const *nodes, uint32_t count,
                       struct vk_epilogue *e, uint32_t *ret_residual)
{
    const uint32_t at = own->n->op == OP_MatMulNBits ? 5 : 2;
    bool has_bias = own->n->in_count > at && own->n->in[at] != VALUE_NONE;
    bool all = true;
    *e = plain_of(own, has_bias);
    for (uint32_t i = 1; all && i < count; i++) {
        all = join(own, e, nodes[i], nodes[i - 1]->out[0], ret_residual);
    }
    return all;
}

bool vk_epilogue_takes(const struct vk_build *b, const struct node *const *nodes, uint32_t count,
                       const struct node *next)
{
    const struct vk_build own = vk_build_of(b, nodes[0]);
    struct vk_epilogue e;
    uint32_t residual = VALUE_NONE;
    return nodes_join(&own, nodes, count, &e, &residual) && join(&own, &e, next, nodes[count - 1]->out[0], &residual);
}

void vk_epilogue_build(struct vk_build *b, const struct node *const *nodes, uint32_t count)
{
    struct vk_build own = vk_build_of(b, nodes[0]);
    struct vk_epilogue e;
    uint32_t residual = VALUE_NONE;
    if (!nodes_join(&own, nodes, count, &e, &residual)) {
        vk_build_fail(b, PEN_ERR_INTERNAL, "a product waited for what it cannot compute");
        return;
    }
    e.residual = residual != VALUE_NONE ? vk_value_cell(b, residual) : VK_CELL_NONE;
    e.y = vk_out_cell(b, 0);
    own.status = b->status;
    own.epilogue = &e;
    vk_op_find(nodes[0]->op)->build(&own);
    b->status = own.status;
    vk_build_joined(b);
}

void vk_epilogue_apply(struct vk_build *b, struct vk_product *p)
{
    const struct vk_epilogue *e = b->epilogue;
    p->y = e != NULL ? e->y : vk_out_cell(b, 0);
    if (e == NULL) {
        return;
    }
    if (e->bias && e->packed) {
        p->bias = vk_packed_cell(b, VK_EPILOGUE_BIAS);
    }
    p->act = e->act;
    p->adds = e->adds;
    p->residual = e->residual;
}
