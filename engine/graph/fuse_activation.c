#include <math.h>

#include "graph/fuse.h"

/* What an activation node does, as the attributes of the node before. */
struct act {
    enum activation kind;
    float low, high, alpha;
};

/* A bound of Clip: absent, or a constant scalar. */
static bool bound(const struct rewrite *r, const struct node *n, uint32_t input, float *ret)
{
    return input >= n->in_count || n->in[input] == VALUE_NONE || rewrite_scalar(r, n->in[input], ret);
}

static bool read_act(const struct rewrite *r, const struct node *n, struct act *ret)
{
    struct act a = {.kind = ACT_CLAMP, .low = -INFINITY, .high = INFINITY};
    switch (n->op) {
    case OP_Relu:
        a.low = 0;
        break;
    case OP_Clip:
        if (!bound(r, n, 1, &a.low) || !bound(r, n, 2, &a.high) || !(a.low <= a.high))
            return false;
        break;
    case OP_HardSwish:
        a.kind = ACT_HARDSWISH;
        break;
    case OP_LeakyRelu:
        a.kind = ACT_LEAKY;
        a.alpha = node_float(n, ATTR_alpha, 0.01f);
        break;
    case OP_Sigmoid:
        a.kind = ACT_SIGMOID;
        break;
    case OP_Tanh:
        a.kind = ACT_TANH;
        break;
    case OP_Swish:
        a.kind = ACT_SWISH;
        if (node_float(n, ATTR_alpha, 1.0f) != 1.0f)
            return false;
        break;
    default:
        return false;
    }
    *ret = a;
    return true;
}

/* Operators that backends can finish with an activation (marked A in op.def). */
static bool takes_act(const struct node *n)
{
    switch (n->op) {
    case OP_Conv:
    case OP_ConvTranspose:
    case OP_Gemm:
    case OP_MatMul:
    case OP_Add:
    case OP_Sub:
    case OP_Mul:
    case OP_Div:
    case OP_AveragePool:
        return true;
    case OP_MaxPool:
        return n->out_count == 1 || n->out[1] == VALUE_NONE;
    default:
        return false;
    }
}

/* A second clamp narrows the first; anything else needs a node without one. */
static bool combine(const struct node *n, struct act *a)
{
    int64_t have = node_int(n, ATTR_act, ACT_NONE);
    if (have == ACT_NONE)
        return true;
    if (have != ACT_CLAMP || a->kind != ACT_CLAMP)
        return false;
    float low = node_float(n, ATTR_act_min, -INFINITY), high = node_float(n, ATTR_act_max, INFINITY);
    /* clamp(clamp(x, low, high), a.low, a.high) */
    a->low = fminf(fmaxf(a->low, low), a->high);
    a->high = fmaxf(fminf(a->high, high), a->low);
    return a->low <= a->high;
}

static enum pen_status set_act(struct graph *g, uint32_t node, const struct act *a)
{
    enum pen_status status = graph_attr_int(g, node, ATTR_act, a->kind);
    if (status == PEN_OK && a->kind == ACT_CLAMP)
        status = graph_attr_float(g, node, ATTR_act_min, a->low);
    if (status == PEN_OK && a->kind == ACT_CLAMP)
        status = graph_attr_float(g, node, ATTR_act_max, a->high);
    if (status == PEN_OK && a->kind == ACT_LEAKY)
        status = graph_attr_float(g, node, ATTR_act_alpha, a->alpha);
    return status;
}

bool fuse_activation(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    struct act a;
    if (n->in_count < 1 || n->in[0] == VALUE_NONE || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32 ||
        !read_act(r, n, &a))
        return false;
    struct node *before = rewrite_maker(r, n->in[0]);
    if (!before || !takes_act(before) || !rewrite_only_maker(r, n->in[0], before->op) || !combine(before, &a))
        return false;
    uint32_t maker = r->g->values[n->in[0]].producer;
    enum pen_status status = set_act(r->g, maker, &a);
    if (status != PEN_OK)
        return rewrite_failed(r, status);
    rewrite_absorb(r, maker, node);
    return true;
}
