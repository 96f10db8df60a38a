#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/arena.h"
#include "graph/internal.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct graph_limits graph_limits_default(void)
{
    return (struct graph_limits){
        .model_bytes = 4 * GIB,
        .tensor_bytes = 2 * GIB,
        .folded_bytes = 256 * MIB,
        .folded_steps = UINT64_C(1) << 32,
        .arena_bytes = 4 * GIB,
        .nodes = 1000000,
        .values = 4000000,
        .depth = 32,
    };
}

enum pen_status graph_new(const struct graph_limits *limits, struct graph **ret_graph)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return PEN_ERR_NO_MEMORY;
    g->limits = limits ? *limits : graph_limits_default();
    g->arena = arena_new(g->limits.model_bytes + g->limits.folded_bytes + 256 * MIB);
    if (!g->arena) {
        free(g);
        return PEN_ERR_NO_MEMORY;
    }
    *ret_graph = g;
    return PEN_OK;
}

/* Children are listed from the root so that freeing it reaches all of them. */
enum pen_status graph_new_child(struct graph *parent, struct graph **ret_graph)
{
    struct graph_family *child = calloc(1, sizeof *child);
    if (!child)
        return PEN_ERR_NO_MEMORY;
    struct graph *root = parent;
    while (root->parent)
        root = root->parent;
    child->graph.limits = parent->limits;
    child->graph.arena = parent->arena;
    child->graph.parent = parent;
    child->next = root->children;
    root->children = child;
    *ret_graph = &child->graph;
    return PEN_OK;
}

static void graph_fini(struct graph *g)
{
    free(g->values);
    free(g->nodes);
    free(g->inputs);
    free(g->outputs);
}

void graph_free(struct graph *g)
{
    if (!g || g->parent)
        return;
    struct graph_family *child = g->children;
    while (child) {
        struct graph_family *next = child->next;
        graph_fini(&child->graph);
        free(child);
        child = next;
    }
    arena_free(g->arena);
    graph_fini(g);
    free(g);
}

void *graph_alloc(struct graph *g, size_t bytes)
{
    return arena_alloc(g->arena, bytes);
}

void *graph_alloc_data(struct graph *g, size_t bytes)
{
    return arena_alloc_data(g->arena, bytes);
}

const char *graph_text(struct graph *g, const char *text, size_t bytes)
{
    char *copy = arena_alloc(g->arena, bytes + 1);
    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}

/* Makes room for one more item of an array that doubles. */
static enum pen_status grow(void **items, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room)
        return PEN_OK;
    uint32_t more = *room ? *room * 2 : 16;
    if (more <= *room)
        return PEN_ERR_TOO_LARGE;
    void *bigger = realloc(*items, (size_t)more * item_bytes);
    if (!bigger)
        return PEN_ERR_NO_MEMORY;
    *items = bigger;
    *room = more;
    return PEN_OK;
}

static const char *fresh_name(struct graph *g)
{
    char text[24];
    int bytes = snprintf(text, sizeof text, "~%u", g->value_count);
    return graph_text(g, text, (size_t)bytes);
}

enum pen_status graph_value(struct graph *g, const char *name, uint32_t *ret_value)
{
    if (g->value_count >= g->limits.values)
        return PEN_ERR_TOO_LARGE;
    const char *copy = name ? graph_text(g, name, strlen(name)) : fresh_name(g);
    if (!copy)
        return PEN_ERR_NO_MEMORY;
    void *values = g->values;
    enum pen_status status = grow(&values, g->value_count, &g->value_room, sizeof *g->values);
    if (status != PEN_OK)
        return status;
    g->values = values;
    PEN_ASSERT(g->value_count < g->value_room, "a new value has a place in the graph's list");
    g->values[g->value_count] = (struct value){.name = copy, .shape = shape_unknown(), .producer = NODE_NONE};
    *ret_value = g->value_count++;
    return PEN_OK;
}

enum pen_status graph_constant(struct graph *g, const char *name, enum pen_dtype dtype, const struct shape *shape,
                               const void *data, size_t bytes, bool copy, uint32_t *ret_value)
{
    static const uint64_t nothing[2]; /* a constant without elements has data too */
    size_t need = 0;
    enum pen_status status = shape_bytes(shape, dtype, g->limits.tensor_bytes, &need);
    if (status != PEN_OK)
        return status;
    if (need != bytes)
        return PEN_ERR_SHAPE;
    if (copy && bytes) {
        void *memory = graph_alloc_data(g, bytes);
        if (!memory)
            return PEN_ERR_NO_MEMORY;
        memcpy(memory, data, bytes);
        data = memory;
    }
    uint32_t id;
    status = graph_value(g, name, &id);
    if (status != PEN_OK)
        return status;
    struct value *v = &g->values[id];
    v->dtype = dtype;
    v->shape = *shape;
    v->data = bytes ? data : nothing;
    v->bytes = bytes;
    *ret_value = id;
    return PEN_OK;
}

static struct shape list_shape(size_t count, bool scalar)
{
    int64_t dim = (int64_t)count;
    return scalar ? shape_scalar() : shape_of(1, &dim);
}

enum pen_status graph_constant_i64(struct graph *g, const int64_t *items, size_t count, bool scalar,
                                   uint32_t *ret_value)
{
    struct shape shape = list_shape(count, scalar);
    return graph_constant(g, NULL, PEN_DTYPE_I64, &shape, items, count * sizeof *items, true, ret_value);
}

enum pen_status graph_constant_f32(struct graph *g, const float *items, size_t count, bool scalar, uint32_t *ret_value)
{
    struct shape shape = list_shape(count, scalar);
    return graph_constant(g, NULL, PEN_DTYPE_F32, &shape, items, count * sizeof *items, true, ret_value);
}

static enum pen_status list_add(uint32_t **list, uint32_t *count, uint32_t item)
{
    if ((*count & (*count - 1)) == 0) { /* full at every power of two */
        uint32_t *bigger = realloc(*list, (size_t)(*count ? *count * 2 : 1) * sizeof **list);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        *list = bigger;
    }
    (*list)[(*count)++] = item;
    return PEN_OK;
}

enum pen_status graph_input_add(struct graph *g, uint32_t value)
{
    return list_add(&g->inputs, &g->input_count, value);
}

enum pen_status graph_output_add(struct graph *g, uint32_t value)
{
    return list_add(&g->outputs, &g->output_count, value);
}

static enum pen_status check_arity(const struct graph *g, enum op op, uint32_t in_count, uint32_t out_count)
{
    const struct op_def *def = op_def(op);
    if (op == OP_NONE || op >= OP_COUNT || g->node_count >= g->limits.nodes)
        return op == OP_NONE || op >= OP_COUNT ? PEN_ERR_INVALID : PEN_ERR_TOO_LARGE;
    bool in_ok = in_count >= def->min_in && (def->max_in == OP_VARIADIC || in_count <= def->max_in);
    bool out_ok = out_count >= def->min_out && (def->max_out == OP_VARIADIC || out_count <= def->max_out);
    return in_ok && out_ok ? PEN_OK : PEN_ERR_INVALID;
}

static const char *node_name_new(struct graph *g, enum op op, const char *name)
{
    if (name && *name)
        return graph_text(g, name, strlen(name));
    char text[64];
    int bytes = snprintf(text, sizeof text, "%s_%u", op_def(op)->name, g->node_count);
    return graph_text(g, text, (size_t)bytes);
}

enum pen_status graph_node(struct graph *g, enum op op, const char *name, const uint32_t *in, uint32_t in_count,
                           const uint32_t *out, uint32_t out_count, uint32_t *ret_node)
{
    enum pen_status status = check_arity(g, op, in_count, out_count);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < out_count; i++) {
        if (out[i] != VALUE_NONE &&
            (out[i] >= g->value_count || g->values[out[i]].producer != NODE_NONE || g->values[out[i]].data))
            return PEN_ERR_INVALID; /* made twice */
    }
    struct node n = {.op = op, .origin = op_def(op)->name, .in_count = in_count, .out_count = out_count};
    n.name = node_name_new(g, op, name);
    uint32_t *ids = graph_alloc(g, ((size_t)in_count + out_count) * sizeof *ids);
    void *nodes = g->nodes;
    if (!n.name || !ids)
        return PEN_ERR_NO_MEMORY;
    status = grow(&nodes, g->node_count, &g->node_room, sizeof *g->nodes);
    if (status != PEN_OK)
        return status;
    g->nodes = nodes;
    PEN_ASSERT(g->node_count < g->node_room, "a new node has a place in the graph's list");
    n.in = ids;
    n.out = ids + in_count;
    if (in_count)
        memcpy(n.in, in, in_count * sizeof *in);
    for (uint32_t i = 0; i < out_count; i++) {
        n.out[i] = out[i];
        if (out[i] != VALUE_NONE) {
            g->values[out[i]].producer = g->node_count;
            g->values[out[i]].producer_output = i;
        }
    }
    g->nodes[g->node_count] = n;
    g->stochastic |= (op_def(op)->traits & (OP_RANDOM | OP_STATEFUL)) != 0;
    if (ret_node)
        *ret_node = g->node_count;
    g->node_count++;
    return PEN_OK;
}
