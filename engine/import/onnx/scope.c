#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/onnx/reader.h"

static int cut(struct bytes text)
{
    return (int)(text.size < 120 ? text.size : 120);
}

static const char *chars(struct bytes text)
{
    return text.at ? (const char *)text.at : "";
}

static enum pen_status broken(const struct scope *s, const char *what)
{
    return pen_error_set(s->r->reterr, PEN_ERR_CORRUPT, "the model file is broken: %s", what);
}

void scope_fini(struct scope *s)
{
    names_fini(&s->names);
    free(s->captures);
}

int64_t opset_version(const struct opset *opsets, uint32_t count, struct bytes domain)
{
    bool standard = domain.size == 0 || bytes_are(domain, "ai.onnx");
    for (uint32_t i = 0; i < count; i++) {
        struct bytes d = opsets[i].domain;
        bool is_standard = d.size == 0 || bytes_are(d, "ai.onnx");
        if ((standard && is_standard) || (!standard && d.size == domain.size && memcmp(d.at, domain.at, d.size) == 0))
            return opsets[i].version;
    }
    return 1;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* C would take the text to end there, and name something else by it. */
static bool has_nul(struct bytes text)
{
    return text.size > 0 && memchr(text.at, '\0', text.size);
}

enum pen_status scope_value(struct scope *s, struct bytes name, uint32_t *ret_value)
{
    const char *text = graph_text(s->g, (const char *)name.at, name.size);
    if (!text || strlen(text) != name.size)
        return text ? broken(s, "a value's name has a NUL byte") : PEN_ERR_NO_MEMORY;
    enum pen_status status = graph_value(s->g, text, ret_value);
    if (status == PEN_OK)
        status = names_put(&s->names, name, *ret_value);
    if (status == PEN_ERR_INVALID)
        return pen_error_set(s->r->reterr, PEN_ERR_INVALID, "two values are named '%.*s'; names must be unique",
                             cut(name), chars(name));
    return status;
}

static enum pen_status capture_add(struct scope *s, uint32_t outer_value)
{
    if (s->capture_count == s->capture_room) {
        uint32_t room = s->capture_room ? s->capture_room * 2 : 8;
        uint32_t *bigger = realloc(s->captures, room * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        s->captures = bigger;
        s->capture_room = room;
    }
    s->captures[s->capture_count++] = outer_value;
    return PEN_OK;
}

/* Brings a value of the surrounding graph in: a constant as one of our own, anything else as an extra input. */
static enum pen_status capture(struct scope *s, struct bytes name, uint32_t outer_value, uint32_t *ret_value)
{
    uint32_t id;
    enum pen_status status = scope_value(s, name, &id);
    if (status != PEN_OK)
        return status;
    const struct value *from = &s->outer->g->values[outer_value];
    struct value *to = &s->g->values[id];
    to->kind = from->kind;
    to->dtype = from->dtype;
    to->shape = from->shape;
    to->data = from->data;
    to->bytes = from->bytes;
    *ret_value = id;
    if (from->data)
        return PEN_OK;
    status = graph_input_add(s->g, id);
    return status == PEN_OK ? capture_add(s, outer_value) : status;
}

enum pen_status scope_capture(struct scope *s, uint32_t outer_value, uint32_t *ret_value)
{
    uint32_t id;
    enum pen_status status = graph_value(s->g, NULL, &id);
    if (status == PEN_OK)
        status = graph_input_add(s->g, id);
    if (status == PEN_OK)
        status = capture_add(s, outer_value);
    if (status != PEN_OK)
        return status;
    const struct value *from = &s->outer->g->values[outer_value];
    s->g->values[id].kind = from->kind;
    s->g->values[id].dtype = from->dtype;
    s->g->values[id].shape = from->shape;
    *ret_value = id;
    return PEN_OK;
}

enum pen_status scope_resolve(struct scope *s, struct bytes name, uint32_t *ret_value)
{
    uint32_t outer_value;
    if (name.size == 0) {
        *ret_value = VALUE_NONE;
        return PEN_OK;
    }
    if (names_get(&s->names, name, ret_value))
        return PEN_OK;
    if (!s->outer)
        return pen_error_set(s->r->reterr, PEN_ERR_INVALID, "a node reads '%.*s', which nothing in the model gives",
                             cut(name), chars(name));
    enum pen_status status = scope_resolve(s->outer, name, &outer_value);
    if (status != PEN_OK)
        return status;
    if (outer_value == VALUE_NONE) { /* an optional input that a function's caller left out */
        *ret_value = VALUE_NONE;
        return PEN_OK;
    }
    return capture(s, name, outer_value, ret_value);
}

/* ---- initialisers, inputs, outputs ---------------------------------------------------------------------------------- */

static enum pen_status add_initializer(struct scope *s, struct bytes message, bool sparse)
{
    struct tensor t;
    uint32_t id;
    struct tensor_source any = s->r->source;
    any.askew = true;
    enum pen_status status = sparse ? tensor_load_sparse(&s->r->source, message, &t, s->r->reterr)
                                    : tensor_load(&any, message, &t, s->r->reterr);
    if (status != PEN_OK)
        return status;
    if (t.name.size == 0)
        return PEN_OK; /* nobody can refer to it */
    status = scope_value(s, t.name, &id);
    if (status != PEN_OK)
        return status;
    struct value *v = &s->g->values[id];
    v->dtype = t.dtype;
    v->shape = t.shape;
    v->data = t.data;
    v->bytes = t.bytes;
    s->r->other_floats |= t.dtype == PEN_DTYPE_F16 || t.dtype == PEN_DTYPE_BF16 || t.dtype == PEN_DTYPE_F64;
    return PEN_OK;
}

static enum pen_status set_symbols(struct graph *g, uint32_t value, const struct pb_type *t)
{
    for (int32_t i = 0; i < t->shape.rank; i++) {
        if (t->symbol[i].size == 0)
            continue;
        g->values[value].symbol[i] = graph_text(g, (const char *)t->symbol[i].at, t->symbol[i].size);
        if (!g->values[value].symbol[i])
            return PEN_ERR_NO_MEMORY;
    }
    return PEN_OK;
}

static void set_type(struct value *v, const struct pb_type *t)
{
    v->kind = t->kind;
    v->dtype = t->dtype;
    v->shape = t->shape;
}

static enum pen_status add_input(struct scope *s, struct bytes message)
{
    struct pb_type t;
    uint32_t id;
    if (!pb_value_info_parse(message, &t) || t.name.size == 0)
        return broken(s, "an input has no proper name and type (at most 8 dimensions)");
    if (names_get(&s->names, t.name, &id))
        return s->g->values[id].data ? PEN_OK : broken(s, "an input is listed twice");
    if (t.key != PEN_DTYPE_NONE)
        return map_input_add(s, &t);
    enum pen_status status = scope_value(s, t.name, &id);
    if (status == PEN_OK)
        status = graph_input_add(s->g, id);
    if (status != PEN_OK)
        return status;
    set_type(&s->g->values[id], &t);
    s->r->other_floats |= t.dtype == PEN_DTYPE_F16 || t.dtype == PEN_DTYPE_BF16 || t.dtype == PEN_DTYPE_F64;
    return set_symbols(s->g, id, &t);
}

static enum pen_status add_output(struct scope *s, struct bytes message)
{
    struct pb_type t;
    uint32_t id;
    if (!pb_value_info_parse(message, &t) || t.name.size == 0)
        return broken(s, "an output has no proper name and type (at most 8 dimensions)");
    enum pen_status status = scope_resolve(s, t.name, &id);
    if (status != PEN_OK)
        return status;
    if (id == VALUE_NONE)
        return broken(s, "an output stands for nothing");
    struct value *v = &s->g->values[id];
    if (v->dtype == PEN_DTYPE_NONE && !v->data) {
        set_type(v, &t);
        status = set_symbols(s->g, id, &t);
    }
    return status == PEN_OK ? graph_output_add(s->g, id) : status;
}

typedef enum pen_status (*part_fn)(struct scope *s, struct bytes message);

static enum pen_status add_dense(struct scope *s, struct bytes message)
{
    return add_initializer(s, message, false);
}

static enum pen_status add_sparse(struct scope *s, struct bytes message)
{
    return add_initializer(s, message, true);
}

static enum pen_status each_part(struct scope *s, struct bytes message, uint32_t number, part_fn fn)
{
    struct bytes part;
    enum pen_status status = PEN_OK;
    int got = 0;
    while (status == PEN_OK && (got = pb_each(&message, number, &part)) == 1)
        status = fn(s, part);
    return status == PEN_OK && got < 0 ? broken(s, "a graph is cut or garbled") : status;
}

/* Outputs of all nodes get their values first, so that order in the file does not matter. */
static enum pen_status declare_outputs(struct scope *s, struct bytes message)
{
    struct bytes name;
    enum pen_status status = PEN_OK;
    uint32_t id;
    int got = 0;
    while (status == PEN_OK && (got = pb_each(&message, NODE_OUTPUT, &name)) == 1) {
        if (name.size > 0)
            status = scope_value(s, name, &id);
    }
    return status == PEN_OK && got < 0 ? broken(s, "a node is cut or garbled") : status;
}

enum pen_status scope_read_graph(struct scope *s, struct bytes message)
{
    s->message = message;
    enum pen_status status = each_part(s, message, GRAPH_INITIALIZER, add_dense);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_SPARSE, add_sparse);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_INPUT, add_input);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_NODE, declare_outputs);
    if (status == PEN_OK)
        status = scope_read_nodes(s, message, GRAPH_NODE);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_OUTPUT, add_output);
    return status;
}

static enum pen_status bind_inputs(struct scope *s, struct bytes message, const uint32_t *inputs, uint32_t count)
{
    struct bytes part;
    struct pb_type t;
    enum pen_status status = PEN_OK;
    uint32_t at = 0;
    while (status == PEN_OK && pb_each(&message, GRAPH_INPUT, &part) == 1) {
        if (at >= count || !pb_value_info_parse(part, &t) || t.name.size == 0)
            return broken(s, "a body takes other inputs than it is given");
        status = names_put(&s->names, t.name, inputs[at++]);
    }
    if (status == PEN_ERR_INVALID || (status == PEN_OK && at != count))
        return broken(s, "a body takes other inputs than it is given");
    return status;
}

static enum pen_status resolve_outputs(struct scope *s, struct bytes message, uint32_t *ret_outputs, uint32_t count)
{
    struct bytes part;
    struct pb_type t;
    enum pen_status status = PEN_OK;
    uint32_t at = 0;
    while (status == PEN_OK && pb_each(&message, GRAPH_OUTPUT, &part) == 1) {
        if (at >= count || !pb_value_info_parse(part, &t))
            return broken(s, "a body gives other outputs than its node");
        status = scope_resolve(s, t.name, &ret_outputs[at]);
        if (status == PEN_OK && ret_outputs[at] == VALUE_NONE)
            return broken(s, "a body's output stands for nothing");
        if (status == PEN_OK && s->g->values[ret_outputs[at]].dtype == PEN_DTYPE_NONE)
            s->g->values[ret_outputs[at]].dtype = t.dtype;
        at++;
    }
    return status == PEN_OK && at != count ? broken(s, "a body gives other outputs than its node") : status;
}

enum pen_status scope_read_body(struct scope *s, struct bytes message, const uint32_t *inputs, uint32_t input_count,
                                uint32_t *ret_outputs, uint32_t output_count)
{
    s->message = message;
    enum pen_status status = each_part(s, message, GRAPH_INITIALIZER, add_dense);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_SPARSE, add_sparse);
    if (status == PEN_OK)
        status = bind_inputs(s, message, inputs, input_count);
    if (status == PEN_OK)
        status = each_part(s, message, GRAPH_NODE, declare_outputs);
    if (status == PEN_OK)
        status = scope_read_nodes(s, message, GRAPH_NODE);
    return status == PEN_OK ? resolve_outputs(s, message, ret_outputs, output_count) : status;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

static bool find_attr(struct bytes message, uint32_t number, struct bytes name, struct pb_attr *ret)
{
    struct bytes part;
    while (pb_each(&message, number, &part) == 1) {
        struct pb_attr a;
        if (pb_attr_parse(part, &a) && a.name.size == name.size && memcmp(a.name.at, name.at, name.size) == 0) {
            *ret = a;
            return true;
        }
    }
    return false;
}

/* An attribute of a function's node that refers to one of the call: the call's, else the function's default, else none. */
static bool bind_attr(struct scope *s, struct bytes ref, struct call_attr *a)
{
    struct bytes own = a->pb.name;
    for (uint32_t i = 0; s->binding && i < s->binding->attr_count; i++) {
        struct bytes name = s->binding->attrs[i].pb.name;
        if (name.size == ref.size && memcmp(name.at, ref.at, ref.size) == 0) {
            *a = s->binding->attrs[i];
            a->pb.name = own;
            return true;
        }
    }
    if (!find_attr(s->defaults, FUNCTION_DEFAULT, ref, &a->pb))
        return false;
    a->pb.name = own;
    a->home = s;
    return true;
}

/* A subgraph inside a function sees the call's attributes through the scopes around it. */
static bool bind_attr_outwards(struct scope *s, struct call_attr *a)
{
    struct bytes ref = a->pb.ref;
    for (; s; s = s->outer) {
        if (s->binding && bind_attr(s, ref, a))
            return true;
    }
    return false;
}

static enum pen_status read_attrs(struct scope *s, const struct pb_node *n, struct call *c)
{
    struct bytes cursor = n->self, part;
    while (pb_each(&cursor, NODE_ATTRIBUTE, &part) == 1) {
        struct call_attr a = {.home = s};
        if (!pb_attr_parse(part, &a.pb))
            return broken(s, "an attribute is cut or garbled");
        if (has_nul(a.pb.name))
            return broken(s, "an attribute's name has a NUL byte");
        if (a.pb.ref.size > 0 && !bind_attr_outwards(s, &a))
            continue;
        c->attrs[c->attr_count++] = a;
    }
    return PEN_OK;
}

static enum pen_status read_ends(struct scope *s, const struct pb_node *n, struct call *c)
{
    struct bytes cursor = n->self, name;
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && pb_each(&cursor, NODE_INPUT, &name) == 1)
        status = scope_resolve(s, name, &c->in[c->in_count++]);
    cursor = n->self;
    while (status == PEN_OK && pb_each(&cursor, NODE_OUTPUT, &name) == 1) {
        c->out[c->out_count] = VALUE_NONE;
        if (name.size > 0 && !names_get(&s->names, name, &c->out[c->out_count]))
            return broken(s, "a node's output was not declared");
        c->out_count++;
    }
    while (c->in_count > 0 && c->in[c->in_count - 1] == VALUE_NONE)
        c->in_count--;
    return status;
}

static void name_call(const struct scope *s, const struct pb_node *n, struct call *c)
{
    const char *prefix = s->binding ? s->binding->name : "";
    if (n->name.size > 0 || *prefix)
        (void)snprintf(c->name, sizeof c->name, "%.70s%s%.*s", prefix, *prefix ? "/" : "",
                       (int)(n->name.size < 80 ? n->name.size : 80), chars(n->name));
    else
        (void)snprintf(c->name, sizeof c->name, "%.*s_%u", (int)(n->op_type.size < 60 ? n->op_type.size : 60),
                       chars(n->op_type), s->g->node_count);
}

static enum pen_status fill_call(struct scope *s, const struct pb_node *n, struct call *c)
{
    c->in = calloc((size_t)n->in_count + n->out_count + 1, sizeof *c->in);
    c->attrs = calloc((size_t)n->attr_count + 1, sizeof *c->attrs);
    c->origin = graph_text(s->g, chars(n->op_type), n->op_type.size);
    if (!c->in || !c->attrs || !c->origin)
        return PEN_ERR_NO_MEMORY;
    c->out = c->in + n->in_count;
    name_call(s, n, c);
    enum pen_status status = read_attrs(s, n, c);
    return status == PEN_OK ? read_ends(s, n, c) : status;
}

static enum pen_status read_node(struct scope *s, struct bytes message)
{
    struct pb_node n;
    if (!pb_node_parse(message, &n))
        return broken(s, "a node is cut or garbled");
    if (n.op_type.size == 0)
        return broken(s, "a node names no operator");
    if (has_nul(n.op_type) || has_nul(n.domain))
        return broken(s, "the operator or domain that a node names has a NUL byte");
    struct call c = {
        .scope = s, .g = s->g, .r = s->r, .op_type = n.op_type, .domain = n.domain, .overload = n.overload};
    c.version = opset_version(s->opsets, s->opset_count, n.domain);
    c.status = fill_call(s, &n, &c);
    if (c.status == PEN_OK)
        call_translate(&c);
    free(c.in);
    free(c.attrs);
    if (c.status == PEN_ERR_NO_MEMORY)
        pen_error_set(s->r->reterr, c.status, "no memory, or the model's budget is spent, at node %s", c.name);
    return c.status;
}

enum pen_status scope_read_nodes(struct scope *s, struct bytes message, uint32_t number)
{
    return each_part(s, message, number, read_node);
}
