#include <stdlib.h>

#include "assertion.h"
#include "graph/internal.h"

/* Depth-first from each node in file order: a sorted graph stays as it is. */
struct visit {
    uint32_t node, next_in; /* the input to look at next */
};

struct sorter {
    const struct graph *g;
    unsigned char *color; /* 0 new, 1 on the stack, 2 done */
    struct visit *stack;
    uint32_t depth;
    uint32_t *order;
    uint32_t count;
};

static bool push(struct sorter *s, uint32_t node)
{
    s->color[node] = 1;
    s->stack[s->depth++] = (struct visit){node, 0};
    return true;
}

/* Advances the top of the stack; false on a cycle. */
static bool step(struct sorter *s)
{
    struct visit *top = &s->stack[s->depth - 1];
    const struct node *n = &s->g->nodes[top->node];
    while (top->next_in < n->in_count) {
        uint32_t value = n->in[top->next_in++];
        uint32_t p = value == VALUE_NONE ? NODE_NONE : s->g->values[value].producer;
        if (p == NODE_NONE || s->color[p] == 2)
            continue;
        return s->color[p] == 0 && push(s, p);
    }
    s->color[top->node] = 2;
    s->order[s->count++] = top->node;
    s->depth--;
    return true;
}

static enum pen_status visit_all(struct sorter *s, uint32_t *ret_node)
{
    for (uint32_t i = 0; i < s->g->node_count; i++) {
        if (s->g->nodes[i].dead || s->color[i] != 0)
            continue;
        push(s, i);
        while (s->depth > 0) {
            if (!step(s)) {
                *ret_node = s->stack[s->depth - 1].node;
                return PEN_ERR_INVALID;
            }
        }
    }
    return PEN_OK;
}

/* Every input is made by an earlier node, or by none. Producers are those before the order changed. */
static bool ordered(const struct sorter *s)
{
    uint32_t *place = malloc(((size_t)s->g->node_count + 1) * sizeof *place);
    bool good = true;
    for (uint32_t i = 0; place && i < s->count; i++)
        place[s->order[i]] = i;
    for (uint32_t i = 0; place && i < s->count; i++) {
        const struct node *n = &s->g->nodes[s->order[i]];
        for (uint32_t k = 0; k < n->in_count; k++) {
            uint32_t p = n->in[k] == VALUE_NONE ? NODE_NONE : s->g->values[n->in[k]].producer;
            good = good && (p == NODE_NONE || place[p] < i);
        }
    }
    free(place);
    return good;
}

static void renumber(struct graph *g, struct node *sorted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < sorted[i].out_count; k++) {
            if (sorted[i].out[k] != VALUE_NONE) {
                g->values[sorted[i].out[k]].producer = i;
                g->values[sorted[i].out[k]].producer_output = k;
            }
        }
    }
    free(g->nodes);
    g->nodes = sorted;
    g->node_count = count;
}

enum pen_status graph_sort(struct graph *g, uint32_t *ret_node)
{
    size_t room = (size_t)g->node_count + 1;
    struct sorter s = {.g = g};
    s.color = calloc(room, 1);
    s.stack = malloc(room * sizeof *s.stack);
    s.order = malloc(room * sizeof *s.order);
    struct node *sorted = malloc(room * sizeof *sorted);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (s.color && s.stack && s.order && sorted)
        status = visit_all(&s, ret_node);
    if (status == PEN_OK) {
        PEN_ASSERT(s.count <= g->node_count && s.depth == 0, "every live node has one place in the order");
        PEN_ASSERT_SLOW(ordered(&s), "a node comes after those that make its inputs");
        for (uint32_t i = 0; i < s.count; i++)
            sorted[i] = g->nodes[s.order[i]];
        g->node_room = g->node_count + 1;
        renumber(g, sorted, s.count);
    } else {
        free(sorted);
    }
    free(s.color);
    free(s.stack);
    free(s.order);
    return status;
}
