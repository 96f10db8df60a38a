/* Operators with lists of axes, or of one number for each axis: reductions, slices, pads, resizing. */
#include "graph/layout.h"

#include <string.h>

/* Input `input` becomes a list of integers. */
static void set_list(struct turner *t, uint32_t node, uint32_t input, const int64_t *items, size_t count)
{
    uint32_t id = VALUE_NONE;
    enum pen_status status = graph_constant_i64(t->r.g, items, count, false, &id);
    if (status != PEN_OK)
        turn_failed(t, status);
    else
        set_input(t, node, input, id);
}

/* A constant list of 64-bit integers at an input; false when it is something else or longer. */
static bool get_list(const struct turner *t, const struct node *n, uint32_t input, int64_t *items, size_t room,
                     size_t *ret_count)
{
    if (input >= n->in_count || n->in[input] == VALUE_NONE)
        return false;
    const struct value *v = &t->r.g->values[n->in[input]];
    size_t count = v->bytes / sizeof *items;
    if (!v->data || v->dtype != PEN_DTYPE_I64 || count > room)
        return false;
    memcpy(items, v->data, v->bytes);
    *ret_count = count;
    return true;
}

static bool given(const struct node *n, uint32_t input)
{
    return input < n->in_count && n->in[input] != VALUE_NONE;
}

/* Marks what a reduction drops; all when there is no list. */
static bool reduced_axes(const struct turner *t, const struct node *n, int32_t rank, bool *ret_marked, bool *ret_any)
{
    int64_t axes[PEN_MAX_RANK];
    size_t count = 0;
    memset(ret_marked, 0, PEN_MAX_RANK * sizeof *ret_marked);
    if (given(n, 1) && !get_list(t, n, 1, axes, PEN_MAX_RANK, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(axes[i], rank);
        if (axis < 0)
            return false;
        ret_marked[axis] = true;
    }
    *ret_any = count > 0;
    return count > 0 || node_int(n, ATTR_noop_with_empty_axes, 0) == 0;
}

/* Without kept axes the result is in the old order when either the channels or all of space are gone. */
static bool order_survives(const bool *marked, int32_t rank)
{
    bool space = true;
    for (int32_t i = 2; i < rank; i++)
        space &= marked[i];
    return marked[1] || space;
}

bool turn_reduce(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    bool marked[PEN_MAX_RANK], any, keep = node_int(n, ATTR_keepdims, 1) != 0;
    int64_t axes[PEN_MAX_RANK];
    size_t count = 0;
    if (!turnable(rank) || !has_twin(t, n->in[0]) || !reduced_axes(t, n, rank, marked, &any))
        return false;
    if (any && !keep && !order_survives(marked, rank))
        return false;
    for (int32_t i = 0; i < rank && any; i++) {
        if (marked[i])
            axes[count++] = twin_axis(i, rank);
    }
    set_input(t, node, 0, t->twin[n->in[0]]);
    if (any)
        set_list(t, node, 1, axes, count);
    if (keep)
        turn_outputs(t, node);
    return true;
}

/* Makes room for inputs up to `count`. */
static bool widen(struct turner *t, uint32_t node, uint32_t count)
{
    struct node *n = turn_at(t, node);
    if (n->in_count >= count)
        return true;
    uint32_t *in = graph_alloc(t->r.g, count * sizeof *in);
    if (!in) {
        turn_failed(t, PEN_ERR_NO_MEMORY);
        return false;
    }
    for (uint32_t k = 0; k < count; k++)
        in[k] = k < n->in_count ? n->in[k] : VALUE_NONE;
    n->in = in;
    n->in_count = count;
    return true;
}

bool turn_slice(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    int64_t axes[PEN_MAX_RANK];
    size_t count;
    const struct fact *starts = rewrite_fact(&t->r, n->in[1]);
    if (!turnable(rank) || !has_twin(t, n->in[0]) || starts->dtype != PEN_DTYPE_I64)
        return false;
    if (given(n, 3)) {
        if (!get_list(t, n, 3, axes, PEN_MAX_RANK, &count))
            return false;
    } else {
        count = starts->shape.rank == 1 && starts->shape.dim[0] > 0 ? (size_t)starts->shape.dim[0] : 0;
        for (size_t i = 0; i < count && i < PEN_MAX_RANK; i++)
            axes[i] = (int64_t)i;
    }
    for (size_t i = 0; i < count && i < PEN_MAX_RANK; i++) {
        int32_t axis = shape_axis(axes[i], rank);
        if (axis < 0)
            return false;
        axes[i] = twin_axis(axis, rank);
    }
    if (count == 0 || count > PEN_MAX_RANK || !widen(t, node, 4))
        return false;
    set_input(t, node, 0, t->twin[turn_at(t, node)->in[0]]);
    set_list(t, node, 3, axes, count);
    turn_outputs(t, node);
    return true;
}

bool turn_pad(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    int64_t pads[2 * PEN_MAX_RANK], turned[2 * PEN_MAX_RANK];
    size_t count;
    if (!turnable(rank) || !has_twin(t, n->in[0]) || given(n, 3) ||
        !get_list(t, n, 1, pads, 2 * PEN_MAX_RANK, &count) || count != 2 * (size_t)rank)
        return false;
    for (int32_t i = 0; i < rank; i++) {
        turned[twin_axis(i, rank)] = pads[i];
        turned[rank + twin_axis(i, rank)] = pads[rank + i];
    }
    set_input(t, node, 0, t->twin[n->in[0]]);
    set_list(t, node, 1, turned, count);
    turn_outputs(t, node);
    return true;
}

/* The items of a list with one per axis, in the twin's order: rearranged by a Gather, which folds as soon as the list is known. */
static void permute_list(struct turner *t, uint32_t node, uint32_t input, int32_t rank)
{
    int64_t perm[PEN_MAX_RANK];
    uint32_t id = VALUE_NONE;
    perm_to_twin(rank, perm);
    enum pen_status status = graph_constant_i64(t->r.g, perm, (size_t)rank, false, &id);
    if (status != PEN_OK) {
        turn_failed(t, status);
        return;
    }
    uint32_t in[2] = {turn_at(t, node)->in[input], id};
    set_input(t, node, input, rewrite_node(&t->r, OP_Gather, turn_at(t, node)->name, in, 2));
}

bool turn_resize(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    uint32_t count;
    const int64_t *axes = node_ints(n, ATTR_axes, &count);
    if (node_int(n, ATTR_fixed_point, 0) != 0) /* made for height and width where they are */
        return false;
    if (!turnable(rank) || !has_twin(t, n->in[0]) || given(n, 1) || count > PEN_MAX_RANK)
        return false;
    for (uint32_t i = 0; axes && i < count; i++) {
        if (shape_axis(axes[i], rank) < 0)
            return false;
    }
    if (axes) {
        int64_t turned[PEN_MAX_RANK];
        for (uint32_t i = 0; i < count; i++)
            turned[i] = twin_axis(shape_axis(axes[i], rank), rank);
        enum pen_status status = graph_attr_ints(t->r.g, node, ATTR_axes, turned, count);
        if (status != PEN_OK)
            turn_failed(t, status);
    }
    for (uint32_t k = 2; k < turn_at(t, node)->in_count; k++) {
        if (!given(turn_at(t, node), k))
            continue;
        need_original(t, turn_at(t, node)->in[k]);
        if (!axes)
            permute_list(t, node, k, rank);
    }
    set_input(t, node, 0, t->twin[turn_at(t, node)->in[0]]);
    turn_outputs(t, node);
    return true;
}
