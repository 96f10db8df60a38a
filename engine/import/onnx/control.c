#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/onnx/reader.h"

/* A subgraph attribute read into a graph of its own, with the values it captures. */
struct body {
    struct scope scope;
    struct graph *graph;
};

static bool body_read(struct call *c, const char *attr_key, struct body *b)
{
    const struct call_attr *found = NULL;
    for (uint32_t i = 0; i < c->attr_count; i++) {
        if (bytes_are(c->attrs[i].pb.name, attr_key) && c->attrs[i].pb.type == PB_GRAPH)
            found = &c->attrs[i];
    }
    if (!found) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks its subgraph '%s'", c->name, c->origin, attr_key);
        return false;
    }
    if (c->scope->depth + 1 > c->g->limits.depth) {
        call_fail(c, PEN_ERR_TOO_LARGE, "subgraphs are nested more than %u deep at node %s", c->g->limits.depth,
                  c->name);
        return false;
    }
    enum pen_status status = graph_new_child(c->g, &b->graph);
    if (status == PEN_OK) {
        struct scope *home = found->home->g == c->g ? found->home : c->scope;
        b->scope = (struct scope){.r = c->r, .g = b->graph, .outer = home, .depth = c->scope->depth + 1};
        b->scope.opsets = home->opsets;
        b->scope.opset_count = home->opset_count;
        status = scope_read_graph(&b->scope, found->pb.message);
    }
    if (status != PEN_OK)
        c->status = status;
    return status == PEN_OK;
}

static void set_graph(struct call *c, uint32_t node, enum attr_key key, struct graph *body)
{
    struct attr attr = {.key = key, .type = ATTR_GRAPH, .graph = body};
    if (c->status == PEN_OK)
        c->status = graph_attr_set(c->g, node, &attr);
}

/* Emits the node with the captures of up to two bodies behind its own inputs. */
static uint32_t emit_with(struct call *c, enum op op, const struct body *first, const struct body *second)
{
    uint32_t more = first->scope.capture_count + (second ? second->scope.capture_count : 0);
    uint32_t *in = malloc(((size_t)c->in_count + more + 1) * sizeof *in);
    if (!in) {
        c->status = PEN_ERR_NO_MEMORY;
        return NODE_NONE;
    }
    uint32_t count = c->in_count;
    memcpy(in, c->in, count * sizeof *in);
    for (uint32_t i = 0; i < first->scope.capture_count; i++)
        in[count++] = first->scope.captures[i];
    for (uint32_t i = 0; second && i < second->scope.capture_count; i++)
        in[count++] = second->scope.captures[i];
    uint32_t node = call_emit(c, op, in, count, c->out, c->out_count);
    free(in);
    return node;
}

void control_if(struct call *c)
{
    struct body yes = {0}, no = {0};
    if (body_read(c, "then_branch", &yes) && body_read(c, "else_branch", &no)) {
        if (c->in_count != 1)
            call_fail(c, PEN_ERR_INVALID, "node %s (If) needs exactly one input", c->name);
        uint32_t node = c->status == PEN_OK ? emit_with(c, OP_If, &yes, &no) : NODE_NONE;
        set_graph(c, node, ATTR_then_branch, yes.graph);
        set_graph(c, node, ATTR_else_branch, no.graph);
    }
    scope_fini(&yes.scope);
    scope_fini(&no.scope);
}

/* What a Loop feeds its body first is known by definition. */
static void type_loop_inputs(struct graph *body)
{
    for (uint32_t i = 0; i < 2 && i < body->input_count; i++) {
        struct value *v = &body->values[body->inputs[i]];
        v->dtype = i == 0 ? PEN_DTYPE_I64 : PEN_DTYPE_BOOL;
        v->shape = shape_scalar();
    }
}

static void pad_inputs(struct call *c, uint32_t count)
{
    /* fill_call made room for the file's inputs, of which trailing empty ones were dropped. */
    while (c->in_count < count)
        c->in[c->in_count++] = VALUE_NONE;
}

void control_loop(struct call *c)
{
    struct body body = {0};
    if (c->in_count < 2 && c->in + 2 > c->out) {
        call_fail(c, PEN_ERR_INVALID, "node %s (Loop) needs a trip count and a condition, at least as empty names",
                  c->name);
        return;
    }
    pad_inputs(c, 2);
    if (body_read(c, "body", &body)) {
        uint32_t carried = c->in_count - 2;
        if (body.graph->input_count != c->in_count + body.scope.capture_count)
            call_fail(c, PEN_ERR_INVALID, "node %s (Loop) feeds %u values, its body takes another number", c->name,
                      carried);
        type_loop_inputs(body.graph);
        uint32_t node = c->status == PEN_OK ? emit_with(c, OP_Loop, &body, NULL) : NODE_NONE;
        set_graph(c, node, ATTR_body, body.graph);
        call_set_int(c, node, ATTR_carried, carried);
    }
    scope_fini(&body.scope);
}

/* ---- Scan of opset 8: every input has a batch in front, and each of the batch is scanned on its own -------------------- */

/* A value of `g` for each value of `like`, listed as inputs or outputs of `g`; the element types are taken over. */
static enum pen_status values_like(struct graph *g, const struct graph *like, const uint32_t *ids, uint32_t count,
                                   bool inputs, uint32_t *ret_ids)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        status = graph_value(g, NULL, &ret_ids[i]);
        if (status == PEN_OK && inputs) {
            g->values[ret_ids[i]].dtype = like->values[ids[i]].dtype;
            status = graph_input_add(g, ret_ids[i]);
        } else if (status == PEN_OK) {
            status = graph_output_add(g, ret_ids[i]);
        }
    }
    return status;
}

static enum pen_status directions_set(struct call *c, struct graph *g, uint32_t node)
{
    const int64_t *items = NULL;
    uint32_t count = 0;
    return call_ints(c, "directions", &items, &count)
               ? graph_attr_ints(g, node, ATTR_scan_input_directions, items, count)
               : PEN_OK;
}

/* A graph that holds nothing but the scan of one entry: the body of a Scan over the batch that carries no state. */
static enum pen_status entry_graph(struct call *c, struct graph *body, int64_t scanned, struct graph **ret_graph)
{
    struct graph *g = NULL;
    uint32_t count = body->input_count, outputs = body->output_count, node = NODE_NONE;
    uint32_t *ids = calloc((size_t)count + outputs + 1, sizeof *ids);
    enum pen_status status = ids ? graph_new_child(c->g, &g) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK)
        status = values_like(g, body, body->inputs, count, true, ids);
    if (status == PEN_OK)
        status = values_like(g, body, body->outputs, outputs, false, ids + count);
    if (status == PEN_OK)
        status = graph_node(g, OP_Scan, c->name, ids, count, ids + count, outputs, &node);
    if (status == PEN_OK)
        status = directions_set(c, g, node);
    if (status == PEN_OK)
        status = graph_attr_int(g, node, ATTR_carried, (int64_t)c->in_count - scanned);
    if (status == PEN_OK)
        status = graph_attr_int(g, node, ATTR_num_scan_inputs, scanned);
    if (status == PEN_OK)
        status = graph_attr_set(g, node, &(struct attr){.key = ATTR_body, .type = ATTR_GRAPH, .graph = body});
    free(ids);
    body->parent = g;
    *ret_graph = g;
    return status;
}

static void control_scan_batched(struct call *c)
{
    struct body body = {0};
    int64_t scanned = call_int(c, "num_scan_inputs", 0);
    if (c->in_count < 1 || c->in[0] != VALUE_NONE || scanned < 1 || scanned > c->in_count - 1) {
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s: Scan of opset 8 with sequence lengths, or without scanned inputs",
                  c->name);
        return;
    }
    c->in_count--;
    memmove(c->in, c->in + 1, c->in_count * sizeof *c->in); /* over the lengths that are not given */
    if (body_read(c, "body", &body)) {
        struct graph *entry = NULL;
        if (body.graph->input_count != c->in_count + body.scope.capture_count)
            call_fail(c, PEN_ERR_INVALID, "node %s (Scan) feeds %u values, its body takes another number", c->name,
                      c->in_count);
        if (c->status == PEN_OK && body.scope.capture_count > 0)
            call_fail(c, PEN_ERR_UNSUPPORTED, "node %s: Scan of opset 8 whose body reads values from outside", c->name);
        if (c->status == PEN_OK)
            c->status = entry_graph(c, body.graph, scanned, &entry);
        uint32_t node = c->status == PEN_OK ? emit_with(c, OP_Scan, &body, NULL) : NODE_NONE;
        set_graph(c, node, ATTR_body, entry);
        call_set_int(c, node, ATTR_carried, 0);
        call_set_int(c, node, ATTR_num_scan_inputs, c->in_count);
    }
    scope_fini(&body.scope);
}

void control_scan(struct call *c)
{
    static const char *const except[] = {"body", NULL};
    struct body body = {0};
    int64_t scanned = call_int(c, "num_scan_inputs", 0);
    if (c->version < 9) {
        control_scan_batched(c);
        return;
    }
    if (scanned < 1 || scanned > c->in_count) {
        call_fail(c, PEN_ERR_INVALID, "node %s (Scan) has num_scan_inputs %lld with %u inputs", c->name,
                  (long long)scanned, c->in_count);
        return;
    }
    if (body_read(c, "body", &body)) {
        uint32_t states = c->in_count - (uint32_t)scanned;
        if (body.graph->input_count != c->in_count + body.scope.capture_count)
            call_fail(c, PEN_ERR_INVALID, "node %s (Scan) feeds %u values, its body takes another number", c->name,
                      c->in_count);
        uint32_t node = c->status == PEN_OK ? emit_with(c, OP_Scan, &body, NULL) : NODE_NONE;
        call_copy_attrs(c, node, except);
        set_graph(c, node, ATTR_body, body.graph);
        call_set_int(c, node, ATTR_carried, states);
    }
    scope_fini(&body.scope);
}

/* ---- SequenceMap: a Loop over the sequence's length that appends to one output sequence per result ------------------ */

#define MAP_MAX 64 /* inputs or outputs */

struct mapping {
    struct call *c;
    struct call inner; /* emits into the loop's body */
    struct body body;
    uint32_t index, elements[MAP_MAX], results[MAP_MAX], grown[MAP_MAX], start[MAP_MAX];
};

/* A sequence by its kind, or by what makes it (kinds are inferred only later). */
static bool is_sequence(const struct graph *g, uint32_t value)
{
    const struct value *v = &g->values[value];
    if (v->kind == VALUE_SEQUENCE || v->producer == NODE_NONE)
        return v->kind == VALUE_SEQUENCE;
    switch (g->nodes[v->producer].op) {
    case OP_SequenceConstruct:
    case OP_SequenceEmpty:
    case OP_SequenceInsert:
    case OP_SequenceErase:
    case OP_SplitToSequence:
        return true;
    case OP_Loop: /* what an earlier SequenceMap became */
        return v->dtype != PEN_DTYPE_NONE && v->kind == VALUE_SEQUENCE;
    default:
        return false;
    }
}

static uint32_t body_input(struct mapping *m, enum pen_dtype dtype, enum value_kind kind)
{
    uint32_t id = VALUE_NONE;
    if (m->c->status == PEN_OK)
        m->c->status = graph_value(m->body.graph, NULL, &id);
    if (m->c->status == PEN_OK)
        m->c->status = graph_input_add(m->body.graph, id);
    if (m->c->status != PEN_OK)
        return VALUE_NONE;
    struct value *v = &m->body.graph->values[id];
    v->dtype = dtype;
    v->kind = kind;
    if (kind == VALUE_TENSOR)
        v->shape = shape_scalar();
    return id;
}

/* Element `index` of each input that is a sequence; tensors are handed in whole. */
static void take_elements(struct mapping *m)
{
    struct call *c = m->c;
    for (uint32_t i = 0; i < c->in_count && c->status == PEN_OK; i++) {
        uint32_t whole;
        c->status = scope_capture(&m->body.scope, c->in[i], &whole);
        m->elements[i] = whole;
        if (c->status != PEN_OK || !is_sequence(c->g, c->in[i]))
            continue;
        m->elements[i] = call_value(&m->inner, OP_SequenceAt, (uint32_t[]){whole, m->index}, 2);
        c->status = m->inner.status;
    }
}

static void fill_body(struct mapping *m, struct bytes message, uint32_t condition)
{
    struct call *c = m->c;
    take_elements(m);
    if (c->status == PEN_OK)
        c->status = scope_read_body(&m->body.scope, message, m->elements, c->in_count, m->results, c->out_count);
    if (c->status == PEN_OK)
        c->status = graph_output_add(m->body.graph, condition);
    for (uint32_t k = 0; k < c->out_count && c->status == PEN_OK; k++) {
        uint32_t longer = call_value(&m->inner, OP_SequenceInsert, (uint32_t[]){m->grown[k], m->results[k]}, 2);
        c->status = m->inner.status != PEN_OK ? m->inner.status : graph_output_add(m->body.graph, longer);
    }
}

/* The empty sequences that the loop starts with. */
static void make_starts(struct mapping *m)
{
    struct call *c = m->c;
    for (uint32_t k = 0; k < c->out_count && c->status == PEN_OK; k++) {
        m->start[k] = call_value(c, OP_SequenceEmpty, NULL, 0);
        enum pen_dtype dtype = m->body.graph->values[m->results[k]].dtype;
        if (c->status == PEN_OK)
            call_set_int(c, c->g->values[m->start[k]].producer, ATTR_dtype,
                         dtype != PEN_DTYPE_NONE ? dtype : PEN_DTYPE_F32);
    }
}

static void emit_loop(struct mapping *m)
{
    struct call *c = m->c;
    uint32_t count = 0, *in = malloc((2 + (size_t)c->out_count + m->body.scope.capture_count) * sizeof *in);
    if (!in) {
        c->status = PEN_ERR_NO_MEMORY;
        return;
    }
    in[count++] = call_value(c, OP_SequenceLength, c->in, 1);
    in[count++] = VALUE_NONE;
    for (uint32_t k = 0; k < c->out_count; k++)
        in[count++] = m->start[k];
    for (uint32_t k = 0; k < m->body.scope.capture_count; k++)
        in[count++] = m->body.scope.captures[k];
    for (uint32_t k = 0; k < c->out_count; k++) {
        if (c->out[k] != VALUE_NONE)
            c->g->values[c->out[k]].kind = VALUE_SEQUENCE;
    }
    uint32_t node = call_emit(c, OP_Loop, in, count, c->out, c->out_count);
    set_graph(c, node, ATTR_body, m->body.graph);
    call_set_int(c, node, ATTR_carried, c->out_count);
    free(in);
}

void control_sequence_map(struct call *c)
{
    struct mapping m = {.c = c};
    const struct pb_attr *body = call_attr(c, "body");
    if (!body || body->type != PB_GRAPH || c->in_count < 1 || c->in_count > MAP_MAX || c->out_count > MAP_MAX ||
        c->scope->depth + 1 > c->g->limits.depth) {
        call_fail(c, PEN_ERR_INVALID, "node %s (SequenceMap) lacks its body, or has too many inputs or outputs",
                  c->name);
        return;
    }
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i] == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (SequenceMap) lacks input %u", c->name, i);
    }
    if (c->status == PEN_OK)
        c->status = graph_new_child(c->g, &m.body.graph);
    if (c->status != PEN_OK)
        return;
    m.body.scope = (struct scope){.r = c->r, .g = m.body.graph, .outer = c->scope, .depth = c->scope->depth + 1};
    m.body.scope.opsets = c->scope->opsets;
    m.body.scope.opset_count = c->scope->opset_count;
    m.inner = *c;
    m.inner.g = m.body.graph;
    m.inner.scope = &m.body.scope;
    m.index = body_input(&m, PEN_DTYPE_I64, VALUE_TENSOR);
    uint32_t condition = body_input(&m, PEN_DTYPE_BOOL, VALUE_TENSOR);
    for (uint32_t k = 0; k < c->out_count; k++)
        m.grown[k] = body_input(&m, PEN_DTYPE_NONE, VALUE_SEQUENCE);
    if (c->status == PEN_OK)
        fill_body(&m, body->message, condition);
    make_starts(&m);
    if (c->status == PEN_OK)
        emit_loop(&m);
    scope_fini(&m.body.scope);
}
