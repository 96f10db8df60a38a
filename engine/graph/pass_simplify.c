/* Nodes that change nothing, and views of views. */
#include <string.h>

#include "graph/pass_internal.h"

static bool same_known_shape(const struct rewrite *r, uint32_t a, uint32_t b)
{
    const struct fact *x = rewrite_fact(r, a), *y = rewrite_fact(r, b);
    return x->dtype != PEN_DTYPE_NONE && shape_known(&x->shape) && shape_equal(&x->shape, &y->shape);
}

/* training_mode absent or known to be false, the mask unused. */
static bool idle_dropout(const struct rewrite *r, const struct node *n)
{
    const struct fact *mode = n->in_count > 2 ? rewrite_fact(r, n->in[2]) : NULL;
    bool off =
        !mode || n->in[2] == VALUE_NONE || (mode->data && mode->bytes == 1 && *(const unsigned char *)mode->data == 0);
    bool mask = n->out_count > 1 && n->out[1] != VALUE_NONE &&
                (uses_count(&r->uses, n->out[1]) > 0 || rewrite_is_output(r, n->out[1]));
    return off && !mask;
}

static bool all_zero(const struct fact *f)
{
    const unsigned char *bytes = f->data;
    for (size_t i = 0; bytes && i < f->bytes; i++) {
        if (bytes[i])
            return false;
    }
    return bytes != NULL;
}

static bool identity_perm(const struct rewrite *r, const struct node *n)
{
    uint32_t count;
    const int64_t *perm = node_ints(n, ATTR_perm, &count);
    for (uint32_t i = 0; perm && i < count; i++) {
        if (perm[i] != (int64_t)i)
            return false;
    }
    return perm || rewrite_fact(r, n->in[0])->shape.rank == 1;
}

/* A target whose numbers are those of the input, known or copied, but for one that is left to the count of elements: an open batch stays what it is. */
static bool reshapes_to_itself(const struct rewrite *r, const struct node *n)
{
    const struct fact *x = rewrite_fact(r, n->in[0]), *target = rewrite_fact(r, n->in[1]);
    const int64_t *to = target->data;
    const bool copies = node_int(n, ATTR_allowzero, 0) == 0;
    uint32_t left = 0;
    if (x->dtype == PEN_DTYPE_NONE || to == NULL || target->dtype != PEN_DTYPE_I64 || x->shape.rank < 1 ||
        target->bytes != (size_t)x->shape.rank * sizeof *to)
        return false;
    for (int32_t i = 0; i < x->shape.rank; i++) {
        const int64_t dim = x->shape.dim[i];
        if (to[i] == -1)
            left++;
        else if (!(to[i] == 0 && copies) && (dim <= 0 || to[i] != dim))
            return false;
    }
    return left <= 1;
}

static bool changes_nothing(const struct rewrite *r, const struct node *n)
{
    if (n->out[0] == VALUE_NONE)
        return false;
    switch (n->op) {
    case OP_Identity:
        return true;
    case OP_Dropout:
        return idle_dropout(r, n);
    case OP_Cast:
    case OP_CastLike: {
        enum pen_dtype from = rewrite_fact(r, n->in[0])->dtype, to = rewrite_fact(r, n->out[0])->dtype;
        return from != PEN_DTYPE_NONE && from == to;
    }
    case OP_Reshape:
        return reshapes_to_itself(r, n) || same_known_shape(r, n->in[0], n->out[0]);
    case OP_Squeeze:
    case OP_Unsqueeze:
    case OP_Flatten:
    case OP_Expand:
    case OP_Tile:
    case OP_Slice:
        return same_known_shape(r, n->in[0], n->out[0]) && (n->op != OP_Slice || n->in_count < 5);
    case OP_Pad:
        return n->in_count > 1 && all_zero(rewrite_fact(r, n->in[1]));
    case OP_Transpose:
        return identity_perm(r, n);
    case OP_Concat:
    case OP_Sum:
    case OP_Mean:
    case OP_Max:
    case OP_Min:
        return n->in_count == 1;
    case OP_Split:
        return n->out_count == 1;
    default:
        return false;
    }
}

/* A target shape without copies of input axes means the same whatever stands before. */
static bool absolute_shape(const struct rewrite *r, const struct node *n)
{
    const struct fact *f = rewrite_fact(r, n->in[1]);
    if (!f->data || f->dtype != PEN_DTYPE_I64)
        return false;
    for (size_t i = 0; i < f->bytes / sizeof(int64_t); i++) {
        if (((const int64_t *)f->data)[i] == 0)
            return false;
    }
    return true;
}

bool rewrite_is_view(const struct node *n)
{
    return n->op == OP_Reshape || n->op == OP_Squeeze || n->op == OP_Unsqueeze || n->op == OP_Flatten;
}

/* Reshape of a view reads what the view read. */
static bool skip_view(struct rewrite *r, uint32_t node)
{
    struct node *n = &r->g->nodes[node];
    const struct node *before = rewrite_maker(r, n->in[0]);
    if (n->op != OP_Reshape || !before || !rewrite_is_view(before) || !absolute_shape(r, n))
        return false;
    enum pen_status status = uses_set(&r->uses, node, 0, before->in[0]);
    return status == PEN_OK || rewrite_failed(r, status);
}

/* Transpose of a transpose is one. */
static bool join_transposes(struct rewrite *r, uint32_t node)
{
    struct node *n = &r->g->nodes[node];
    const struct node *before = rewrite_maker(r, n->in[0]);
    uint32_t count, count_before;
    if (n->op != OP_Transpose || !before || before->op != OP_Transpose)
        return false;
    const int64_t *second = node_ints(n, ATTR_perm, &count), *first = node_ints(before, ATTR_perm, &count_before);
    int64_t joined[PEN_MAX_RANK];
    if (!second || !first || count != count_before || count > PEN_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (second[i] < 0 || second[i] >= count)
            return false;
        joined[i] = first[second[i]];
    }
    enum pen_status status = graph_attr_ints(r->g, node, ATTR_perm, joined, count);
    if (status == PEN_OK)
        status = uses_set(&r->uses, node, 0, before->in[0]);
    return status == PEN_OK || rewrite_failed(r, status);
}

/* CastLike needs its second input only for the type. */
static void cast_like_to_cast(struct rewrite *r, uint32_t node)
{
    struct node *n = &r->g->nodes[node];
    enum pen_dtype to = n->op == OP_CastLike ? rewrite_fact(r, n->in[1])->dtype : PEN_DTYPE_NONE;
    if (to == PEN_DTYPE_NONE)
        return;
    enum pen_status status = uses_set(&r->uses, node, 1, VALUE_NONE);
    if (status == PEN_OK)
        status = graph_attr_int(r->g, node, ATTR_to, to);
    n = &r->g->nodes[node];
    n->in_count = 1;
    n->op = OP_Cast;
    if (status != PEN_OK)
        rewrite_failed(r, status);
}

/*
 * Softmax as older opsets define it arrives as Flatten, Softmax over the last axis, Reshape back: where the matrix view only joins leading axes, the
 * views go.
 */
static bool unwrap_softmax(struct rewrite *r, uint32_t node)
{
    struct node *n = &r->g->nodes[node];
    struct node *back = NULL;
    if (n->op != OP_Softmax && n->op != OP_LogSoftmax && n->op != OP_Hardmax)
        return false;
    const struct node *flat = rewrite_only_maker(r, n->in[0], OP_Flatten);
    uint32_t reader = uses_single(&r->uses, n->out[0]);
    if (reader != NODE_NONE)
        back = &r->g->nodes[reader];
    if (!flat || !back || back->op != OP_Reshape || node_int(n, ATTR_axis, -1) != -1)
        return false;
    const struct fact *x = rewrite_fact(r, flat->in[0]), *y = rewrite_fact(r, back->out[0]);
    int32_t axis = x->shape.rank < 1 ? -1 : shape_axis(node_int(flat, ATTR_axis, 1), x->shape.rank);
    bool same_rank = y->shape.rank == x->shape.rank;
    const struct node *sized = rewrite_maker(r, back->in[1]);
    bool same = (shape_known(&x->shape) && shape_equal(&x->shape, &y->shape)) ||
                (sized && sized->op == OP_Shape && sized->in[0] == flat->in[0]);
    for (int32_t i = axis + 1; axis >= 0 && i < x->shape.rank; i++)
        same_rank &= x->shape.dim[i] == 1; /* the cut axis, and only ones behind it */
    if (axis < 0 || !same || !(same_rank || axis == x->shape.rank - 1))
        return false;
    enum pen_status status = graph_attr_int(r->g, node, ATTR_axis, axis);
    if (status == PEN_OK)
        status = uses_set(&r->uses, node, 0, flat->in[0]);
    if (status != PEN_OK)
        return rewrite_failed(r, status);
    rewrite_absorb(r, node, reader);
    return true;
}

void simplify(struct rewrite *r, uint32_t *ret_count)
{
    uint32_t count = r->g->node_count;
    for (uint32_t i = 0; i < count && r->status == PEN_OK; i++) {
        if (r->g->nodes[i].dead || r->g->nodes[i].out_count == 0)
            continue;
        while (skip_view(r, i) || join_transposes(r, i))
            ++*ret_count;
        cast_like_to_cast(r, i);
        *ret_count += simplify_sequence(r, i);
        if (unwrap_softmax(r, i))
            *ret_count += 2;
        if (!r->g->nodes[i].dead && changes_nothing(r, &r->g->nodes[i]))
            *ret_count += rewrite_bypass(r, i, r->g->nodes[i].in[0]);
    }
}

enum pen_status pass_dead(struct graph *g, uint32_t *ret_count)
{
    struct rewrite r;
    uint32_t before = g->node_count, ignored = 0;
    enum pen_status status = rewrite_init(&r, g, false, NULL);
    if (status != PEN_OK)
        return status;
    simplify(&r, &ignored);
    status = r.status;
    rewrite_fini(&r);
    if (status == PEN_OK)
        status = graph_compact(g);
    if (status == PEN_OK && ret_count && before > g->node_count)
        *ret_count += before - g->node_count;
    return status;
}
