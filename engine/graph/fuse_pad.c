#include <string.h>

#include "graph/axes.h"
#include "graph/fuse.h"

/* pads of a constant Pad node over all axes; false when it is not constant, not zero, or not on all axes. */
static bool read_pad(const struct rewrite *r, const struct node *n, int32_t rank, const int64_t **ret_pads)
{
    float value = 0;
    const struct value *pads = &r->g->values[n->in[1]];
    bool zero = n->in_count < 3 || n->in[2] == VALUE_NONE || (rewrite_scalar(r, n->in[2], &value) && value == 0);
    if (!node_text_is(n, ATTR_mode, "constant", true) || !zero || (n->in_count > 3 && n->in[3] != VALUE_NONE))
        return false;
    if (!pads->data || pads->dtype != PEN_DTYPE_I64 || shape_elements(&pads->shape) != 2 * (int64_t)rank)
        return false;
    *ret_pads = pads->data;
    return true;
}

/* Only space is padded, and never cut. */
static bool spatial_only(const int64_t *pads, int32_t rank, const struct spatial_axes *at)
{
    for (int32_t i = 0; i < 2 * rank; i++) {
        int32_t axis = i % rank;
        bool space = axis >= at->first && axis < at->first + at->count;
        if (pads[i] < 0 || pads[i] > INT32_MAX || (!space && pads[i] != 0))
            return false;
    }
    return true;
}

/* A pool counts the padding as zeros only when it has none of its own. */
static bool takes_pad(const struct node *n, const int64_t *own, uint32_t own_count)
{
    if (!node_text_is(n, ATTR_auto_pad, "NOTSET", true) && !node_text_is(n, ATTR_auto_pad, "VALID", false))
        return false;
    if (n->op == OP_Conv)
        return true;
    if (n->op != OP_AveragePool || node_int(n, ATTR_ceil_mode, 0))
        return false;
    for (uint32_t i = 0; i < own_count; i++) {
        if (own[i] != 0 && node_int(n, ATTR_count_include_pad, 0) == 0)
            return false;
    }
    return true;
}

bool fuse_pad(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    if (n->op != OP_Conv && n->op != OP_AveragePool)
        return false;
    struct node *pad = rewrite_only_maker(r, n->in[0], OP_Pad);
    int32_t rank = rewrite_fact(r, n->out[0])->shape.rank;
    const int64_t *pads, *own;
    uint32_t own_count;
    struct spatial_axes at;
    if (!pad || rank < 3 || !spatial_axes_of(n, rank, &at) || !read_pad(r, pad, rank, &pads) ||
        !spatial_only(pads, rank, &at))
        return false;
    own = node_ints(n, ATTR_pads, &own_count);
    if (!takes_pad(n, own, own_count) || (own && own_count != 2 * (uint32_t)at.count))
        return false;
    int64_t sum[2 * PEN_MAX_RANK];
    bool valid = node_text_is(n, ATTR_auto_pad, "VALID", false);
    for (int32_t i = 0; i < at.count; i++) {
        sum[i] = (own && !valid ? own[i] : 0) + pads[at.first + i];
        sum[at.count + i] = (own && !valid ? own[at.count + i] : 0) + pads[rank + at.first + i];
    }
    bool pool = n->op == OP_AveragePool;
    uint32_t x = pad->in[0], dead = r->g->values[n->in[0]].producer;
    enum pen_status status = graph_attr_ints(r->g, node, ATTR_pads, sum, 2 * (uint32_t)at.count);
    if (status == PEN_OK && pool)
        status = graph_attr_int(r->g, node, ATTR_count_include_pad, 1);
    graph_attr_drop(r->g, node, ATTR_auto_pad);
    if (status == PEN_OK)
        status = uses_set(&r->uses, node, 0, x);
    if (status != PEN_OK)
        return rewrite_failed(r, status);
    uses_kill(&r->uses, dead);
    return true;
}
