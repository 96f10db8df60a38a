#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/onnx/reader.h"

static bool same(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static bool same_domain(struct bytes a, struct bytes b)
{
    bool standard_a = a.size == 0 || bytes_are(a, "ai.onnx"), standard_b = b.size == 0 || bytes_are(b, "ai.onnx");
    return (standard_a && standard_b) || same(a, b);
}

const struct pb_function *function_find(const struct reader *r, struct bytes domain, struct bytes name,
                                        struct bytes overload)
{
    for (uint32_t i = 0; i < r->function_count; i++) {
        const struct pb_function *f = &r->functions[i];
        if (same(f->name, name) && same_domain(f->domain, domain) && same(f->overload, overload))
            return f;
    }
    return NULL;
}

/* Formal inputs stand for the caller's values; those it leaves out stand for nothing. */
static enum pen_status bind_inputs(struct scope *s, const struct call *c, const struct pb_function *f)
{
    struct bytes cursor = f->self, name;
    enum pen_status status = PEN_OK;
    for (uint32_t k = 0; status == PEN_OK && pb_each(&cursor, FUNCTION_INPUT, &name) == 1; k++) {
        if (name.size > 0)
            status = names_put(&s->names, name, call_input(c, k));
    }
    return status;
}

/* The caller's output that a name inside the function stands for. */
static bool formal_output(const struct call *c, const struct pb_function *f, struct bytes wanted, uint32_t *ret_value)
{
    struct bytes cursor = f->self, name;
    for (uint32_t k = 0; pb_each(&cursor, FUNCTION_OUTPUT, &name) == 1; k++) {
        if (same(name, wanted) && k < c->out_count && c->out[k] != VALUE_NONE) {
            *ret_value = c->out[k];
            return true;
        }
    }
    return false;
}

/* Values made inside get fresh names, so that a function may be used many times. */
static enum pen_status declare_inner(struct scope *s, const struct call *c, const struct pb_function *f)
{
    struct bytes nodes = f->self, node, name;
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && pb_each(&nodes, FUNCTION_NODE, &node) == 1) {
        while (status == PEN_OK && pb_each(&node, NODE_OUTPUT, &name) == 1) {
            uint32_t id;
            if (name.size == 0)
                continue;
            if (!formal_output(c, f, name, &id))
                status = graph_value(s->g, NULL, &id);
            if (status == PEN_OK)
                status = names_put(&s->names, name, id);
        }
    }
    return status;
}

/* An output that is an input of the function, handed through. */
static enum pen_status pass_through(struct scope *s, struct call *c, const struct pb_function *f)
{
    struct bytes cursor = f->self, name;
    enum pen_status status = PEN_OK;
    for (uint32_t k = 0; status == PEN_OK && pb_each(&cursor, FUNCTION_OUTPUT, &name) == 1; k++) {
        uint32_t id;
        if (k >= c->out_count || c->out[k] == VALUE_NONE)
            continue;
        status = scope_resolve(s, name, &id);
        if (status == PEN_OK && id != c->out[k] && id != VALUE_NONE)
            status = graph_node(s->g, OP_Identity, c->name, &id, 1, &c->out[k], 1, NULL);
    }
    return status;
}

enum pen_status function_inline(struct call *c, const struct pb_function *f)
{
    struct scope s = {.r = c->r, .g = c->g, .binding = c, .defaults = f->self, .depth = c->scope->depth + 1};
    struct opset *opsets = NULL;
    if (s.depth > c->g->limits.depth)
        return pen_error_set(c->r->reterr, PEN_ERR_TOO_LARGE,
                             "functions and subgraphs are nested more than %u deep at node %s (a cycle of functions?)",
                             c->g->limits.depth, c->name);
    enum pen_status status = read_opsets(f->self, FUNCTION_OPSET, &opsets, &s.opset_count, c->r->reterr);
    s.opsets = opsets;
    if (status == PEN_OK)
        status = bind_inputs(&s, c, f);
    if (status == PEN_OK)
        status = declare_inner(&s, c, f);
    if (status == PEN_OK)
        status = scope_read_nodes(&s, f->self, FUNCTION_NODE);
    if (status == PEN_OK)
        status = pass_through(&s, c, f);
    if (status == PEN_ERR_INVALID)
        pen_error_set(c->r->reterr, status,
                      "the function called by node %s is malformed: a name is given twice or never", c->name);
    scope_fini(&s);
    free(opsets);
    return status;
}
