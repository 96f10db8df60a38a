#include <stdlib.h>
#include <string.h>

#include "graph/annotate.h"
#include "graph/pass_internal.h"

/*
 * An If whose condition is known gives way to the branch it takes: the branch's values and nodes are copied into the graph around it, captures are replaced
 * by what they capture. The If's own outputs stay, as views of the branch's, so that names of the signature stay too.
 */
struct splice {
    struct graph *g, *body;
    const uint32_t *captures; /* [body->input_count] values of g */
    uint32_t *value;          /* [body->value_count] body value -> value of g */
};

static enum pen_status value_copy(struct splice *s, uint32_t from)
{
    const struct value *v = &s->body->values[from];
    uint32_t to;
    enum pen_status status = graph_value(s->g, NULL, &to);
    if (status != PEN_OK)
        return status;
    struct value *copy = &s->g->values[to];
    const char *name = copy->name;
    *copy = *v;
    copy->name = name;
    copy->producer = NODE_NONE;
    s->value[from] = to;
    return PEN_OK;
}

static enum pen_status values_copy(struct splice *s)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < s->body->value_count; i++)
        s->value[i] = VALUE_NONE;
    for (uint32_t i = 0; i < s->body->input_count; i++)
        s->value[s->body->inputs[i]] = s->captures[i];
    for (uint32_t i = 0; i < s->body->value_count && status == PEN_OK; i++) {
        if (s->value[i] == VALUE_NONE)
            status = value_copy(s, i);
    }
    return status;
}

static uint32_t mapped(const struct splice *s, uint32_t value)
{
    return value == VALUE_NONE ? VALUE_NONE : s->value[value];
}

static enum pen_status node_copy(struct splice *s, const struct node *n)
{
    uint32_t *ids = calloc((size_t)n->in_count + n->out_count + 1, sizeof *ids);
    uint32_t made = NODE_NONE;
    if (!ids)
        return PEN_ERR_NO_MEMORY;
    for (uint32_t k = 0; k < n->in_count + n->out_count; k++)
        ids[k] = mapped(s, k < n->in_count ? n->in[k] : n->out[k - n->in_count]);
    enum pen_status status = graph_node(s->g, n->op, n->name, ids, n->in_count, ids + n->in_count, n->out_count, &made);
    free(ids);
    for (uint32_t k = 0; k < n->attr_count && status == PEN_OK; k++) {
        struct attr a = n->attrs[k];
        if (a.type == ATTR_TENSOR)
            a.value = mapped(s, a.value);
        if (a.type == ATTR_GRAPH)
            a.graph->parent = s->g;
        status = graph_attr_set(s->g, made, &a);
    }
    if (status == PEN_OK)
        s->g->nodes[made].origin = n->origin;
    return status;
}

static enum pen_status splice(struct graph *g, uint32_t node, struct graph *body, uint32_t first)
{
    struct splice s = {.g = g, .body = body, .captures = g->nodes[node].in + first};
    s.value = calloc((size_t)body->value_count + 1, sizeof *s.value);
    enum pen_status status = s.value ? values_copy(&s) : PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < body->node_count && status == PEN_OK; i++) {
        if (!body->nodes[i].dead)
            status = node_copy(&s, &body->nodes[i]);
    }
    const uint32_t *out = g->nodes[node].out;
    uint32_t out_count = g->nodes[node].out_count;
    if (status == PEN_OK)
        graph_kill(g, node);
    for (uint32_t k = 0; k < out_count && status == PEN_OK; k++) {
        uint32_t from = mapped(&s, body->outputs[k]);
        if (out[k] == VALUE_NONE)
            continue;
        g->values[out[k]].shape = shape_unknown(); /* of both branches until now */
        status = graph_node(g, OP_Identity, NULL, &from, 1, &out[k], 1, NULL);
    }
    free(s.value);
    return status;
}

/* Which branch, -1 while the condition is not known. */
static int branch_taken(const struct graph *g, const struct node *n)
{
    const struct value *cond = n->dead || n->op != OP_If ? NULL : node_in(g, n, 0);
    bool known = cond && cond->data && cond->dtype == PEN_DTYPE_BOOL && cond->bytes == 1;
    return known ? *(const uint8_t *)cond->data != 0 : -1;
}

enum pen_status pass_branch(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    uint32_t count = 0;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        int taken = branch_taken(g, n);
        const struct attr *yes = node_attr(n, ATTR_then_branch), *no = node_attr(n, ATTR_else_branch);
        if (taken < 0 || !yes || !no)
            continue;
        struct graph *body = taken ? yes->graph : no->graph;
        uint32_t first = taken ? 1 : 1 + yes->graph->input_count;
        if (body->output_count != n->out_count || first + body->input_count > n->in_count)
            continue;
        status = splice(g, i, body, first);
        count++;
    }
    if (status == PEN_OK && count > 0)
        status = graph_compact(g);
    if (status == PEN_OK && count > 0)
        status = graph_annotate(g, reterr);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "no memory to take the branches that are known");
    *ret_count += count;
    return PEN_OK;
}
