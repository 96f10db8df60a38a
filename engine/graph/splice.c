#include "graph/splice.h"

#include <stdlib.h>

#include "graph/internal.h"

struct splice {
    struct graph *g, *body;
    enum splice_nested nested;
    uint32_t *value; /* [body->value_count] body value -> value of g */
};

static enum pen_status value_copy(struct splice *s, uint32_t from, const char *name)
{
    const struct value *v = &s->body->values[from];
    uint32_t to;
    enum pen_status status = graph_value(s->g, name, &to);
    if (status != PEN_OK)
        return status;
    struct value *copy = &s->g->values[to];
    name = copy->name;
    *copy = *v;
    copy->name = name;
    copy->producer = NODE_NONE;
    s->value[from] = to;
    return PEN_OK;
}

static enum pen_status values_copy(struct splice *s, const uint32_t *in)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < s->body->value_count; i++)
        s->value[i] = VALUE_NONE;
    for (uint32_t i = 0; i < s->body->input_count; i++)
        s->value[s->body->inputs[i]] = in[i];
    for (uint32_t i = 0; i < s->body->value_count && status == PEN_OK; i++) {
        if (s->value[i] == VALUE_NONE)
            status = value_copy(s, i, NULL);
    }
    return status;
}

static uint32_t mapped(const struct splice *s, uint32_t value)
{
    return value == VALUE_NONE ? VALUE_NONE : s->value[value];
}

static enum pen_status child_copy(struct graph *parent, struct graph *from, struct graph **ret_copy);

static enum pen_status attr_copy(const struct splice *s, const struct attr *from, uint32_t made)
{
    struct attr a = *from;
    enum pen_status status = PEN_OK;
    if (a.type == ATTR_TENSOR)
        a.value = mapped(s, a.value);
    if (a.type == ATTR_GRAPH && s->nested == SPLICE_MOVE)
        a.graph->parent = s->g;
    if (a.type == ATTR_GRAPH && s->nested == SPLICE_COPY)
        status = child_copy(s->g, from->graph, &a.graph);
    return status == PEN_OK ? graph_attr_set(s->g, made, &a) : status;
}

static enum pen_status node_copy(const struct splice *s, const struct node *n)
{
    uint32_t *ids = calloc((size_t)n->in_count + n->out_count + 1, sizeof *ids);
    uint32_t made = NODE_NONE;
    if (!ids)
        return PEN_ERR_NO_MEMORY;
    for (uint32_t k = 0; k < n->in_count + n->out_count; k++)
        ids[k] = mapped(s, k < n->in_count ? n->in[k] : n->out[k - n->in_count]);
    enum pen_status status = graph_node(s->g, n->op, n->name, ids, n->in_count, ids + n->in_count, n->out_count, &made);
    free(ids);
    for (uint32_t k = 0; k < n->attr_count && status == PEN_OK; k++)
        status = attr_copy(s, &n->attrs[k], made);
    if (status == PEN_OK)
        s->g->nodes[made].origin = n->origin;
    return status;
}

static enum pen_status nodes_copy(const struct splice *s)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < s->body->node_count && status == PEN_OK; i++) {
        if (!s->body->nodes[i].dead)
            status = node_copy(s, &s->body->nodes[i]);
    }
    return status;
}

/* A subgraph anew, beneath another graph. */
static enum pen_status child_copy(struct graph *parent, struct graph *from, struct graph **ret_copy)
{
    struct splice s = {.body = from, .nested = SPLICE_COPY};
    enum pen_status status = graph_new_child(parent, &s.g);
    s.value = calloc((size_t)from->value_count + 1, sizeof *s.value);
    if (!s.value)
        status = PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < from->value_count && status == PEN_OK; i++)
        status = value_copy(&s, i, from->values[i].name);
    for (uint32_t i = 0; i < from->input_count && status == PEN_OK; i++)
        status = graph_input_add(s.g, s.value[from->inputs[i]]);
    if (status == PEN_OK)
        status = nodes_copy(&s);
    for (uint32_t i = 0; i < from->output_count && status == PEN_OK; i++)
        status = graph_output_add(s.g, s.value[from->outputs[i]]);
    free(s.value);
    *ret_copy = s.g;
    return status;
}

enum pen_status splice_body(struct graph *g, struct graph *body, const uint32_t *in, enum splice_nested nested,
                            uint32_t *ret_out)
{
    struct splice s = {.g = g, .body = body, .nested = nested};
    s.value = calloc((size_t)body->value_count + 1, sizeof *s.value);
    enum pen_status status = s.value ? values_copy(&s, in) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK)
        status = nodes_copy(&s);
    for (uint32_t k = 0; k < body->output_count && status == PEN_OK; k++)
        ret_out[k] = mapped(&s, body->outputs[k]);
    free(s.value);
    return status;
}
