/* Tables and variables. A variable holds in every run what CALL_ONCE put there, as in a fresh interpreter. */
#include <stdio.h>
#include <string.h>

#include "graph/internal.h"
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

#define RESOURCES_MAX 4096

static struct resource *resource_find(struct reader *r, const struct fb_text *name, int64_t id)
{
    for (uint32_t i = 0; i < r->resource_count; i++) {
        struct resource *k = &r->resources[i];
        if (k->id == id && k->name.bytes == name->bytes && memcmp(k->name.at, name->at, name->bytes) == 0)
            return k;
    }
    return NULL;
}

/* The one of this name, made when there is none; its index, -1 after a failure. */
static int64_t resource_enter(struct call *c, const struct fb_text *name, int64_t id)
{
    struct reader *r = c->s->r;
    struct resource *k = resource_find(r, name, id);
    if (!k && r->resource_count == r->resource_room) {
        uint32_t room = r->resource_room ? 2 * r->resource_room : 16;
        struct resource *bigger = room <= RESOURCES_MAX ? graph_alloc(c->b->g, room * sizeof *bigger) : NULL;
        if (!bigger) {
            build_stop(c->b, PEN_ERR_TOO_LARGE, "the model has more than %d tables and variables", RESOURCES_MAX);
            return -1;
        }
        memcpy(bigger, r->resource_count ? r->resources : bigger, r->resource_count * sizeof *bigger);
        r->resources = bigger;
        r->resource_room = room;
    }
    if (!k) {
        k = &r->resources[r->resource_count++];
        *k = (struct resource){.name = *name, .id = id, .keys = VALUE_NONE, .values = VALUE_NONE};
    }
    return k - r->resources;
}

/* A handle is its place in the list. */
static void handle_give(struct call *c, const struct fb_text *name, int64_t id)
{
    int64_t at = resource_enter(c, name, id);
    if (at >= 0 && c->out.count > 0)
        lite_give(c, 0, build_scalar(c->b, PEN_DTYPE_I32, (double)at));
}

static struct resource *resource_in(struct call *c)
{
    int64_t at;
    uint32_t count = 0;
    if (build_ints_of(c->b, lite_in(c, 0), &at, 1, &count) && count == 1 && at >= 0 && at < c->s->r->resource_count)
        return &c->s->r->resources[at];
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "its handle must come from the model itself");
    return NULL;
}

void lower_variable(struct call *c)
{
    struct fb_text name = fb_string(&c->options, 1);
    handle_give(c, &name, -1);
}

/* Where that was asked for: the variable as an input, of the type and shape of what it is first given, else of `like`. */
static void variable_open(struct call *c, struct resource *k, const struct tensor *like)
{
    const struct value *first = k->b ? build_value(k->b, k->values) : NULL;
    struct shape shape = first ? first->shape : like ? like->shape : shape_unknown();
    enum pen_dtype dtype = first ? first->dtype : like ? like->dtype : PEN_DTYPE_NONE;
    bool inner = c->b->g->parent != NULL;
    if (!c->s->r->variables || c->s->r->starting || k->open || inner || dtype == PEN_DTYPE_NONE)
        return;
    k->values = build_input(c->b, k->name.at, k->name.bytes, dtype, &shape);
    k->b = c->b;
    k->open = k->values != VALUE_NONE;
}

void lite_variables_out(struct scope *s)
{
    struct graph *g = s->b->g;
    for (uint32_t i = 0; i < s->r->resource_count && s->b->status == PEN_OK; i++) {
        struct resource *k = &s->r->resources[i];
        char name[160];
        if (!k->open)
            continue;
        int bytes =
            snprintf(name, sizeof name, "%.*s.next", (int)(k->name.bytes < 150 ? k->name.bytes : 150), k->name.at);
        uint32_t y = build_bind(s->b, build_1(s->b, OP_Identity, k->values), name, (size_t)bytes);
        if (s->b->status == PEN_OK && graph_output_add(g, y) != PEN_OK)
            build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
}

void lower_variable_assign(struct call *c)
{
    struct resource *k = resource_in(c);
    if (!k)
        return;
    variable_open(c, k, lite_tensor(c, 1));
    k->b = c->b;
    k->values = lite_in(c, 1);
}

void lower_variable_read(struct call *c)
{
    struct resource *k = resource_in(c);
    if (k)
        variable_open(c, k, lite_result(c, 0));
    const struct value *v = k && k->b ? build_value(k->b, k->values) : NULL;
    if (v && v->data)
        lite_give(c, 0, build_const(c->b, v->dtype, &v->shape, v->data, v->bytes, false));
    else if (v && k->b->g == c->b->g)
        lite_give(c, 0, build_1(c->b, OP_Identity, k->values));
    else if (c->b->status == PEN_OK)
        build_miss(c->b, "READ_VARIABLE of what nothing has assigned here");
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------- */

void lower_table(struct call *c)
{
    struct fb_text none = {"", 0};
    handle_give(c, &none, lite_option(c, 0, 0));
}

static bool constant(struct call *c, uint32_t index)
{
    const struct value *v = build_value(c->b, lite_in(c, index));
    return v && v->data;
}

void lower_table_import(struct call *c)
{
    struct resource *k = resource_in(c);
    if (!k)
        return;
    if (!constant(c, 1) || !constant(c, 2)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "a table must be filled with constants");
        return;
    }
    k->b = c->b;
    k->keys = lite_in(c, 1);
    k->values = lite_in(c, 2);
}

/* A constant of the graph that filled the table, in this one. */
static uint32_t brought(struct call *c, const struct resource *k, uint32_t value)
{
    const struct value *from = build_value(k->b, value);
    uint32_t id = VALUE_NONE;
    if (k->b->g == c->b->g)
        return value;
    if (graph_value(c->b->g, NULL, &id) != PEN_OK) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
        return VALUE_NONE;
    }
    struct value *to = &c->b->g->values[id];
    to->dtype = from->dtype;
    to->shape = from->shape;
    to->data = from->data;
    to->bytes = from->bytes;
    return id;
}

static void tensor_attr(struct build *b, enum attr_key key, uint32_t value)
{
    struct attr attr = {.key = key, .type = ATTR_TENSOR, .value = value};
    if (b->status == PEN_OK && graph_attr_set(b->g, b->node, &attr) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for an attribute");
}

/* table, keys, default */
void lower_table_find(struct call *c)
{
    const struct resource *k = resource_in(c);
    if (!k || !k->b || k->keys == VALUE_NONE || !constant(c, 2)) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "nothing fills its table, or its default is not constant");
        return;
    }
    uint32_t keys = brought(c, k, k->keys), values = brought(c, k, k->values), none = lite_in(c, 2);
    uint32_t y = build_1(c->b, OP_LabelEncoder, lite_in(c, 1));
    tensor_attr(c->b, ATTR_keys_tensor, keys);
    tensor_attr(c->b, ATTR_values_tensor, values);
    tensor_attr(c->b, ATTR_default_tensor, none);
    lite_give(c, 0, y);
}

void lower_table_size(struct call *c)
{
    const struct resource *k = resource_in(c);
    const struct value *v = k && k->b ? build_value(k->b, k->keys) : NULL;
    if (v)
        lite_give(c, 0, build_scalar(c->b, PEN_DTYPE_I64, (double)shape_elements(&v->shape)));
}

/* Its subgraph has neither inputs nor results. */
void lower_call_once(struct call *c)
{
    int64_t index = lite_option(c, 0, 0);
    if (index < 0 || index > UINT32_MAX)
        build_stop(c->b, PEN_ERR_CORRUPT, "subgraph %lld does not exist", (long long)index);
    else {
        c->s->r->starting = true;
        subgraph_inline(c->s->r, c->b, (uint32_t)index, c->s->depth + 1, NULL, 0, NULL, 0);
        c->s->r->starting = false;
    }
}
