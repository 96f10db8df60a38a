/* Counting a Loop's turns: its body is inferred turn by turn with the integers that are known, until its condition says no. */
#include "graph/turns_count.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX  16384 /* inferred in all turns together */
#define ITEM_BYTES 64    /* of a carried value that is followed */

struct counting {
    const struct graph *body;
    const struct shape *shapes;
    uint32_t carried;
    const void **data;                                     /* [body->input_count] what is known of this turn's inputs */
    unsigned char (*now)[ITEM_BYTES], (*next)[ITEM_BYTES]; /* [carried] */
    int64_t turn;
    bool cond;
};

/* With loops inside, each turn would count the turns of those: that takes long. */
static bool has_loops(const struct graph *g)
{
    bool found = false;
    for (uint32_t i = 0; i < g->node_count && !found; i++) {
        const struct node *n = &g->nodes[i];
        found = !n->dead && (n->op == OP_Loop || n->op == OP_Scan);
        for (uint32_t a = 0; a < n->attr_count && !found && !n->dead; a++)
            found = n->attrs[a].type == ATTR_GRAPH && has_loops(n->attrs[a].graph);
    }
    return found;
}

int64_t turns_nodes(const struct graph *g)
{
    int64_t nodes = g->node_count;
    for (uint32_t i = 0; i < g->node_count; i++) {
        for (uint32_t a = 0; a < g->nodes[i].attr_count; a++)
            nodes += g->nodes[i].attrs[a].type == ATTR_GRAPH ? turns_nodes(g->nodes[i].attrs[a].graph) : 0;
    }
    return nodes;
}

/* The body hands its condition on: the number of turns alone ends it. */
static bool never_ends(const struct graph *body)
{
    uint32_t value = body->outputs[0];
    for (uint32_t step = 0; step < body->node_count; step++) {
        const struct value *v = &body->values[value];
        const struct node *n = v->producer < body->node_count ? &body->nodes[v->producer] : NULL;
        if (v->data || !n || n->op != OP_Identity)
            break;
        value = n->in[0];
    }
    const struct value *v = &body->values[value];
    return value == body->inputs[1] || (v->data && v->bytes > 0 && *(const uint8_t *)v->data != 0);
}

/* What a turn leaves of the carried values is what the next one knows. */
static void hand_on(struct counting *k, const struct shape_env *env)
{
    for (uint32_t i = 0; i < k->carried; i++) {
        const struct fact *f = &env->facts[k->body->outputs[1 + i]];
        bool known = f->data && f->kind == VALUE_TENSOR && f->dtype != PEN_DTYPE_STRING && f->bytes <= ITEM_BYTES;
        if (known)
            memcpy(k->next[i], f->data, f->bytes);
        k->data[2 + i] = known ? k->next[i] : NULL;
    }
    unsigned char(*swap)[ITEM_BYTES] = k->now;
    k->now = k->next;
    k->next = swap;
}

/* False: nothing tells whether there is a next turn. */
static bool turn_once(struct counting *k)
{
    struct shape_env *env = NULL;
    if (shape_env_new(k->body, k->shapes, k->data, false, &env, NULL) != PEN_OK)
        return false;
    const struct fact *f = &env->facts[k->body->outputs[0]];
    bool known = f->data && f->bytes == 1;
    if (known) {
        k->cond = *(const uint8_t *)f->data != 0;
        hand_on(k, env);
        k->turn++;
    }
    shape_env_free(env);
    return known;
}

static int64_t count(struct counting *k, int64_t most)
{
    int64_t limit = NODES_MAX / (turns_nodes(k->body) + 1);
    while (k->cond && k->turn < most) {
        if (k->turn >= limit || !turn_once(k))
            return SHAPE_DIM_UNKNOWN;
    }
    return k->turn;
}

static bool begin(struct counting *k, const struct infer *c)
{
    const struct graph *body = k->body;
    k->data = calloc((size_t)body->input_count + 1, sizeof *k->data);
    k->now = calloc((size_t)k->carried + 1, sizeof *k->now);
    k->next = calloc((size_t)k->carried + 1, sizeof *k->next);
    if (!k->data || !k->now || !k->next)
        return false;
    k->data[0] = &k->turn;
    k->data[1] = &k->cond;
    for (uint32_t i = 2; i < body->input_count; i++)
        k->data[i] = infer_has(c, i) && c->in[i].dtype != PEN_DTYPE_STRING ? c->in[i].data : NULL;
    return true;
}

int64_t turns_count(const struct infer *c, const struct graph *body, const struct shape *shapes, uint32_t carried)
{
    struct counting k = {.body = body, .shapes = shapes, .carried = carried, .cond = true};
    int64_t most = INT64_MAX, turns = SHAPE_DIM_UNKNOWN;
    if (infer_has(c, 0) && (!c->in[0].data || c->in[0].bytes != sizeof most))
        return turns;
    if (infer_has(c, 0))
        memcpy(&most, c->in[0].data, sizeof most);
    if (infer_has(c, 1) && (!c->in[1].data || c->in[1].bytes != 1))
        return turns;
    if (infer_has(c, 1))
        k.cond = *(const uint8_t *)c->in[1].data != 0;
    most = most > 0 ? most : 0;
    if (!k.cond || never_ends(body))
        return !k.cond ? 0 : most < INT64_MAX ? most : SHAPE_DIM_UNKNOWN;
    if (!has_loops(body) && begin(&k, c))
        turns = count(&k, most);
    free((void *)k.data);
    free(k.now);
    free(k.next);
    return turns;
}
