#include "graph/pass_internal.h"

/*
 * Sequences whose elements are known one by one become plain tensors: SplitToSequence and SequenceAt -> Slice, SequenceConstruct and SequenceAt -> the element,
 * SequenceConstruct and ConcatFromSequence -> Concat. PyTorch's exporter spells split, chunk, unbind and stack so when it does not optimise.
 */

static bool one_integer(const struct rewrite *r, uint32_t value, int64_t *ret)
{
    const struct fact *f = rewrite_fact(r, value);
    if (!f->data || shape_elements(&f->shape) != 1 || (f->dtype != PEN_DTYPE_I64 && f->dtype != PEN_DTYPE_I32))
        return false;
    *ret = f->dtype == PEN_DTYPE_I64 ? *(const int64_t *)f->data : *(const int32_t *)f->data;
    return true;
}

static uint32_t one_axis(struct rewrite *r, enum op op, const char *name, uint32_t value, int64_t axis)
{
    uint32_t axes = VALUE_NONE;
    if (r->status == PEN_OK)
        r->status = graph_constant_i64(r->g, &axis, 1, false, &axes);
    return r->status == PEN_OK ? rewrite_node(r, op, name, (uint32_t[]){value, axes}, 2) : VALUE_NONE;
}

/* The node that makes `made` takes the place of `node`. */
static bool replace(struct rewrite *r, uint32_t made, uint32_t node)
{
    if (r->status != PEN_OK)
        return false;
    uint32_t maker = r->g->values[made].producer;
    r->g->nodes[maker].origin = r->g->nodes[node].origin;
    rewrite_absorb(r, maker, node);
    return true;
}

/* Element `index` of a split lies in [*ret_from, *ret_to) along its axis of `dim` elements. False: it cannot be told, or is outside. */
static bool part_of(const struct rewrite *r, const struct node *split, int64_t dim, int64_t index, int64_t *ret_from,
                    int64_t *ret_to)
{
    bool listed = split->in_count > 1 && split->in[1] != VALUE_NONE;
    const struct fact *lengths = listed ? rewrite_fact(r, split->in[1]) : NULL;
    int64_t each = 1, from = 0, count = listed ? shape_elements(&lengths->shape) : 0;
    if (listed && lengths->shape.rank == 1 && lengths->data && lengths->dtype == PEN_DTYPE_I64) {
        index += index < 0 ? count : 0;
        if (index < 0 || index >= count)
            return false;
        for (int64_t i = 0; i < index; i++)
            from += ((const int64_t *)lengths->data)[i];
        each = ((const int64_t *)lengths->data)[index];
    } else if (listed && (lengths->shape.rank != 0 || !one_integer(r, split->in[1], &each) || each < 1)) {
        return false;
    } else {
        index += index < 0 ? (dim + each - 1) / each : 0;
        if (index < 0 || index > dim / each)
            return false;
        from = index * each;
    }
    *ret_from = from;
    *ret_to = from + each < dim ? from + each : dim;
    return from >= 0 && each >= 0 && from < dim;
}

static bool split_part(struct rewrite *r, uint32_t node, const struct node *split, int64_t index)
{
    const struct node n = r->g->nodes[node], s = *split;
    const struct shape *x = &rewrite_fact(r, s.in[0])->shape;
    int32_t axis = x->rank > 0 ? shape_axis(node_int(&s, ATTR_axis, 0), x->rank) : -1;
    int64_t from, to, at = axis;
    if (axis < 0 || x->dim[axis] < 1 || !part_of(r, &s, x->dim[axis], index, &from, &to))
        return false;
    bool listed = s.in_count > 1 && s.in[1] != VALUE_NONE;
    uint32_t in[4] = {s.in[0]};
    const int64_t *numbers[3] = {&from, &to, &at};
    for (int i = 0; i < 3 && r->status == PEN_OK; i++)
        r->status = graph_constant_i64(r->g, numbers[i], 1, false, &in[i + 1]);
    uint32_t made = r->status == PEN_OK ? rewrite_node(r, OP_Slice, n.name, in, 4) : VALUE_NONE;
    if (!listed && node_int(&s, ATTR_keepdims, 1) == 0)
        made = one_axis(r, OP_Squeeze, n.name, made, at);
    return replace(r, made, node);
}

static bool element_taken(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node], *from = rewrite_maker(r, n->in[0]);
    int64_t index;
    if (!from || !one_integer(r, n->in[1], &index))
        return false;
    if (from->op == OP_SplitToSequence)
        return split_part(r, node, from, index);
    index += index < 0 ? from->in_count : 0;
    return from->op == OP_SequenceConstruct && index >= 0 && index < from->in_count &&
           rewrite_bypass(r, node, from->in[index]);
}

static bool elements_joined(struct rewrite *r, uint32_t node)
{
    const struct node n = r->g->nodes[node], *from = rewrite_maker(r, n.in[0]);
    if (!from || from->op != OP_SequenceConstruct)
        return false;
    const struct node all = *from;
    int64_t axis = node_int(&n, ATTR_axis, 0);
    uint32_t *in = graph_alloc(r->g, all.in_count * sizeof *in);
    if (!in)
        return rewrite_failed(r, PEN_ERR_NO_MEMORY);
    for (uint32_t i = 0; i < all.in_count; i++)
        in[i] = node_int(&n, ATTR_new_axis, 0) != 0 ? one_axis(r, OP_Unsqueeze, n.name, all.in[i], axis) : all.in[i];
    uint32_t made = r->status == PEN_OK ? rewrite_node(r, OP_Concat, n.name, in, all.in_count) : VALUE_NONE;
    if (r->status == PEN_OK)
        r->status = graph_attr_int(r->g, r->g->values[made].producer, ATTR_axis, axis);
    return replace(r, made, node);
}

bool simplify_sequence(struct rewrite *r, uint32_t node)
{
    enum op op = r->g->nodes[node].op;
    return op == OP_SequenceAt           ? element_taken(r, node)
           : op == OP_ConcatFromSequence ? elements_joined(r, node)
                                         : false;
}
