#include "graph/annotate.h"

#include <stdlib.h>

#include "graph/rules.h"

static void set_value(struct value *v, const struct fact *f)
{
    if (v->data)
        return;
    v->kind = f->kind;
    if (f->dtype != PEN_DTYPE_NONE)
        v->dtype = f->dtype;
    if (f->shape.rank < 0)
        return;
    struct shape s = f->shape;
    for (int32_t i = 0; i < s.rank; i++) {
        if (s.dim[i] < 0 && v->shape.rank == s.rank)
            s.dim[i] = v->shape.dim[i]; /* what the file declares, where we do not know */
    }
    v->shape = s;
}

static enum pen_status set_values(struct graph *g, struct pen_error *reterr)
{
    struct shape_env *env;
    enum pen_status status = shape_env_new(g, NULL, NULL, false, &env, reterr);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < g->value_count; i++) {
        if (g->values[i].producer != NODE_NONE)
            set_value(&g->values[i], &env->facts[i]);
    }
    shape_env_free(env);
    return PEN_OK;
}

/* A body's input gets kind and element type from what feeds it, its shape only where it cannot change from turn to turn. */
static void feed(struct graph *body, uint32_t input, const struct value *from, bool shape_holds)
{
    struct value *v = &body->values[body->inputs[input]];
    v->kind = from->kind;
    if (from->dtype != PEN_DTYPE_NONE)
        v->dtype = from->dtype;
    if (shape_holds)
        v->shape = from->shape;
    else if (from->kind == VALUE_TENSOR)
        v->shape = shape_unknown(); /* declared shapes of carried values are not to be trusted */
}

/* Shapes that hold on every turn of a Loop or Scan, for its carried and scanned values. */
static enum pen_status feed_turns(const struct graph *g, const struct node *n, struct graph *body)
{
    struct fact *in = calloc((size_t)n->in_count + 1, sizeof *in);
    struct shape *shapes = calloc((size_t)body->input_count + 1, sizeof *shapes);
    enum pen_status status = in && shapes ? PEN_OK : PEN_ERR_NO_MEMORY;
    for (uint32_t k = 0; status == PEN_OK && k < n->in_count; k++) {
        const struct value *v = node_in(g, n, k);
        if (v)
            in[k] = (struct fact){
                .kind = v->kind, .dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
        else
            in[k].shape = shape_unknown();
    }
    const struct infer c = {.g = g, .n = n, .in = in};
    bool known = status == PEN_OK && control_body_shapes(&c, shapes);
    for (uint32_t i = n->op == OP_Loop ? 2 : 0; known && i < body->input_count; i++) {
        struct value *v = &body->values[body->inputs[i]];
        if (v->kind == VALUE_TENSOR && shapes[i].rank >= 0)
            v->shape = shapes[i];
    }
    free(in);
    free(shapes);
    return status;
}

static enum pen_status annotate_body(const struct graph *g, const struct node *n, struct graph *body, uint32_t first,
                                     struct pen_error *reterr)
{
    int64_t given = n->op == OP_Loop ? 2 : 0, carried = node_int(n, ATTR_carried, 0);
    int64_t scanned = node_int(n, ATTR_num_scan_inputs, 0);
    for (uint32_t i = 0; i < body->input_count; i++) {
        if (first + i >= n->in_count || n->in[first + i] == VALUE_NONE || (n->op == OP_Loop && i < 2))
            continue;
        bool capture = n->op == OP_If || i >= given + carried + scanned;
        feed(body, i, &g->values[n->in[first + i]], capture);
    }
    if (n->op != OP_If && feed_turns(g, n, body) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to infer shapes");
    enum pen_status status = graph_annotate(body, NULL); /* a branch that is never taken may be contradictory */
    return status == PEN_ERR_NO_MEMORY ? pen_error_set(reterr, status, "no memory to infer shapes") : PEN_OK;
}

static enum pen_status annotate_node(struct graph *g, const struct node *n, struct pen_error *reterr)
{
    const struct attr *yes = node_attr(n, ATTR_then_branch), *no = node_attr(n, ATTR_else_branch);
    const struct attr *body = node_attr(n, ATTR_body);
    enum pen_status status = PEN_OK;
    if (n->op == OP_If && yes && no) {
        status = annotate_body(g, n, yes->graph, 1, reterr);
        return status == PEN_OK ? annotate_body(g, n, no->graph, 1 + yes->graph->input_count, reterr) : status;
    }
    return body && body->type == ATTR_GRAPH ? annotate_body(g, n, body->graph, 0, reterr) : status;
}

enum pen_status graph_annotate(struct graph *g, struct pen_error *reterr)
{
    enum pen_status status = set_values(g, reterr);
    bool control = false;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        if (g->nodes[i].dead || !(op_def(g->nodes[i].op)->traits & OP_CONTROL))
            continue;
        status = annotate_node(g, &g->nodes[i], reterr);
        control = true;
    }
    /* Bodies know their types only now; what follows them can learn from that. */
    return status == PEN_OK && control ? set_values(g, reterr) : status;
}
