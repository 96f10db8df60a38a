#include <stdlib.h>

#include "graph/annotate.h"
#include "graph/pass_internal.h"
#include "graph/rules.h"
#include "graph/splice.h"
#include "graph/turns_count.h"

/*
 * A Loop of a few turns whose number is known gives way to its turns, one behind the other, when its body has no shapes that hold on every turn: lists, and tensors
 * that grow, shrink or are cut at the turn's number. Behind one another each turn has shapes of its own, which every backend can plan.
 */
#define UNROLL_TURNS 32
#define UNROLL_NODES 1024 /* of all turns together, with the subgraphs within */
#define UNROLL_LOOPS 64   /* of a graph: loops within loops would grow without end */

/* Each turn has the same shapes, and no lists. */
static bool turns_static(const struct graph *body, const struct shape *shapes)
{
    struct shape_env *env = NULL;
    if (shape_env_new(body, shapes, NULL, false, &env, NULL) != PEN_OK)
        return true; /* contradictions are left to the run */
    bool same = true;
    for (uint32_t i = 0; i < body->node_count && same; i++) {
        const struct node *n = &body->nodes[i];
        for (uint32_t k = 0; k < n->out_count && same && !n->dead; k++) {
            const struct fact *f = n->out[k] == VALUE_NONE ? NULL : &env->facts[n->out[k]];
            same = !f || (f->kind == VALUE_TENSOR && shape_known(&f->shape));
        }
    }
    shape_env_free(env);
    return same;
}

static int64_t turns_of(const struct infer *c, const struct graph *body, struct shape *shapes)
{
    int64_t carried = node_int(c->n, ATTR_carried, 0), turns = SHAPE_DIM_UNKNOWN;
    if (control_body_shapes(c, shapes) && !turns_static(body, shapes))
        turns = turns_count(c, body, shapes, (uint32_t)carried);
    bool few = turns > 0 && turns <= UNROLL_TURNS && turns * turns_nodes(body) <= UNROLL_NODES;
    return few ? turns : 0;
}

int64_t unroll_turns(const struct graph *g, const struct node *n, const struct fact *facts)
{
    const struct attr *a = node_attr(n, ATTR_body);
    if (n->dead || n->op != OP_Loop || !a || a->type != ATTR_GRAPH)
        return 0;
    struct fact *in = calloc((size_t)n->in_count + 1, sizeof *in);
    struct shape *shapes = calloc((size_t)a->graph->input_count + 1, sizeof *shapes);
    int64_t turns = 0;
    for (uint32_t k = 0; in && k < n->in_count; k++)
        in[k] = n->in[k] == VALUE_NONE ? (struct fact){.shape = shape_unknown()} : facts[n->in[k]];
    const struct infer c = {.g = g, .n = n, .in = in};
    if (in && shapes)
        turns = turns_of(&c, a->graph, shapes);
    free(in);
    free(shapes);
    return turns;
}

struct unroll {
    struct graph *g, *body;
    uint32_t node, carried, scans;
    int64_t turns;
    uint32_t *in;    /* [body->input_count] of this turn */
    uint32_t *out;   /* [body->output_count] of this turn */
    uint32_t *items; /* [scans][turns] what is collected */
};

static enum pen_status op_add(struct graph *g, enum op op, const uint32_t *in, uint32_t count, uint32_t *ret_value)
{
    enum pen_status status = graph_value(g, NULL, ret_value);
    return status == PEN_OK ? graph_node(g, op, NULL, in, count, ret_value, 1, NULL) : status;
}

static enum pen_status turn_write(struct unroll *u, int64_t turn)
{
    static const struct shape scalar = {.rank = 0};
    static const uint8_t yes = 1;
    struct graph *g = u->g;
    enum pen_status status = graph_constant_i64(g, &turn, 1, true, &u->in[0]);
    if (status == PEN_OK)
        status = graph_constant(g, NULL, PEN_DTYPE_BOOL, &scalar, &yes, 1, true, &u->in[1]);
    if (status == PEN_OK)
        status = splice_body(g, u->body, u->in, turn + 1 == u->turns ? SPLICE_MOVE : SPLICE_COPY, u->out);
    for (uint32_t i = 0; i < u->carried; i++)
        u->in[2 + i] = u->out[1 + i];
    for (uint32_t i = 0; i < u->scans && status == PEN_OK; i++) {
        uint32_t item[2] = {u->out[1 + u->carried + i], VALUE_NONE};
        status = graph_constant_i64(g, (int64_t[]){0}, 1, false, &item[1]);
        if (status == PEN_OK)
            status = op_add(g, OP_Unsqueeze, item, 2, &u->items[i * (uint64_t)u->turns + (uint64_t)turn]);
    }
    return status;
}

static enum pen_status results_write(struct unroll *u)
{
    struct graph *g = u->g;
    const uint32_t *out = g->nodes[u->node].out, turns = (uint32_t)u->turns;
    enum pen_status status = PEN_OK;
    graph_kill(g, u->node);
    for (uint32_t i = 0; i < u->carried + u->scans && status == PEN_OK; i++) {
        uint32_t made = NODE_NONE;
        if (out[i] == VALUE_NONE)
            continue;
        g->values[out[i]].shape = shape_unknown(); /* of all turns until now */
        if (i < u->carried) {
            status = graph_node(g, OP_Identity, NULL, &u->in[2 + i], 1, &out[i], 1, NULL);
            continue;
        }
        status = graph_node(g, OP_Concat, NULL, u->items + (i - u->carried) * turns, turns, &out[i], 1, &made);
        if (status == PEN_OK)
            status = graph_attr_int(g, made, ATTR_axis, 0);
    }
    return status;
}

static enum pen_status loop_unroll(struct graph *g, uint32_t node, int64_t turns)
{
    const struct node n = g->nodes[node];
    struct graph *body = node_attr(&n, ATTR_body)->graph;
    int64_t carried = node_int(&n, ATTR_carried, 0);
    struct unroll u = {.g = g, .body = body, .node = node, .carried = (uint32_t)carried, .turns = turns};
    u.scans = n.out_count - u.carried; /* infer_loop has seen that they fit */
    u.in = calloc((size_t)n.in_count + 2, sizeof *u.in);
    u.out = calloc((size_t)body->output_count + 1, sizeof *u.out);
    u.items = calloc((size_t)u.scans * (size_t)turns + 1, sizeof *u.items);
    enum pen_status status = u.in && u.out && u.items ? PEN_OK : PEN_ERR_NO_MEMORY;
    for (uint32_t i = 2; i < n.in_count && status == PEN_OK; i++)
        u.in[i] = n.in[i];
    for (int64_t turn = 0; turn < turns && status == PEN_OK; turn++)
        status = turn_write(&u, turn);
    if (status == PEN_OK)
        status = results_write(&u);
    free(u.in);
    free(u.out);
    free(u.items);
    return status;
}

enum pen_status pass_unroll(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    uint32_t count = 0, nodes = g->node_count;
    struct shape_env *env = NULL;
    enum pen_status status = shape_env_new(g, NULL, NULL, false, &env, reterr);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < nodes && status == PEN_OK; i++) {
        int64_t turns = unroll_turns(g, &g->nodes[i], env->facts);
        if (turns == 0 || *ret_count + count >= UNROLL_LOOPS)
            continue;
        status = loop_unroll(g, i, turns);
        count++;
    }
    shape_env_free(env);
    if (status == PEN_OK && count > 0)
        status = graph_compact(g);
    if (status == PEN_OK && count > 0)
        status = graph_annotate(g, reterr);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "no memory to write the turns of a loop");
    *ret_count += count;
    return PEN_OK;
}
