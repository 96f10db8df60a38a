#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/onnx/reader.h"

void call_fail(struct call *c, enum pen_status status, const char *format, ...)
{
    if (c->status != PEN_OK)
        return;
    c->status = status;
    char text[PEN_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pen_error_set(c->r->reterr, status, "%s", text);
}

/* ---- attributes of the file ---------------------------------------------------------------------------------------------- */

const struct pb_attr *call_attr(const struct call *c, const char *name)
{
    for (uint32_t i = 0; i < c->attr_count; i++) {
        if (bytes_are(c->attrs[i].pb.name, name))
            return &c->attrs[i].pb;
    }
    return NULL;
}

int64_t call_int(const struct call *c, const char *name, int64_t def)
{
    const struct pb_attr *a = call_attr(c, name);
    return a && a->type == PB_INT ? a->i : def;
}

float call_float(const struct call *c, const char *name, float def)
{
    const struct pb_attr *a = call_attr(c, name);
    return a && a->type == PB_FLOAT ? a->f : def;
}

bool call_text_is(const struct call *c, const char *name, const char *text)
{
    const struct pb_attr *a = call_attr(c, name);
    return a && a->type == PB_STRING && bytes_are(a->s, text);
}

/* Walks floats (field 7), ints (8) of an attribute; the caller made room for a->count. */
static bool copy_numbers(const struct pb_attr *a, int64_t *ints, float *floats)
{
    struct bytes message = a->self;
    struct wire_field f;
    uint32_t at = 0, number = ints ? 8 : 7;
    unsigned item_bytes = ints ? 0 : 4;
    while (wire_next(&message, &f) == 1) {
        if (f.number != number)
            continue;
        struct bytes list = f.bytes;
        int64_t count = wire_count(&f, item_bytes);
        for (int64_t i = 0; i < count; i++) {
            uint64_t item;
            if (at >= a->count || !wire_item(&f, &list, item_bytes, &item))
                return false;
            if (ints)
                ints[at++] = (int64_t)item;
            else
                floats[at++] = bits_to_float(item);
        }
        if (f.type != WIRE_BYTES)
            at += wire_run(&message, (uint8_t)(number << 3 | f.type), a->count - at, ints ? ints + at : NULL,
                           ints ? NULL : floats + at);
    }
    return at == a->count;
}

static const int64_t *attr_ints(struct call *c, const struct pb_attr *a)
{
    int64_t *items = graph_alloc(c->g, (size_t)a->count * sizeof *items);
    if (items && copy_numbers(a, items, NULL))
        return items;
    call_fail(c, items ? PEN_ERR_CORRUPT : PEN_ERR_NO_MEMORY, "an attribute of node %s is broken or too large",
              c->name);
    return NULL;
}

static const float *attr_floats(struct call *c, const struct pb_attr *a)
{
    float *items = graph_alloc(c->g, (size_t)a->count * sizeof *items);
    if (items && copy_numbers(a, NULL, items))
        return items;
    call_fail(c, items ? PEN_ERR_CORRUPT : PEN_ERR_NO_MEMORY, "an attribute of node %s is broken or too large",
              c->name);
    return NULL;
}

bool call_ints(struct call *c, const char *name, const int64_t **ret_items, uint32_t *ret_count)
{
    const struct pb_attr *a = call_attr(c, name);
    if (!a || a->type != PB_INTS)
        return false;
    *ret_items = attr_ints(c, a);
    *ret_count = a->count;
    return *ret_items != NULL;
}

bool call_floats(struct call *c, const char *name, const float **ret_items, uint32_t *ret_count)
{
    const struct pb_attr *a = call_attr(c, name);
    if (!a || a->type != PB_FLOATS)
        return false;
    *ret_items = attr_floats(c, a);
    *ret_count = a->count;
    return *ret_items != NULL;
}

static const struct string_view *attr_texts(struct call *c, const struct pb_attr *a)
{
    struct string_view *views = graph_alloc(c->g, ((size_t)a->count + 1) * sizeof *views);
    struct bytes cursor = a->self, text;
    for (uint32_t i = 0; views && i < a->count && pb_each(&cursor, 9, &text) == 1; i++)
        views[i] = (struct string_view){text.size ? (const char *)text.at : "", text.size};
    if (!views)
        c->status = PEN_ERR_NO_MEMORY;
    return views;
}

static uint32_t attr_tensor(struct call *c, const struct pb_attr *a)
{
    struct tensor t;
    uint32_t id = VALUE_NONE;
    enum pen_status status = a->type == PB_TENSOR ? tensor_load(&c->r->source, a->message, &t, c->r->reterr)
                                                  : tensor_load_sparse(&c->r->source, a->message, &t, c->r->reterr);
    if (status == PEN_OK)
        status = graph_constant(c->g, NULL, t.dtype, &t.shape, t.data, t.bytes, false, &id);
    if (status != PEN_OK)
        c->status = status;
    return id;
}

/* Optional's type: kind and element type. */
static void attr_type_proto(struct call *c, const struct pb_attr *a, struct attr *to)
{
    struct pb_type t;
    int64_t *items = graph_alloc(c->g, 2 * sizeof *items);
    if (!items || !pb_type_parse(a->message, &t)) {
        call_fail(c, items ? PEN_ERR_CORRUPT : PEN_ERR_NO_MEMORY, "a type attribute of node %s is broken", c->name);
        return;
    }
    items[0] = t.kind;
    items[1] = t.dtype;
    to->type = ATTR_INTS;
    to->count = 2;
    to->ints = items;
}

/* False when the attribute has no place in our graph (a subgraph: control.c sets those). */
static bool convert(struct call *c, const struct pb_attr *a, struct attr *to)
{
    to->count = a->count;
    switch (a->type) {
    case PB_FLOAT:
        to->type = ATTR_FLOAT;
        to->f = a->f;
        return true;
    case PB_INT:
        to->type = ATTR_INT;
        to->i = a->i;
        return true;
    case PB_STRING:
        to->type = ATTR_TEXT;
        to->text = (struct string_view){a->s.size ? (const char *)a->s.at : "", a->s.size};
        return true;
    case PB_FLOATS:
        to->type = ATTR_FLOATS;
        to->floats = attr_floats(c, a);
        return true;
    case PB_INTS:
        to->type = ATTR_INTS;
        to->ints = attr_ints(c, a);
        return true;
    case PB_STRINGS:
        to->type = ATTR_TEXTS;
        to->texts = attr_texts(c, a);
        return true;
    case PB_TENSOR:
    case PB_SPARSE_TENSOR:
        to->type = ATTR_TENSOR;
        to->value = attr_tensor(c, a);
        return true;
    case PB_TYPE_PROTO:
        attr_type_proto(c, a, to);
        return true;
    default:
        return false;
    }
}

static bool listed(struct bytes name, const char *const *except)
{
    for (; except && *except; except++) {
        if (bytes_are(name, *except))
            return true;
    }
    return false;
}

static bool recurrent(enum op op)
{
    return op == OP_RNN || op == OP_GRU || op == OP_LSTM;
}

void call_copy_attrs(struct call *c, uint32_t node, const char *const *except)
{
    for (uint32_t i = 0; i < c->attr_count && c->status == PEN_OK; i++) {
        const struct pb_attr *a = &c->attrs[i].pb;
        char name[40];
        if (listed(a->name, except) || a->name.size >= sizeof name)
            continue;
        memcpy(name, a->name.at ? (const char *)a->name.at : "", a->name.size);
        name[a->name.size] = '\0';
        struct attr to = {.key = attr_find(name)};
        if (strcmp(name, "layout") == 0 && recurrent(c->g->nodes[node].op))
            to.key = ATTR_layout; /* batch first: theirs and ours share the key */
        if (to.key != ATTR_NONE && convert(c, a, &to) && c->status == PEN_OK)
            c->status = graph_attr_set(c->g, node, &to);
    }
}

void call_set_int(struct call *c, uint32_t node, enum attr_key key, int64_t value)
{
    if (c->status == PEN_OK)
        c->status = graph_attr_int(c->g, node, key, value);
}

void call_set_float(struct call *c, uint32_t node, enum attr_key key, float value)
{
    if (c->status == PEN_OK)
        c->status = graph_attr_float(c->g, node, key, value);
}

void call_set_text(struct call *c, uint32_t node, enum attr_key key, const char *text)
{
    if (c->status == PEN_OK)
        c->status = graph_attr_text(c->g, node, key, text);
}

/* ---- values and nodes ------------------------------------------------------------------------------------------------------ */

uint32_t call_input(const struct call *c, uint32_t index)
{
    return index < c->in_count ? c->in[index] : VALUE_NONE;
}

bool call_wants(const struct call *c, uint32_t output)
{
    return output < c->out_count && c->out[output] != VALUE_NONE;
}

uint32_t call_i64(struct call *c, const int64_t *items, uint32_t count, bool scalar)
{
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant_i64(c->g, items, count, scalar, &id);
    return id;
}

uint32_t call_float_like(struct call *c, float value, uint32_t like)
{
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &value, 1, true, &id);
    if (!c->r->other_floats || like == VALUE_NONE)
        return id;
    uint32_t in[] = {id, like};
    return call_value(c, OP_CastLike, in, 2);
}

uint32_t call_emit(struct call *c, enum op op, const uint32_t *in, uint32_t in_count, const uint32_t *out,
                   uint32_t out_count)
{
    uint32_t node = NODE_NONE;
    if (c->status != PEN_OK)
        return node;
    while (out_count > op_def(op)->min_out && out[out_count - 1] == VALUE_NONE)
        out_count--;
    enum pen_status status = graph_node(c->g, op, c->name, in, in_count, out, out_count, &node);
    if (status == PEN_ERR_INVALID) {
        call_fail(c, status, "node %s (%s) has %u inputs and %u outputs, which this operator does not take", c->name,
                  c->origin, c->in_count, c->out_count);
        return NODE_NONE;
    }
    if (status == PEN_ERR_TOO_LARGE)
        call_fail(c, status, "the model has more than %u nodes", c->g->limits.nodes);
    c->status = status;
    if (status == PEN_OK)
        c->g->nodes[node].origin = c->origin;
    return status == PEN_OK ? node : NODE_NONE;
}

uint32_t call_value(struct call *c, enum op op, const uint32_t *in, uint32_t in_count)
{
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_value(c->g, NULL, &id);
    (void)call_emit(c, op, in, in_count, &id, 1);
    return id;
}

uint32_t call_value_axis(struct call *c, enum op op, const uint32_t *in, uint32_t in_count, int64_t axis)
{
    uint32_t id = call_value(c, op, in, in_count);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[id].producer, ATTR_axis, axis);
    return id;
}
