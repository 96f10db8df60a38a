#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/internal.h"

#define LINK_NONE UINT32_MAX

static enum pen_status values_grow(struct uses *u)
{
    uint32_t room = u->g->value_room;
    if (room <= u->value_room)
        return PEN_OK;
    uint32_t *head = realloc(u->head, room * sizeof *head);
    if (!head)
        return PEN_ERR_NO_MEMORY;
    u->head = head;
    uint32_t *count = realloc(u->count, room * sizeof *count);
    if (!count)
        return PEN_ERR_NO_MEMORY;
    u->count = count;
    for (uint32_t i = u->value_room; i < room; i++) {
        u->head[i] = LINK_NONE;
        u->count[i] = 0;
    }
    u->value_room = room;
    return PEN_OK;
}

static enum pen_status link_add(struct uses *u, uint32_t value, uint32_t node, uint32_t input)
{
    if (u->link_count == u->link_room) {
        uint32_t room = u->link_room ? u->link_room * 2 : 256;
        struct use_link *bigger = realloc(u->links, room * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        u->links = bigger;
        u->link_room = room;
    }
    PEN_ASSERT(value < u->value_room && node < u->g->node_count,
               "uses are of values and nodes that the lists have room for");
    u->links[u->link_count] = (struct use_link){node, input, u->head[value]};
    u->head[value] = u->link_count++;
    u->count[value]++;
    return PEN_OK;
}

enum pen_status uses_add(struct uses *u, uint32_t node)
{
    enum pen_status status = values_grow(u);
    const struct node *n = &u->g->nodes[node];
    for (uint32_t k = 0; k < n->in_count && status == PEN_OK; k++) {
        if (n->in[k] != VALUE_NONE)
            status = link_add(u, n->in[k], node, k);
    }
    return status;
}

enum pen_status uses_init(struct uses *u, struct graph *g)
{
    *u = (struct uses){.g = g};
    enum pen_status status = values_grow(u);
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        if (!g->nodes[i].dead)
            status = uses_add(u, i);
    }
    for (uint32_t i = 0; i < g->output_count && status == PEN_OK; i++)
        u->count[g->outputs[i]]++;
    if (status != PEN_OK)
        uses_fini(u);
    return status;
}

void uses_fini(struct uses *u)
{
    free(u->head);
    free(u->count);
    free(u->links);
    *u = (struct uses){0};
}

uint32_t uses_count(const struct uses *u, uint32_t value)
{
    return value < u->value_room ? u->count[value] : 0;
}

uint32_t uses_next(const struct uses *u, uint32_t value, uint32_t *link, uint32_t *ret_input)
{
    if (value >= u->value_room)
        return NODE_NONE;
    uint32_t at = *link == LINK_NONE ? u->head[value] : u->links[*link].next;
    for (; at != LINK_NONE; at = u->links[at].next) {
        const struct use_link *l = &u->links[at];
        const struct node *n = &u->g->nodes[l->node];
        if (!n->dead && n->in[l->input] == value) {
            *link = at;
            *ret_input = l->input;
            return l->node;
        }
    }
    return NODE_NONE;
}

uint32_t uses_single(const struct uses *u, uint32_t value)
{
    uint32_t link = LINK_NONE, input;
    if (uses_count(u, value) != 1)
        return NODE_NONE;
    return uses_next(u, value, &link, &input); /* NODE_NONE when the one use is a graph output */
}

enum pen_status uses_set(struct uses *u, uint32_t node, uint32_t input, uint32_t to)
{
    enum pen_status status = values_grow(u);
    if (status != PEN_OK)
        return status;
    struct node *n = &u->g->nodes[node];
    if (n->in[input] == to)
        return PEN_OK;
    if (n->in[input] != VALUE_NONE)
        u->count[n->in[input]]--;
    n->in[input] = to;
    return to == VALUE_NONE ? PEN_OK : link_add(u, to, node, input);
}

enum pen_status uses_replace(struct uses *u, uint32_t from, uint32_t to)
{
    enum pen_status status = values_grow(u);
    uint32_t input;
    for (uint32_t at = status == PEN_OK ? u->head[from] : LINK_NONE; at != LINK_NONE && status == PEN_OK;) {
        struct use_link l = u->links[at];
        input = l.input;
        if (!u->g->nodes[l.node].dead && u->g->nodes[l.node].in[input] == from)
            status = uses_set(u, l.node, input, to);
        at = l.next;
    }
    for (uint32_t i = 0; i < u->g->output_count && status == PEN_OK; i++) {
        if (u->g->outputs[i] == from) {
            u->g->outputs[i] = to;
            u->count[from]--;
            u->count[to]++;
        }
    }
    return status;
}

void uses_kill(struct uses *u, uint32_t node)
{
    const struct node *n = &u->g->nodes[node];
    if (n->dead)
        return;
    for (uint32_t k = 0; k < n->in_count; k++) {
        if (n->in[k] != VALUE_NONE)
            u->count[n->in[k]]--;
    }
    graph_kill(u->g, node);
}
