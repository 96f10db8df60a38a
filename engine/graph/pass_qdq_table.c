#include "graph/pass_qdq.h"

#include "graph/kept.h"

/*
 * Functions of one byte: whatever element-wise operators make of the bytes of one tensor, with numbers that are constant, is a table of 256 answers. What they
 * make of all 256 bytes folds into a constant. So x * sigmoid(x) is one pass over memory, and the table's bytes are those that the operators would give.
 */

#define STEPS_MOST  24 /* operators that are looked at for one table */
#define INPUTS_MOST 8

struct search {
    struct qdq *q;
    uint32_t steps; /* left */
};

static bool is_byte(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

static bool holds_bytes(const struct qdq *q, uint32_t value)
{
    enum pen_dtype dtype = q->r.g->values[value].dtype;
    return is_byte(dtype != PEN_DTYPE_NONE ? dtype : rewrite_fact(&q->r, value)->dtype);
}

static bool is_number(const struct qdq *q, uint32_t value)
{
    const struct value *v = value == VALUE_NONE ? NULL : &q->r.g->values[value];
    return v && v->data && shape_elements(&v->shape) == 1;
}

/* One scale and zero point, both constant. */
static bool is_conversion(const struct qdq *q, const struct node *n)
{
    bool op = n->op == OP_DequantizeLinear || n->op == OP_QuantizeLinear;
    return op && node_int(n, ATTR_block_size, 0) == 0 && is_number(q, n->in[1]) &&
           (n->in_count < 3 || n->in[2] == VALUE_NONE || is_number(q, n->in[2]));
}

/* A number, or what a conversion makes of one. */
static bool is_settled(const struct qdq *q, uint32_t value)
{
    const struct node *n = value == VALUE_NONE ? NULL : rewrite_maker(&q->r, value);
    return is_number(q, value) || (n && is_conversion(q, n) && is_number(q, n->in[0]));
}

/* Inputs of n that its element-wise function is of; 0: it is not one, or more than numbers decide it besides. */
static uint32_t data_inputs(const struct qdq *q, const struct node *n)
{
    unsigned traits = n ? op_def(n->op)->traits : 0;
    bool pair = n && (n->op == OP_QLinearAdd || n->op == OP_QLinearMul);
    if (!n || n->out_count != 1 || n->in_count == 0 || n->in_count > INPUTS_MOST || n->op == OP_Mod ||
        !((traits & (OP_UNARY | OP_BINARY)) || is_conversion(q, n)))
        return 0;
    for (uint32_t k = 1; k < n->in_count && !(traits & OP_BINARY && !pair) && n->op != OP_ByteTable; k++) {
        if (n->in[k] != VALUE_NONE && !is_number(q, n->in[k]) && !(pair && k == 3))
            return 0;
    }
    return pair ? 4 : traits & OP_BINARY ? n->in_count : 1;
}

/* Input k of n is data, not a parameter. */
static bool is_data(const struct node *n, uint32_t k, uint32_t data)
{
    bool pair = n->op == OP_QLinearAdd || n->op == OP_QLinearMul;
    return k < data && (!pair || k % 3 == 0);
}

static uint32_t root_of(struct search *s, uint32_t value);

/* Floats between are nobody else's: whoever reads them needs them as they are. */
static bool is_private(const struct qdq *q, uint32_t value)
{
    const struct node *n = rewrite_maker(&q->r, value);
    return holds_bytes(q, value) || (n && n->op == OP_DequantizeLinear) ||
           (uses_count(&q->r.uses, value) == 1 && !rewrite_is_output(&q->r, value));
}

/* The one tensor of bytes that all data inputs come from; VALUE_NONE when there are several, or none. */
static uint32_t common_root(struct search *s, const struct node *n)
{
    uint32_t data = data_inputs(s->q, n), root = VALUE_NONE;
    if (data == 0 || s->steps == 0)
        return VALUE_NONE;
    s->steps--;
    for (uint32_t k = 0; k < data; k++) {
        if (!is_data(n, k, data) || is_settled(s->q, n->in[k]))
            continue;
        uint32_t one = n->in[k] == VALUE_NONE || !is_private(s->q, n->in[k]) ? VALUE_NONE : root_of(s, n->in[k]);
        if (one == VALUE_NONE || (root != VALUE_NONE && root != one))
            return VALUE_NONE;
        root = one;
    }
    return root;
}

/* The bytes that the value is a function of: itself, when it holds bytes that come from elsewhere. VALUE_NONE: none. */
static uint32_t root_of(struct search *s, uint32_t value)
{
    uint32_t root = common_root(s, rewrite_maker(&s->q->r, value));
    return root != VALUE_NONE ? root : holds_bytes(s->q, value) && !s->q->r.g->values[value].data ? value : VALUE_NONE;
}

/* All 256 bytes in their order. */
static uint32_t bytes_all(struct qdq *q, enum pen_dtype dtype)
{
    uint8_t *bytes = graph_alloc(q->r.g, 256);
    const int64_t count = 256;
    const struct shape shape = shape_of(1, &count);
    uint32_t id = VALUE_NONE;
    for (int i = 0; bytes && i < 256; i++)
        bytes[i] = (uint8_t)i;
    if (!bytes || graph_constant(q->r.g, NULL, dtype, &shape, bytes, 256, false, &id) != PEN_OK)
        rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
    return id;
}

/* A number without dims: the answers have the shape of the bytes, whatever dims the file gives its numbers. */
static uint32_t bare(struct qdq *q, uint32_t value)
{
    const struct value *v = &q->r.g->values[value];
    const struct shape none = shape_scalar();
    uint32_t id = VALUE_NONE;
    if (v->shape.rank == 0 || q->r.status != PEN_OK)
        return value;
    if (graph_constant(q->r.g, NULL, v->dtype, &none, v->data, v->bytes, true, &id) != PEN_OK)
        rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
    return id;
}

/* What `value` is where `root` holds `all`. */
static uint32_t answers(struct qdq *q, uint32_t value, uint32_t root, uint32_t all)
{
    struct graph *g = q->r.g;
    if (value == root || value == VALUE_NONE || q->r.status != PEN_OK)
        return value == root ? all : value;
    if (g->values[value].data)
        return is_number(q, value) ? bare(q, value) : value;
    const uint32_t node = g->values[value].producer;
    uint32_t in[INPUTS_MOST], count = g->nodes[node].in_count, data = data_inputs(q, &g->nodes[node]);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t from = g->nodes[node].in[k];
        in[k] = is_data(&g->nodes[node], k, data) ? answers(q, from, root, all) : from;
    }
    if (q->r.status != PEN_OK)
        return VALUE_NONE;
    uint32_t y = rewrite_node(&q->r, g->nodes[node].op, g->nodes[node].name, in, count);
    for (uint32_t i = 0; y != VALUE_NONE && i < g->nodes[node].attr_count && q->r.status == PEN_OK; i++)
        q->r.status = graph_attr_set(g, g->values[y].producer, &g->nodes[node].attrs[i]);
    return y;
}

/* The bytes that node's result is a function of; VALUE_NONE: there is no such tensor, or numbers of more dims decide the result's shape. */
static uint32_t source_of(struct qdq *q, uint32_t node)
{
    const struct node *n = &q->r.g->nodes[node];
    struct search s = {q, STEPS_MOST};
    uint32_t root = common_root(&s, n);
    if (root == VALUE_NONE)
        return VALUE_NONE;
    int32_t rank = rewrite_fact(&q->r, root)->shape.rank;
    return rank >= 0 && rank == rewrite_fact(&q->r, n->out[0])->shape.rank ? root : VALUE_NONE;
}

static bool table_put(struct qdq *q, uint32_t node, uint32_t root)
{
    struct graph *g = q->r.g;
    enum pen_dtype dtype =
        g->values[root].dtype != PEN_DTYPE_NONE ? g->values[root].dtype : rewrite_fact(&q->r, root)->dtype;
    uint32_t all = bytes_all(q, dtype), in[2] = {root, VALUE_NONE}, made = VALUE_NONE;
    if (q->r.status == PEN_OK)
        in[1] = answers(q, g->nodes[node].out[0], root, all);
    if (q->r.status == PEN_OK)
        made = rewrite_node(&q->r, OP_ByteTable, g->nodes[node].name, in, 2);
    if (made == VALUE_NONE)
        return false;
    g->nodes[g->values[made].producer].origin = g->nodes[node].origin;
    rewrite_absorb(&q->r, g->values[made].producer, node);
    q->count++;
    return true;
}

bool qdq_table(struct qdq *q, uint32_t last)
{
    uint32_t root = KEPT(graph_ByteTable) ? source_of(q, last) : VALUE_NONE;
    return root != VALUE_NONE && table_put(q, last, root);
}

/* A function of bytes whose input is one, too, and nobody else's. */
static bool follows(const struct qdq *q, const struct node *n)
{
    const struct node *before = rewrite_maker(&q->r, n->in[0]);
    return before && data_inputs(q, before) > 0 && holds_bytes(q, n->in[0]) && uses_count(&q->r.uses, n->in[0]) == 1 &&
           !rewrite_is_output(&q->r, n->in[0]);
}

void qdq_join_tables(struct qdq *q)
{
    const uint32_t nodes = q->r.g->node_count;
    for (uint32_t i = 0; i < nodes && q->r.status == PEN_OK && KEPT(graph_ByteTable); i++) {
        const struct node *n = &q->r.g->nodes[i];
        bool pair = n->op == OP_QLinearAdd || n->op == OP_QLinearMul;
        bool single =
            n->op == OP_ByteTable || n->op == OP_QLinearSigmoid || n->op == OP_QLinearLeakyRelu || n->op == OP_Clip;
        if (n->dead || !(pair || (single && follows(q, n))))
            continue;
        uint32_t root = source_of(q, i);
        if (root != VALUE_NONE && (pair || root != n->in[0]))
            table_put(q, i, root);
    }
}
