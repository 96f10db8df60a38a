#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "import/importer.h"
#include "import/inventory.h"
#include "import/build/list.h"
#include "import/tflite/reader.h"

#define SUBGRAPHS_MAX  4096  /* in a file */
#define EXPANSIONS_MAX 10000 /* subgraphs written, counting each use */

/* ---- operators -------------------------------------------------------------------------------------------------------- */

/* The wider field came when codes passed 127; older files know only the narrow one. */
static int operator_code(const struct fb_table *code)
{
    int64_t narrow = fb_int(code, CODE_OLD, 1, 0), wide = fb_int(code, CODE_NEW, 4, 0);
    return (int)(wide > narrow ? wide : narrow);
}

int lite_code(const struct reader *r, const struct fb_table *op)
{
    uint64_t index = fb_uint(op, OPERATOR_CODE, 4, 0);
    if (index >= r->codes.count)
        return -1;
    struct fb_table code = fb_list_table(&r->codes, (uint32_t)index);
    return operator_code(&code);
}

static bool tensors_exist(const struct scope *s, const struct fb_list *l, bool optional)
{
    for (uint32_t i = 0; i < l->count; i++) {
        int64_t index = fb_list_int(l, i);
        if (index >= (int64_t)s->tensor_count || index < (optional ? -1 : 0))
            return false;
    }
    return true;
}

/* Names a call after its first output. */
static void name_call(struct scope *s, const struct call *c, const char *op, char *text, size_t room)
{
    int64_t first = c->out.count ? fb_list_int(&c->out, 0) : -1;
    struct fb_text name = first >= 0 ? s->tensors[first].name : (struct fb_text){"", 0};
    if (name.bytes == 0)
        snprintf(text, room, "%s", op);
    else
        snprintf(text, room, "%.*s", (int)(name.bytes < room - 1 ? name.bytes : room - 1), name.at);
}

static const char *custom_name(struct build *b, const struct fb_text *name)
{
    const char *copy = graph_text(b->g, name->at, name->bytes < 100 ? name->bytes : 100);
    return copy && *copy ? copy : "CUSTOM";
}

static void operator_read(struct scope *s, const struct fb_table *op)
{
    struct reader *r = s->r;
    char name[160];
    struct call c = {.s = s, .b = s->b, .options = fb_child(op, OPERATOR_OPTIONS)};
    uint64_t index = fb_uint(op, OPERATOR_CODE, 4, 0);
    c.in = fb_vector(op, OPERATOR_IN, 4);
    c.out = fb_vector(op, OPERATOR_OUT, 4);
    c.between = fb_vector(op, OPERATOR_BETWEEN, 4);
    c.custom_options = fb_vector(op, OPERATOR_CUSTOM, 1);
    if (index >= r->codes.count || r->f->broken || !tensors_exist(s, &c.in, true) || !tensors_exist(s, &c.out, false) ||
        c.out.count > TFLITE_OUTPUTS_MAX) {
        build_stop(s->b, PEN_ERR_CORRUPT,
                   "the model file is broken: an operator names a tensor or code that is not there");
        return;
    }
    struct fb_table code = fb_list_table(&r->codes, (uint32_t)index);
    c.code = operator_code(&code);
    c.custom = fb_string(&code, CODE_CUSTOM);
    c.version = fb_int(&code, CODE_VERSION, 4, 1);
    const struct tflite_row *row = tflite_row_find(c.code);
    s->b->origin = row ? row->name : c.code == 32 ? custom_name(s->b, &c.custom) : "unknown";
    name_call(s, &c, s->b->origin, name, sizeof name);
    s->b->name = name;
    lite_lower(&c);
    if (r->f->broken)
        build_stop(s->b, PEN_ERR_CORRUPT, "the model file is broken here");
    s->b->name = s->b->origin = NULL;
}

/* ---- subgraphs ------------------------------------------------------------------------------------------------------- */

void subgraph_counts(struct reader *r, uint32_t index, uint32_t *ret_in, uint32_t *ret_out)
{
    struct fb_table sub = fb_list_table(&r->subgraphs, index);
    *ret_in = fb_vector(&sub, SUBGRAPH_INPUTS, 4).count;
    *ret_out = fb_vector(&sub, SUBGRAPH_OUTPUTS, 4).count;
}

static bool enter(struct reader *r, struct build *b, uint32_t index, uint32_t depth)
{
    if (index >= r->subgraphs.count)
        build_stop(b, PEN_ERR_CORRUPT, "subgraph %u does not exist", index);
    else if (depth > b->g->limits.depth)
        build_stop(b, PEN_ERR_TOO_LARGE, "subgraphs are nested more than %u deep", b->g->limits.depth);
    else if (r->expansions++ >= EXPANSIONS_MAX)
        build_stop(b, PEN_ERR_TOO_LARGE, "subgraphs are used more than %d times", EXPANSIONS_MAX);
    return b->status == PEN_OK;
}

static void made_note(struct scope *s, const struct fb_table *op, uint32_t index)
{
    struct fb_list out = fb_vector(op, OPERATOR_OUT, 4);
    for (uint32_t i = 0; i < out.count && s->b->status == PEN_OK; i++)
        s->tensors[fb_list_int(&out, i)].maker = index + 1;
}

static void operators_read(struct scope *s, const struct fb_table *sub)
{
    s->operators = fb_vector(sub, SUBGRAPH_OPERATORS, 4);
    for (uint32_t i = 0; i < s->operators.count && s->b->status == PEN_OK; i++) {
        struct fb_table op = fb_list_table(&s->operators, i);
        operator_read(s, &op);
        made_note(s, &op, i);
    }
}

/* Reads tensors and checks the ends; false after a failure. */
static bool scope_open(struct scope *s, const struct fb_table *sub, struct fb_list *in, struct fb_list *out)
{
    *in = fb_vector(sub, SUBGRAPH_INPUTS, 4);
    *out = fb_vector(sub, SUBGRAPH_OUTPUTS, 4);
    if (lite_tensors(s, sub) != PEN_OK)
        return false;
    if (s->r->f->broken || !tensors_exist(s, in, false) || !tensors_exist(s, out, false))
        build_stop(s->b, PEN_ERR_CORRUPT, "the model file is broken: an input or output of a subgraph is not there");
    return s->b->status == PEN_OK;
}

void subgraph_inline(struct reader *r, struct build *b, uint32_t index, uint32_t depth, const uint32_t *in,
                     uint32_t in_count, uint32_t *out, uint32_t out_count)
{
    struct scope s = {.r = r, .b = b, .depth = depth};
    struct fb_list ins, outs;
    const char *name = b->name, *origin = b->origin;
    if (b->status != PEN_OK || !enter(r, b, index, depth))
        return;
    struct fb_table sub = fb_list_table(&r->subgraphs, index);
    if (!scope_open(&s, &sub, &ins, &outs))
        return;
    if (ins.count != in_count || outs.count != out_count)
        build_stop(b, PEN_ERR_CORRUPT, "subgraph %u takes %u values and gives %u, not %u and %u", index, ins.count,
                   outs.count, in_count, out_count);
    for (uint32_t i = 0; i < in_count && b->status == PEN_OK; i++)
        s.tensors[fb_list_int(&ins, i)].value = in[i];
    operators_read(&s, &sub);
    b->name = name;
    b->origin = origin;
    for (uint32_t i = 0; i < out_count && b->status == PEN_OK; i++)
        out[i] = lite_value(&s, fb_list_int(&outs, i));
}

/* What a branch is fed: values of the graph around it. */
struct fed {
    struct build *b;
    const uint32_t *values;
};

/* A list, of which the file tells neither type nor shape: what stands for it outside does. */
static void list_input(struct scope *s, struct tensor *t, struct build *outside, uint32_t value)
{
    const struct shape any = shape_unknown();
    const enum pen_dtype dtype = build_dtype(outside, value);
    t->value = build_input(s->b, t->name.at, t->name.bytes, dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : dtype, &any);
    if (t->value != VALUE_NONE)
        s->b->g->values[t->value].kind = build_value(outside, value)->kind;
}

static void graph_inputs(struct scope *s, const struct fb_list *in, const struct fed *fed)
{
    for (uint32_t i = 0; i < in->count && s->b->status == PEN_OK; i++) {
        struct tensor *t = &s->tensors[fb_list_int(in, i)];
        if (fed && t->dtype == PEN_DTYPE_NONE && t->value == VALUE_NONE && fed->values[i] != VALUE_NONE) {
            list_input(s, t, fed->b, fed->values[i]);
            continue;
        }
        if (t->dtype == PEN_DTYPE_NONE)
            build_stop(s->b, PEN_ERR_UNSUPPORTED, "input %u has an element type that this build does not know", i);
        if (t->value != VALUE_NONE)
            build_stop(s->b, PEN_ERR_CORRUPT, "input %u is listed twice", i);
        struct fb_text name = s->depth == 0 ? lite_port_name(s->r, false, fb_list_int(in, i), t->name) : t->name;
        t->value = build_input(s->b, name.at, name.bytes, t->dtype, &t->signature);
        if (t->value != VALUE_NONE)
            s->b->g->values[t->value].quant = t->quant;
    }
}

static bool named(const struct value *v, const struct fb_text *name)
{
    return strlen(v->name) == name->bytes && memcmp(v->name, name->at, name->bytes) == 0;
}

static bool listed(const struct graph *g, uint32_t value)
{
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->outputs[i] == value)
            return true;
    }
    return false;
}

static void output_add(struct scope *s, uint32_t value)
{
    if (s->b->status == PEN_OK && graph_output_add(s->b->g, value) != PEN_OK)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for outputs");
}

static void graph_outputs(struct scope *s, const struct fb_list *out)
{
    struct graph *g = s->b->g;
    for (uint32_t i = 0; i < out->count && s->b->status == PEN_OK; i++) {
        int64_t index = fb_list_int(out, i);
        const struct tensor *t = &s->tensors[index];
        uint32_t value = lite_value(s, index);
        struct shape shape;
        if (s->b->status != PEN_OK)
            return;
        if (t->dtype == PEN_DTYPE_NONE) {
            output_add(s, tf_list_same(s->b, value));
            continue;
        }
        lite_output_shape(s->b, value, t, &shape);
        const struct value *v = &g->values[value];
        struct fb_text name = s->depth == 0 ? lite_port_name(s->r, true, index, t->name) : t->name;
        if (v->producer == NODE_NONE || !named(v, &name) || listed(g, value))
            value = build_bind(s->b, listed(g, value) ? build_1(s->b, OP_Identity, value) : value, name.at, name.bytes);
        if (s->b->status != PEN_OK)
            return;
        g->values[value].dtype = t->dtype;
        g->values[value].shape = shape;
        g->values[value].quant = t->quant;
        output_add(s, value);
    }
}

/* A graph whose inputs and outputs are those of the subgraph. fed: NULL for the model itself. */
static void subgraph_whole(struct reader *r, struct build *b, uint32_t index, uint32_t depth, const struct fed *fed)
{
    struct scope s = {.r = r, .b = b, .depth = depth};
    struct fb_list ins, outs;
    if (!enter(r, b, index, depth))
        return;
    struct fb_table sub = fb_list_table(&r->subgraphs, index);
    if (!scope_open(&s, &sub, &ins, &outs))
        return;
    graph_inputs(&s, &ins, fed);
    operators_read(&s, &sub);
    if (r->missing.count == 0)
        graph_outputs(&s, &outs);
    if (r->missing.count == 0 && depth == 0)
        lite_variables_out(&s);
}

struct graph *subgraph_child(struct call *c, uint32_t index, const uint32_t *values, uint32_t outputs)
{
    struct graph *g = NULL;
    uint32_t in, out;
    if (c->b->status != PEN_OK)
        return NULL;
    subgraph_counts(c->s->r, index, &in, &out);
    if (out != outputs)
        build_stop(c->b, PEN_ERR_CORRUPT, "subgraph %u gives %u values, not %u", index, out, outputs);
    if (c->b->status == PEN_OK && graph_new_child(c->b->g, &g) != PEN_OK)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    if (c->b->status != PEN_OK)
        return NULL;
    struct build b = {.g = g, .missing = c->b->missing, .reterr = c->b->reterr};
    const struct fed fed = {.b = c->b, .values = values};
    subgraph_whole(c->s->r, &b, index, c->s->depth + 1, &fed);
    build_fini(&b);
    c->b->status = b.status;
    return b.status == PEN_OK ? g : NULL;
}

/* Who made the file, and the oldest runtime that takes it. */
static void origin_note(struct reader *r, const struct fb_table *root, struct inventory *to)
{
    struct fb_text text = fb_string(root, MODEL_DESCRIPTION);
    struct fb_list entries = fb_vector(root, MODEL_METADATA, 4);
    if (to && text.bytes > 0)
        inventory_append(to->maker, sizeof to->maker, "%.*s", (int)(text.bytes < 60 ? text.bytes : 60), text.at);
    if (to)
        inventory_append(to->versions, sizeof to->versions, "schema 3");
    for (uint32_t i = 0; to && i < entries.count && !r->f->broken; i++) {
        struct fb_table entry = fb_list_table(&entries, i);
        struct fb_text name = fb_string(&entry, 0);
        uint64_t index = fb_uint(&entry, 1, 4, 0);
        if (name.bytes != 19 || memcmp(name.at, "min_runtime_version", 19) != 0 || index >= r->buffers.count)
            continue;
        struct fb_table buffer = fb_list_table(&r->buffers, (uint32_t)index);
        struct fb_list data = fb_vector(&buffer, BUFFER_DATA, 1);
        if (data.count > 0 && data.count < 32)
            inventory_append(to->versions, sizeof to->versions, "runtime %.*s", (int)data.count,
                             (const char *)fb_list_data(&data));
    }
}

/* ---- the model -------------------------------------------------------------------------------------------------------- */

static enum pen_status read_model(struct reader *r, struct graph *g)
{
    struct fb_table root = fb_root(r->f);
    uint64_t version = fb_uint(&root, MODEL_VERSION, 4, 0);
    r->codes = fb_vector(&root, MODEL_CODES, 4);
    r->subgraphs = fb_vector(&root, MODEL_SUBGRAPHS, 4);
    r->buffers = fb_vector(&root, MODEL_BUFFERS, 4);
    if (r->f->broken || r->subgraphs.count == 0 || r->subgraphs.count > SUBGRAPHS_MAX)
        return pen_error_set(r->reterr, PEN_ERR_CORRUPT, "this TFLite model is broken");
    if (version != 3)
        return pen_error_set(r->reterr, PEN_ERR_VERSION,
                             "the model has schema version %llu of TFLite, this build reads 3; convert it again",
                             (unsigned long long)version);
    origin_note(r, &root, g->limits.inventory);
    lite_entries_note(r, &root, g->limits.inventory);
    uint32_t first = 0;
    enum pen_status found = lite_entry_find(r, &root, g->limits.entry, &first);
    if (found != PEN_OK)
        return found;
    lite_notes(r, g, &root, first);
    struct build b = {.g = g, .missing = &r->missing, .reterr = r->reterr};
    subgraph_whole(r, &b, first, 0, NULL);
    build_fini(&b);
    if (b.status == PEN_OK)
        b.status = build_missing_error(&r->missing, "tflite", KEPT(import_tflite), r->reterr);
    if (b.status == PEN_OK && g->output_count == 0)
        b.status = pen_error_set(r->reterr, PEN_ERR_INVALID, "the model's graph has no outputs");
    return b.status == PEN_OK ? graph_verify(g, r->reterr) : b.status;
}

enum pen_status tflite_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                            struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr)
{
    struct graph_limits caps = limits ? *limits : graph_limits_default();
    struct pen_error error = {0};
    struct graph *g = NULL;
    (void)folder; /* everything is in the one file */
    if (size > caps.model_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model file has %zu bytes, the budget is %llu", size,
                             (unsigned long long)caps.model_bytes);
    if (!tflite_probe(bytes, size))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "this is not a TFLite model: its identifier is missing");
    if (graph_new(&caps, &g) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a graph");
    struct fb f = {.at = bytes, .size = size};
    struct reader r = {.f = &f, .reterr = &error};
    enum pen_status status = read_model(&r, g);
    if (status == PEN_OK && !f.broken) {
        *ret_graph = g;
        *ret_extra = (struct import_extra){.ir_version = 3};
        return PEN_OK;
    }
    graph_free(g);
    const char *text = error.text[0] ? error.text : "no memory to read the model";
    if (f.beyond <= size)
        return pen_error_set(reterr, f.broken ? PEN_ERR_CORRUPT : status, "%s", text);
    return pen_error_set(reterr, PEN_ERR_CORRUPT, /* whatever was made of the zeros that were read there */
                         "this TFLite model leads to byte %llu, the file has %zu: it is truncated or garbled; copy it "
                         "again (%s)",
                         (unsigned long long)f.beyond, size, status == PEN_OK ? "seen at its end" : text);
}
