#include "graph/pass_internal.h"

#include <string.h>

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

/* Element `index` of a split, as a slice; VALUE_NONE: it cannot be told. */
static uint32_t split_piece(struct rewrite *r, const struct node *split, const char *name, int64_t index)
{
    const struct node s = *split;
    const struct shape *x = &rewrite_fact(r, s.in[0])->shape;
    int32_t axis = x->rank > 0 ? shape_axis(node_int(&s, ATTR_axis, 0), x->rank) : -1;
    int64_t from, to, at = axis;
    if (axis < 0 || x->dim[axis] < 1 || !part_of(r, &s, x->dim[axis], index, &from, &to))
        return VALUE_NONE;
    bool listed = s.in_count > 1 && s.in[1] != VALUE_NONE;
    uint32_t in[4] = {s.in[0]};
    const int64_t *numbers[3] = {&from, &to, &at};
    for (int i = 0; i < 3 && r->status == PEN_OK; i++)
        r->status = graph_constant_i64(r->g, numbers[i], 1, false, &in[i + 1]);
    uint32_t made = r->status == PEN_OK ? rewrite_node(r, OP_Slice, name, in, 4) : VALUE_NONE;
    if (!listed && node_int(&s, ATTR_keepdims, 1) == 0)
        made = one_axis(r, OP_Squeeze, name, made, at);
    return made;
}

static bool split_part(struct rewrite *r, uint32_t node, const struct node *split, int64_t index)
{
    uint32_t made = split_piece(r, split, r->g->nodes[node].name, index);
    return made != VALUE_NONE && replace(r, made, node);
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

/* All pieces of a split side by side again: what was split. */
static bool pieces_rejoined(struct rewrite *r, uint32_t node)
{
    struct node *n = &r->g->nodes[node];
    const struct node *from = rewrite_maker(r, n->in[0]);
    if (!from || from->op != OP_SplitToSequence)
        return false;
    bool listed = from->in_count > 1 && from->in[1] != VALUE_NONE;
    bool apart = !listed && node_int(from, ATTR_keepdims, 1) == 0;
    if (apart != (node_int(n, ATTR_new_axis, 0) != 0) || node_int(n, ATTR_axis, 0) != node_int(from, ATTR_axis, 0))
        return false;
    r->status = uses_set(&r->uses, node, 0, from->in[0]);
    n->op = OP_Identity;
    return r->status == PEN_OK;
}

/* ---- lists that change ------------------------------------------------------------------------------------------------------- */

#define APART_MAX 64 /* pieces of a split that are listed one by one */

/* How many elements it has; -1: that is not known. */
static int64_t elements_count(const struct rewrite *r, uint32_t sequence)
{
    const struct node *n = rewrite_maker(r, sequence);
    if (n && n->op == OP_SequenceConstruct)
        return n->in_count;
    if (!n || n->op != OP_SplitToSequence)
        return n && n->op == OP_SequenceEmpty ? 0 : -1;
    const struct shape *x = &rewrite_fact(r, n->in[0])->shape;
    int32_t axis = x->rank > 0 ? shape_axis(node_int(n, ATTR_axis, 0), x->rank) : -1;
    bool listed = n->in_count > 1 && n->in[1] != VALUE_NONE;
    const struct shape *lengths = listed ? &rewrite_fact(r, n->in[1])->shape : NULL;
    if (listed)
        return lengths->rank == 1 ? lengths->dim[0] : -1;
    return axis < 0 ? -1 : x->dim[axis];
}

/* The elements one by one: items has room for APART_MAX + 1. Gives how many; -1: they are not known, or there are more. */
static int64_t elements_list(struct rewrite *r, uint32_t sequence, const char *name, uint32_t *items)
{
    int64_t count = elements_count(r, sequence);
    if (count < 0 || count > APART_MAX)
        return -1;
    const struct node from = *rewrite_maker(r, sequence);
    for (int64_t i = 0; i < count && from.op == OP_SequenceConstruct; i++)
        items[i] = from.in[i];
    for (int64_t i = 0; i < count && from.op == OP_SplitToSequence; i++) {
        items[i] = split_piece(r, &from, name, i);
        if (items[i] == VALUE_NONE)
            return -1;
    }
    return count;
}

/* The place that input `index` of the node tells, from 0 to `last`; none: `last`. -1: it is not known, or outside. */
static int64_t place_of(const struct rewrite *r, const struct node *n, uint32_t index, int64_t count, int64_t last)
{
    int64_t at = last;
    if (n->in_count > index && n->in[index] != VALUE_NONE) {
        if (!one_integer(r, n->in[index], &at))
            return -1;
        at += at < 0 ? count : 0;
    }
    return at >= 0 && at <= last ? at : -1;
}

/* A list with another item, or one less, is a list of its items. */
static bool list_changed(struct rewrite *r, uint32_t node)
{
    const struct node n = r->g->nodes[node];
    uint32_t items[APART_MAX + 1], made = VALUE_NONE;
    bool more = n.op == OP_SequenceInsert;
    int64_t count = elements_count(r, n.in[0]), at = place_of(r, &n, more ? 2 : 1, count, more ? count : count - 1);
    if (count < 0 || at < 0 || elements_list(r, n.in[0], n.name, items) != count)
        return false;
    memmove(items + at + more, items + at + !more, (size_t)(count - at - !more) * sizeof *items);
    if (more)
        items[at] = n.in[1];
    count += more ? 1 : -1;
    made = rewrite_node(r, count > 0 ? OP_SequenceConstruct : OP_SequenceEmpty, n.name, items, (uint32_t)count);
    if (r->status == PEN_OK && count == 0)
        r->status = graph_attr_int(r->g, r->g->values[made].producer, ATTR_dtype, r->g->values[n.out[0]].dtype);
    return replace(r, made, node);
}

static bool length_known(struct rewrite *r, uint32_t node)
{
    int64_t count = elements_count(r, r->g->nodes[node].in[0]);
    uint32_t length = VALUE_NONE;
    if (count < 0 || rewrite_is_output(r, r->g->nodes[node].out[0]))
        return false;
    r->status = graph_constant_i64(r->g, &count, 1, true, &length);
    return r->status == PEN_OK && rewrite_bypass(r, node, length);
}

bool simplify_sequence(struct rewrite *r, uint32_t node)
{
    switch (r->g->nodes[node].op) {
    case OP_SequenceAt:
        return element_taken(r, node);
    case OP_ConcatFromSequence:
        return elements_joined(r, node) || pieces_rejoined(r, node);
    case OP_SequenceInsert:
    case OP_SequenceErase:
        return list_changed(r, node);
    case OP_SequenceLength:
        return length_known(r, node);
    default:
        return false;
    }
}
