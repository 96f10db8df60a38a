#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/internal.h"

enum pen_status graph_replace(struct graph *g, uint32_t from, uint32_t to)
{
    if (from >= g->value_count || to >= g->value_count)
        return PEN_ERR_INVALID;
    for (uint32_t i = 0; i < g->node_count; i++) {
        struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count && !n->dead; k++) {
            if (n->in[k] == from)
                n->in[k] = to;
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->outputs[i] == from)
            g->outputs[i] = to;
    }
    return PEN_OK;
}

void graph_kill(struct graph *g, uint32_t node)
{
    PEN_ASSERT(node < g->node_count, "only a node of the graph is removed from it");
    struct node *n = &g->nodes[node];
    n->dead = true;
    for (uint32_t k = 0; k < n->out_count; k++) {
        if (n->out[k] != VALUE_NONE && g->values[n->out[k]].producer == node)
            g->values[n->out[k]].producer = NODE_NONE;
    }
}

uint32_t graph_uses(const struct graph *g, uint32_t value)
{
    uint32_t uses = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count && !n->dead; k++)
            uses += n->in[k] == value;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        uses += g->outputs[i] == value;
    return uses;
}

void graph_move_output(struct graph *g, uint32_t node, uint32_t index, uint32_t value)
{
    PEN_ASSERT(node < g->node_count && index < g->nodes[node].out_count && value < g->value_count,
               "an output moves to a node and a value of the same graph");
    struct node *n = &g->nodes[node];
    if (n->out[index] != VALUE_NONE && g->values[n->out[index]].producer == node)
        g->values[n->out[index]].producer = NODE_NONE;
    n->out[index] = value;
    g->values[value].producer = node;
    g->values[value].producer_output = index;
}

/* Marks the nodes that the outputs need, from a stack of values. */
static enum pen_status mark_needed(const struct graph *g, bool *needed)
{
    uint32_t *stack = malloc(((size_t)g->node_count + 1) * sizeof *stack);
    if (!stack)
        return PEN_ERR_NO_MEMORY;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < g->output_count; i++) {
        uint32_t p = g->values[g->outputs[i]].producer;
        if (p != NODE_NONE && !needed[p]) {
            needed[p] = true;
            stack[depth++] = p;
        }
    }
    while (depth > 0) {
        const struct node *n = &g->nodes[stack[--depth]];
        for (uint32_t k = 0; k < n->in_count; k++) {
            uint32_t p = n->in[k] == VALUE_NONE ? NODE_NONE : g->values[n->in[k]].producer;
            if (p != NODE_NONE && !needed[p]) {
                needed[p] = true;
                stack[depth++] = p;
            }
        }
    }
    free(stack);
    return PEN_OK;
}

enum pen_status graph_compact(struct graph *g)
{
    bool *needed = calloc((size_t)g->node_count + 1, sizeof *needed);
    if (!needed)
        return PEN_ERR_NO_MEMORY;
    enum pen_status status = mark_needed(g, needed);
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        if (!needed[i] && !g->nodes[i].dead)
            graph_kill(g, i);
    }
    free(needed);
    uint32_t stuck;
    return status == PEN_OK ? graph_sort(g, &stuck) : status;
}
