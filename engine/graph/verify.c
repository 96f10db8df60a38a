#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"

static enum pen_status fail(struct pen_error *reterr, const struct graph *g, uint32_t node, const char *what)
{
    const struct node *n = &g->nodes[node];
    return pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s) %s", n->name, op_def(n->op)->name, what);
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static enum pen_status check_names(const struct graph *g, struct pen_error *reterr)
{
    uint32_t room = 16;
    while (room < g->value_count * UINT64_C(2))
        room *= 2;
    uint32_t *slots = calloc(room, sizeof *slots); /* value id + 1 */
    if (!slots)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to check the names of %u values", g->value_count);
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->value_count && status == PEN_OK; i++) {
        uint32_t at = hash_text(g->values[i].name) & (room - 1);
        while (slots[at] && strcmp(g->values[slots[at] - 1].name, g->values[i].name) != 0)
            at = (at + 1) & (room - 1);
        if (slots[at])
            status = pen_error_set(reterr, PEN_ERR_INVALID, "two values are named '%s'; names must be unique",
                                   g->values[i].name);
        slots[at] = i + 1;
    }
    free(slots);
    return status;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

/* Operators whose required inputs may be VALUE_NONE: Loop's bounds, zero points of QLinear*. */
static bool may_omit(enum op op, uint32_t input)
{
    switch (op) {
    case OP_Loop:
        return input < 2;
    case OP_QLinearAdd:
    case OP_QLinearMul:
        return input == 2 || input == 5;
    case OP_QLinearSigmoid:
    case OP_QLinearLeakyRelu:
    case OP_QLinearAveragePool:
    case OP_QLinearGlobalAveragePool:
    case OP_QLinearSoftmax:
    case OP_QLinearConcat:
        return input > 0;
    case OP_QGemm:
        return input == 2 || input == 5;
    default:
        return false;
    }
}

static enum pen_status check_inputs(const struct graph *g, uint32_t node, struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    const struct op_def *def = op_def(n->op);
    if (n->in_count < def->min_in || (def->max_in != OP_VARIADIC && n->in_count > def->max_in))
        return fail(reterr, g, node, "has the wrong number of inputs");
    for (uint32_t k = 0; k < n->in_count; k++) {
        if (n->in[k] != VALUE_NONE && n->in[k] >= g->value_count)
            return fail(reterr, g, node, "reads a value that does not exist");
        if (n->in[k] == VALUE_NONE && k < def->min_in && !may_omit(n->op, k))
            return fail(reterr, g, node, "omits an input that it needs");
    }
    return PEN_OK;
}

/* Fills producers from the nodes, so that what follows can rely on them. */
static enum pen_status check_outputs(struct graph *g, uint32_t node, struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    const struct op_def *def = op_def(n->op);
    if (n->out_count < def->min_out || (def->max_out != OP_VARIADIC && n->out_count > def->max_out))
        return fail(reterr, g, node, "has the wrong number of outputs");
    for (uint32_t k = 0; k < n->out_count; k++) {
        if (n->out[k] == VALUE_NONE)
            continue;
        if (n->out[k] >= g->value_count)
            return fail(reterr, g, node, "writes a value that does not exist");
        struct value *v = &g->values[n->out[k]];
        if (v->data || v->producer != NODE_NONE)
            return fail(reterr, g, node, "writes a value that another node or a constant already gives");
        v->producer = node;
        v->producer_output = k;
    }
    return PEN_OK;
}

#define TYPE(name) (1u << ATTR_##name)
#define ANY(name, types)                                                                                               \
    {                                                                                                                  \
        ATTR_##name, types, OP_NONE                                                                                    \
    }
#define OF(op, name, types)                                                                                            \
    {                                                                                                                  \
        ATTR_##name, types, OP_##op                                                                                    \
    }

/* What rules and kernels take for granted of a list, a text or a body; all other attributes are asked for by type. */
static const struct {
    enum attr_key key;
    unsigned types;
    enum op op; /* OP_NONE: of all that have the attribute */
} attr_types[] = {
    ANY(perm, TYPE(INTS)),
    ANY(strides, TYPE(INTS)),
    ANY(cats_int64s, TYPE(INTS)),
    ANY(activation_alpha, TYPE(FLOATS)),
    ANY(activation_beta, TYPE(FLOATS)),
    ANY(base_values, TYPE(FLOATS)),
    ANY(coefficients, TYPE(FLOATS)),
    ANY(imputed_value_floats, TYPE(FLOATS)),
    ANY(prob_a, TYPE(FLOATS)),
    ANY(rho, TYPE(FLOATS)),
    ANY(support_vectors, TYPE(FLOATS)),
    ANY(activations, TYPE(TEXTS)),
    ANY(cats_strings, TYPE(TEXTS)),
    ANY(pool_strings, TYPE(TEXTS)),
    ANY(separators, TYPE(TEXTS)),
    ANY(stopwords, TYPE(TEXTS)),
    ANY(delimiter, TYPE(TEXT)),
    ANY(equation, TYPE(TEXT)),
    ANY(pattern, TYPE(TEXT)),
    ANY(tokenexp, TYPE(TEXT)),
    ANY(keys_strings, TYPE(TEXT) | TYPE(TEXTS)),
    ANY(values_strings, TYPE(TEXT) | TYPE(TEXTS)),
    ANY(default_string, TYPE(TEXT) | TYPE(TEXTS)),
    ANY(keys_int64s, TYPE(INT) | TYPE(INTS)),
    ANY(values_int64s, TYPE(INT) | TYPE(INTS)),
    ANY(default_int64, TYPE(INT) | TYPE(INTS)),
    ANY(keys_floats, TYPE(FLOAT) | TYPE(FLOATS)),
    ANY(values_floats, TYPE(FLOAT) | TYPE(FLOATS)),
    ANY(default_float, TYPE(FLOAT) | TYPE(FLOATS)),
    ANY(body, TYPE(GRAPH)),
    ANY(then_branch, TYPE(GRAPH)),
    ANY(else_branch, TYPE(GRAPH)),
    OF(Scaler, offset, TYPE(FLOATS)),
    OF(Scaler, scale, TYPE(FLOATS)),
    OF(TfIdfVectorizer, weights, TYPE(FLOATS)),
};

static bool attr_type_fits(const struct node *n, const struct attr *a)
{
    for (size_t i = 0; i < sizeof attr_types / sizeof *attr_types; i++) {
        if (attr_types[i].key == a->key && (attr_types[i].op == OP_NONE || attr_types[i].op == n->op))
            return (attr_types[i].types >> a->type & 1) != 0;
    }
    return true;
}

static enum pen_status check_attrs(struct graph *g, uint32_t node, struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    for (uint32_t k = 0; k < n->attr_count; k++) {
        const struct attr *a = &n->attrs[k];
        if (!attr_type_fits(n, a))
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "node %s (%s): the attribute %s has another type than it needs", n->name,
                                 op_def(n->op)->name, attr_name(a->key));
        if (a->type == ATTR_TENSOR && (a->value >= g->value_count || !g->values[a->value].data))
            return fail(reterr, g, node, "has a tensor attribute without contents");
        if (a->type == ATTR_GRAPH && (!a->graph || a->graph->parent != g))
            return fail(reterr, g, node, "has a subgraph of another graph");
    }
    return PEN_OK;
}

/* A subgraph's inputs are what its node feeds: arity differs by operator. */
static enum pen_status check_control(const struct graph *g, uint32_t node, struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    const struct attr *body = node_attr(n, ATTR_body), *yes = node_attr(n, ATTR_then_branch),
                      *no = node_attr(n, ATTR_else_branch);
    uint64_t want = 0, have = n->in_count;
    if (n->op == OP_If) {
        if (!yes || !no || yes->type != ATTR_GRAPH || no->type != ATTR_GRAPH)
            return fail(reterr, g, node, "lacks a branch");
        want = UINT64_C(1) + yes->graph->input_count + no->graph->input_count;
        if (yes->graph->output_count != n->out_count || no->graph->output_count != n->out_count)
            return fail(reterr, g, node, "has branches with another number of outputs than itself");
    } else {
        if (!body || body->type != ATTR_GRAPH)
            return fail(reterr, g, node, "lacks its body");
        want = body->graph->input_count;
        int64_t extra = n->op == OP_Loop ? 1 : 0; /* a Loop's body also gives the condition */
        if ((int64_t)body->graph->output_count != (int64_t)n->out_count + extra)
            return fail(reterr, g, node, "has a body with another number of outputs than it needs");
        int64_t carried = node_int(n, ATTR_carried, 0);
        if (carried < 0 || carried > (int64_t)n->out_count)
            return fail(reterr, g, node, "carries more values than it gives");
    }
    return want == have ? PEN_OK : fail(reterr, g, node, "feeds its subgraph a wrong number of values");
}

static enum pen_status check_ends(const struct graph *g, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (g->inputs[i] >= g->value_count || g->values[g->inputs[i]].producer != NODE_NONE)
            return pen_error_set(reterr, PEN_ERR_INVALID, "graph input %u is also the output of a node", i);
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->outputs[i] >= g->value_count)
            return pen_error_set(reterr, PEN_ERR_INVALID, "graph output %u does not exist", i);
    }
    return PEN_OK;
}

/* Every value that is read comes from somewhere. */
static enum pen_status check_sources(const struct graph *g, struct pen_error *reterr)
{
    bool *fed = calloc((size_t)g->value_count + 1, sizeof *fed);
    if (!fed)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to check %u values", g->value_count);
    for (uint32_t i = 0; i < g->value_count; i++)
        fed[i] = g->values[i].data || g->values[i].producer != NODE_NONE;
    for (uint32_t i = 0; i < g->input_count; i++)
        fed[g->inputs[i]] = true;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count && status == PEN_OK && !n->dead; k++) {
            if (n->in[k] != VALUE_NONE && !fed[n->in[k]])
                status = pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s) reads '%s', which nothing gives", n->name,
                                       op_def(n->op)->name, g->values[n->in[k]].name);
        }
    }
    for (uint32_t i = 0; i < g->output_count && status == PEN_OK; i++) {
        if (!fed[g->outputs[i]])
            status = pen_error_set(reterr, PEN_ERR_INVALID, "nothing gives the graph's output '%s'",
                                   g->values[g->outputs[i]].name);
    }
    free(fed);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static enum pen_status check_node(struct graph *g, uint32_t node, struct pen_error *reterr)
{
    const struct node *n = &g->nodes[node];
    if (n->op == OP_NONE || n->op >= OP_COUNT)
        return pen_error_set(reterr, PEN_ERR_INVALID, "node %s has no known operator", n->name);
    enum pen_status status = check_inputs(g, node, reterr);
    if (status == PEN_OK)
        status = check_outputs(g, node, reterr);
    if (status == PEN_OK)
        status = check_attrs(g, node, reterr);
    if (status == PEN_OK && (op_def(n->op)->traits & OP_CONTROL))
        status = check_control(g, node, reterr);
    return status;
}

static enum pen_status verify(struct graph *g, uint32_t depth, struct pen_error *reterr);

static enum pen_status verify_children(struct graph *g, uint32_t depth, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->attr_count && status == PEN_OK; k++) {
            if (n->attrs[k].type != ATTR_GRAPH)
                continue;
            status = verify(n->attrs[k].graph, depth + 1, reterr);
            g->stochastic |= n->attrs[k].graph->stochastic;
        }
    }
    return status;
}

static enum pen_status verify(struct graph *g, uint32_t depth, struct pen_error *reterr)
{
    if (depth > g->limits.depth)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "subgraphs are nested more than %u deep", g->limits.depth);
    enum pen_status status = check_names(g, reterr);
    for (uint32_t i = 0; i < g->value_count; i++)
        g->values[i].producer = NODE_NONE;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        if (!g->nodes[i].dead)
            status = check_node(g, i, reterr);
    }
    if (status == PEN_OK)
        status = check_ends(g, reterr);
    if (status == PEN_OK)
        status = check_sources(g, reterr);
    uint32_t stuck = 0;
    if (status == PEN_OK) {
        status = graph_sort(g, &stuck);
        if (status == PEN_ERR_INVALID)
            fail(reterr, g, stuck, "depends on its own output");
    }
    return status == PEN_OK ? verify_children(g, depth, reterr) : status;
}

enum pen_status graph_verify(struct graph *g, struct pen_error *reterr)
{
    return verify(g, 0, reterr);
}
