#include "graph/layout.h"

#include <string.h>

#define RANK_MAX 5 /* of images and volumes */

/* ---- small helpers -------------------------------------------------------------------------------------------------- */

bool turnable(int32_t rank)
{
    return rank >= 3 && rank <= RANK_MAX;
}

struct node *turn_at(struct turner *t, uint32_t node)
{
    return &t->r.g->nodes[node];
}

static void set_int(struct turner *t, uint32_t node, enum attr_key key, int64_t value)
{
    enum pen_status status = graph_attr_int(t->r.g, node, key, value);
    if (status != PEN_OK)
        turn_failed(t, status);
}

void turn_outputs(struct turner *t, uint32_t node)
{
    for (uint32_t k = 0; k < turn_at(t, node)->out_count; k++)
        output_twin(t, node, k);
}

/* ---- operators with an attribute for the layout -------------------------------------------------------------------------- */

static bool turn_spatial(struct turner *t, uint32_t node, bool seed)
{
    uint32_t x = turn_at(t, node)->in[0];
    int32_t rank = turn_rank(t, x);
    bool other = node_int(turn_at(t, node), ATTR_layout, LAYOUT_NCHW) != LAYOUT_NCHW || turn_at(t, node)->out_count > 1;
    if (!turnable(rank) || other || !(seed || has_twin(t, x)))
        return false;
    enum pen_dtype dtype = rewrite_fact(&t->r, x)->dtype;
    bool fast = rank <= 4 && (dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8);
    if (seed && !has_twin(t, x) && !fast)
        return false; /* no fast backend gains from turning these */
    uint32_t twin = need_twin(t, x, rank);
    for (uint32_t k = 1; k < turn_at(t, node)->in_count; k++)
        need_original(t, turn_at(t, node)->in[k]);
    set_input(t, node, 0, twin);
    set_int(t, node, ATTR_layout, LAYOUT_NHWC);
    turn_outputs(t, node);
    return true;
}

/* ---- element-wise ----------------------------------------------------------------------------------------------------------- */

static bool turn_unary(struct turner *t, uint32_t node)
{
    uint32_t x = turn_at(t, node)->in[0];
    if (!has_twin(t, x))
        return false;
    for (uint32_t k = 1; k < turn_at(t, node)->in_count; k++)
        need_original(t, turn_at(t, node)->in[k]); /* scalars */
    set_input(t, node, 0, t->twin[x]);
    turn_outputs(t, node);
    return true;
}

enum part { PART_KEEP, PART_TWIN, PART_CONSTANT, PART_OTHER, PART_NEVER };

/* What an input of a broadcasting operator of this rank would need. */
static enum part part_of(const struct turner *t, uint32_t value, int32_t rank)
{
    const struct fact *f = rewrite_fact(&t->r, value);
    if (value == VALUE_NONE || shape_elements(&f->shape) == 1)
        return f->shape.rank == rank && has_twin(t, value) ? PART_TWIN : PART_KEEP;
    if (t->r.g->values[value].data)
        return pen_dtype_bits(f->dtype) >= 8 && f->shape.rank <= rank ? PART_CONSTANT : PART_NEVER;
    if (f->shape.rank != rank)
        return PART_NEVER;
    return has_twin(t, value) ? PART_TWIN : PART_OTHER;
}

/* Which inputs are data: every one, or with scales and zero points between them. */
struct data_inputs {
    uint32_t first, step;
};

static struct data_inputs data_inputs_of(enum op op)
{
    return op == OP_QLinearAdd || op == OP_QLinearMul ? (struct data_inputs){0, 3}
           : op == OP_QLinearConcat                   ? (struct data_inputs){2, 3}
                                                      : (struct data_inputs){0, 1};
}

/* The others: scalars, which have no layout. */
static void other_inputs(struct turner *t, uint32_t node)
{
    struct data_inputs data = data_inputs_of(turn_at(t, node)->op);
    for (uint32_t k = 0; k < turn_at(t, node)->in_count; k++) {
        if (k < data.first || (k - data.first) % data.step != 0)
            need_original(t, turn_at(t, node)->in[k]);
    }
}

static uint32_t data_end(const struct node *n)
{
    return n->op == OP_QLinearAdd || n->op == OP_QLinearMul ? 6 : n->in_count;
}

/* Turning pays when at least as many inputs would have to be made from their twin else, as would need one. */
static bool parts_agree(const struct turner *t, const struct node *n, int32_t rank)
{
    struct data_inputs data = data_inputs_of(n->op);
    uint32_t twins = 0, lazy = 0, others = 0;
    for (uint32_t k = data.first; k < data_end(n); k += data.step) {
        enum part part = part_of(t, n->in[k], rank);
        if (part == PART_NEVER)
            return false;
        twins += part == PART_TWIN;
        lazy += part == PART_TWIN && t->lazy[n->in[k]];
        others += part == PART_OTHER;
    }
    return twins > 0 && lazy >= others;
}

static void turn_parts(struct turner *t, uint32_t node, int32_t rank)
{
    struct data_inputs data = data_inputs_of(turn_at(t, node)->op);
    other_inputs(t, node);
    for (uint32_t k = data.first; k < data_end(turn_at(t, node)); k += data.step) {
        uint32_t value = turn_at(t, node)->in[k];
        enum part part = part_of(t, value, rank);
        if (part == PART_KEEP && value != VALUE_NONE)
            need_original(t, value);
        else if (part != PART_KEEP)
            set_input(t, node, k, need_twin(t, value, rank));
    }
    turn_outputs(t, node);
}

static bool turn_broadcast(struct turner *t, uint32_t node)
{
    int32_t rank = turn_rank(t, turn_at(t, node)->out[0]);
    if (!turnable(rank) || !parts_agree(t, turn_at(t, node), rank))
        return false;
    turn_parts(t, node, rank);
    return true;
}

/* ---- operators with an axis ----------------------------------------------------------------------------------------------------- */

static bool turn_axis(struct turner *t, uint32_t node, int64_t def)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]), axis = turnable(rank) ? shape_axis(node_int(n, ATTR_axis, def), rank) : -1;
    if (axis < 0 || !has_twin(t, n->in[0]))
        return false;
    for (uint32_t k = 1; k < turn_at(t, node)->in_count; k++)
        need_original(t, turn_at(t, node)->in[k]);
    set_input(t, node, 0, t->twin[turn_at(t, node)->in[0]]);
    set_int(t, node, ATTR_axis, twin_axis(axis, rank));
    turn_outputs(t, node);
    return true;
}

static bool turn_concat(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->out[0]), axis = turnable(rank) ? shape_axis(node_int(n, ATTR_axis, 0), rank) : -1;
    struct data_inputs data = data_inputs_of(n->op);
    if (axis < 0 || !parts_agree(t, n, rank))
        return false;
    for (uint32_t k = data.first; k < n->in_count; k += data.step) {
        if (turn_rank(t, n->in[k]) != rank)
            return false;
    }
    other_inputs(t, node);
    for (uint32_t k = data.first; k < turn_at(t, node)->in_count; k += data.step)
        set_input(t, node, k, need_twin(t, turn_at(t, node)->in[k], rank));
    set_int(t, node, ATTR_axis, twin_axis(axis, rank));
    turn_outputs(t, node);
    return true;
}

static bool turn_arg(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    bool keep = node_int(n, ATTR_keepdims, 1) != 0;
    int32_t axis = turnable(rank) ? shape_axis(node_int(n, ATTR_axis, 0), rank) : -1;
    if (axis < 0 || !has_twin(t, n->in[0]) || (!keep && axis != 1))
        return false;
    set_input(t, node, 0, t->twin[n->in[0]]);
    set_int(t, node, ATTR_axis, twin_axis(axis, rank));
    if (keep)
        turn_outputs(t, node);
    return true;
}

/* Quantisation per tensor has no axis that matters. */
static bool turn_quantise(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    if (node_int(n, ATTR_block_size, 0) != 0)
        return false;
    return shape_elements(&rewrite_fact(&t->r, n->in[1])->shape) == 1 ? turn_unary(t, node) : turn_axis(t, node, 1);
}

/* ---- transposes, shapes ----------------------------------------------------------------------------------------------------------------- */

static bool is_perm(const int64_t *perm, const int64_t *want, int32_t rank)
{
    return memcmp(perm, want, (size_t)rank * sizeof *perm) == 0;
}

/* The Transpose of a value that has a twin reads the twin; where it gave the twin's order, it goes. */
static bool retarget(struct turner *t, uint32_t node, const int64_t *perm, int32_t rank)
{
    uint32_t x = turn_at(t, node)->in[0], twin = t->twin[x];
    int64_t joined[PEN_MAX_RANK];
    bool identity = true;
    for (int32_t i = 0; i < rank; i++) {
        joined[i] = twin_axis((int32_t)perm[i], rank);
        identity &= joined[i] == i;
    }
    uint32_t out = turn_at(t, node)->out[0];
    if (identity && !rewrite_is_output(&t->r, out)) {
        (void)rewrite_bypass(&t->r, node, twin);
        return true;
    }
    enum pen_status status = graph_attr_ints(t->r.g, node, ATTR_perm, joined, (uint32_t)rank);
    if (status != PEN_OK)
        turn_failed(t, status);
    set_input(t, node, 0, twin);
    return true;
}

static bool turn_transpose(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    uint32_t count;
    const int64_t *perm = node_ints(n, ATTR_perm, &count);
    int64_t back[PEN_MAX_RANK];
    rank = rank < 0 ? (int32_t)count : rank; /* a value that this pass made */
    if (!turnable(rank) || !perm || count != (uint32_t)rank)
        return false;
    for (int32_t i = 0; i < rank; i++) {
        if (perm[i] < 0 || perm[i] >= rank)
            return false;
    }
    if (has_twin(t, n->in[0]))
        return retarget(t, node, perm, rank);
    perm_from_twin(rank, back);
    if (is_perm(perm, back, rank)) /* the file's own step from channels-last: its input is the twin */
        t->twin[n->out[0]] = n->in[0];
    return false;
}

/* Shape of a lazy value: the twin's, put back in order. */
static bool turn_shape(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    int32_t rank = turn_rank(t, n->in[0]);
    int64_t perm[PEN_MAX_RANK];
    uint32_t order = VALUE_NONE, out = n->out[0], x = n->in[0];
    if (!turnable(rank) || !has_twin(t, x) || !t->lazy[x] || node_attr(n, ATTR_start) || node_attr(n, ATTR_end) ||
        rewrite_is_output(&t->r, out))
        return false;
    perm_from_twin(rank, perm);
    enum pen_status status = graph_constant_i64(t->r.g, perm, (size_t)rank, false, &order);
    if (status != PEN_OK) {
        turn_failed(t, status);
        return true;
    }
    uint32_t shape = rewrite_node(&t->r, OP_Shape, n->name, &t->twin[x], 1), made;
    uint32_t in[2] = {shape, order};
    uses_kill(&t->r.uses, node);
    if (t->r.status == PEN_OK)
        status = graph_node(t->r.g, OP_Gather, turn_at(t, node)->name, in, 2, &out, 1, &made);
    if (status == PEN_OK && t->r.status == PEN_OK)
        status = uses_add(&t->r.uses, made);
    if (status != PEN_OK)
        turn_failed(t, status);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------------------ */

static bool by_traits(struct turner *t, uint32_t node)
{
    uint32_t traits = op_def(turn_at(t, node)->op)->traits;
    if (traits & OP_UNARY)
        return turn_unary(t, node);
    return (traits & OP_BINARY) && turn_broadcast(t, node);
}

bool turn_node(struct turner *t, uint32_t node)
{
    const struct node *n = turn_at(t, node);
    if (n->in_count == 0 || n->out_count == 0 || n->in[0] == VALUE_NONE || n->out[0] == VALUE_NONE)
        return false;
    switch (n->op) {
    case OP_Conv:
    case OP_ConvInteger:
    case OP_ConvTranspose:
    case OP_QLinearConv:
    case OP_MaxPool:
    case OP_AveragePool:
    case OP_QLinearAveragePool:
        return turn_spatial(t, node, true);
    case OP_QLinearGlobalAveragePool:
    case OP_GlobalAveragePool:
    case OP_GlobalMaxPool:
    case OP_BatchNormalization:
    case OP_InstanceNormalization:
    case OP_DepthToSpace:
    case OP_SpaceToDepth:
        return turn_spatial(t, node, false);
    case OP_Identity:
    case OP_Cast:
    case OP_CastLike:
    case OP_IsNaN:
    case OP_IsInf:
        return turn_unary(t, node);
    case OP_Dropout:
        return n->out_count == 1 && turn_unary(t, node);
    case OP_Softmax:
    case OP_LogSoftmax:
    case OP_Hardmax:
        return turn_axis(t, node, -1);
    case OP_Split:
        return turn_axis(t, node, 0);
    case OP_Concat:
    case OP_QLinearConcat:
        return turn_concat(t, node);
    case OP_QuantizeLinear:
    case OP_DequantizeLinear:
        return turn_quantise(t, node);
    case OP_ArgMax:
    case OP_ArgMin:
        return turn_arg(t, node);
    case OP_Slice:
        return turn_slice(t, node);
    case OP_Pad:
        return turn_pad(t, node);
    case OP_Resize:
        return turn_resize(t, node);
    case OP_Transpose:
        return turn_transpose(t, node);
    case OP_Shape:
        return turn_shape(t, node);
    case OP_Reshape:
        return turn_shuffle(t, node);
    default:
        break;
    }
    bool sums = n->op >= OP_ReduceL1 && n->op <= OP_ReduceSumSquare;
    return sums ? turn_reduce(t, node) : by_traits(t, node);
}
