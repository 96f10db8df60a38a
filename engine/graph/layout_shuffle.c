/* Channel shuffles: a reshape that splits the channels into groups, a transpose that swaps, and a reshape back. */
#include <string.h>

#include "graph/layout.h"

struct shuffle {
    uint32_t transpose, back; /* nodes behind the first Reshape */
    int64_t batch, groups, each, height, width;
};

static uint32_t next_of(const struct turner *t, uint32_t node, enum op op)
{
    uint32_t out = t->r.g->nodes[node].out[0], reader = uses_single(&t->r.uses, out);
    return reader != NODE_NONE && t->r.g->nodes[reader].op == op && t->r.g->nodes[reader].in[0] == out ? reader
                                                                                                       : NODE_NONE;
}

/* Reshape [N, g, C / g, H, W], Transpose 0 2 1 3 4, Reshape [N, C, H, W] of a value that has a twin. */
static bool is_shuffle(const struct turner *t, uint32_t node, struct shuffle *ret)
{
    static const int64_t swap[5] = {0, 2, 1, 3, 4};
    const struct node *n = &t->r.g->nodes[node];
    const struct shape *x = &rewrite_fact(&t->r, n->in[0])->shape, *wide = &rewrite_fact(&t->r, n->out[0])->shape;
    uint32_t count, transpose = next_of(t, node, OP_Transpose), back;
    if (x->rank != 4 || wide->rank != 5 || !has_twin(t, n->in[0]) || transpose == NODE_NONE)
        return false;
    back = next_of(t, transpose, OP_Reshape);
    const int64_t *perm = node_ints(&t->r.g->nodes[transpose], ATTR_perm, &count);
    if (back == NODE_NONE || count != 5 || memcmp(perm, swap, sizeof swap) != 0)
        return false;
    const struct shape *y = &rewrite_fact(&t->r, t->r.g->nodes[back].out[0])->shape;
    for (int32_t i = 1; i < 5; i++) {
        if (wide->dim[i] < 1 || (i < 4 && x->dim[i] < 1))
            return false;
    }
    *ret = (struct shuffle){transpose, back, x->dim[0], wide->dim[1], wide->dim[2], wide->dim[3], wide->dim[4]};
    return shape_equal(x, y) && x->dim[0] != 0 && x->dim[0] == wide->dim[0] &&
           wide->dim[1] * wide->dim[2] == x->dim[1] && x->dim[2] == wide->dim[3] && x->dim[3] == wide->dim[4];
}

static uint32_t reshaped(struct turner *t, const char *name, uint32_t x, const int64_t *dims, size_t count)
{
    uint32_t shape = VALUE_NONE;
    enum pen_status status = graph_constant_i64(t->r.g, dims, count, false, &shape);
    if (status != PEN_OK)
        turn_failed(t, status);
    return rewrite_node(&t->r, OP_Reshape, name, (uint32_t[]){x, shape}, 2);
}

/* The same on the twin: the groups lie in the last axis there. */
bool turn_shuffle(struct turner *t, uint32_t node)
{
    static const int64_t swap[5] = {0, 1, 2, 4, 3};
    struct shuffle s;
    if (!is_shuffle(t, node, &s))
        return false;
    int64_t batch = s.batch < 0 ? 0 : s.batch; /* 0 copies it */
    int64_t wide[5] = {batch, s.height, s.width, s.groups, s.each},
            flat[4] = {batch, s.height, s.width, s.groups * s.each};
    const char *name = t->r.g->nodes[node].name;
    uint32_t out = t->r.g->nodes[s.back].out[0], twin = t->twin[t->r.g->nodes[node].in[0]];
    uint32_t y = reshaped(t, name, twin, wide, 5);
    y = rewrite_node(&t->r, OP_Transpose, name, &y, 1);
    if (t->r.status == PEN_OK) {
        enum pen_status status = graph_attr_ints(t->r.g, t->r.g->values[y].producer, ATTR_perm, swap, 5);
        if (status != PEN_OK)
            turn_failed(t, status);
    }
    y = reshaped(t, name, y, flat, 4);
    uses_kill(&t->r.uses, s.back);
    uses_kill(&t->r.uses, s.transpose);
    uses_kill(&t->r.uses, node);
    t->twin[out] = y;
    t->lazy[out] = true;
    return true;
}
