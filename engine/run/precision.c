#include "run/precision.h"

#include <stdio.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "precisions.h"

const char *pen_engine_precision_name(enum pen_precision precision)
{
    return precision_name(precision);
}

/* 0 where no class has this name, and for "any". */
static size_t class_of(const char *name)
{
    int found = precision_find(name);
    return found > 0 ? (size_t)found : 0;
}

/* ---- what is offered ---- */

static uint32_t offered(const struct pen_engine_options *options, const struct backend_ops *ops)
{
    struct backend_config config = {.threads = 1, .vulkan = options->vulkan};
    struct backend_caps caps = {0};
    return backend_probe(ops, &config, &caps) == PEN_OK && caps.available ? caps.precisions : 0;
}

struct list {
    char text[512];
    size_t used;
};

static void list_add(struct list *l, const char *before, const char *word)
{
    int more =
        l->used < sizeof l->text ? snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s", before, word) : 0;
    l->used += more > 0 ? (size_t)more : 0;
}

/* "f32 (xnnpack, reference), f16_mma (vulkan)" */
static void offers_list(const struct pen_engine_options *options, const struct backend_ops *only, struct list *l)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    uint32_t has[BACKENDS_MAX] = {0};
    for (size_t b = 0; b < count && b < BACKENDS_MAX; b++) {
        has[b] = only == NULL || only == table[b] ? offered(options, table[b]) : 0;
    }
    for (size_t p = PEN_PRECISION_F32; p < PRECISIONS_COUNT; p++) {
        bool some = false;
        for (size_t b = 0; b < count && b < BACKENDS_MAX; b++) {
            if ((has[b] & 1u << p) != 0) {
                list_add(l, l->used > 0 ? ", " : "", some ? "" : precision_name((unsigned)p));
                list_add(l, some ? "" : " (", table[b]->name);
                some = true;
            }
        }
        list_add(l, "", some ? ")" : "");
    }
}

enum pen_status precision_refuse(const struct pen_engine_options *options, const struct backend_ops *only,
                                 const char *name, struct pen_error *reterr)
{
    struct list l = {.used = 0};
    offers_list(options, only, &l);
    const char *there = l.used > 0 ? l.text : "none";
    if (class_of(name) == 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "no precision is called '%.32s'; this build and host have: %s",
                             name, there);
    }
    const char *quantised = strcmp(name, precision_name(PEN_PRECISION_INT8)) == 0
                                ? "; a model that is quantised computes in its integers under any of them"
                                : "";
    return only != NULL ? pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                        "backend %s does not offer precision %s on this host; there is: %s%s",
                                        only->name, name, there, quantised)
                        : pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                        "no backend of this build offers precision %s on this host; there is: %s%s",
                                        name, there, quantised);
}

enum pen_status pen_engine_precision_find(const struct pen_engine_options *options, const char *name,
                                          enum pen_precision *ret_precision, struct pen_error *reterr)
{
    size_t count = 0, wanted = strcmp(name, "any") == 0 ? PEN_PRECISION_F32 : class_of(name);
    const struct backend_ops *const *table = backend_table(&count);
    /* The reference has f32 on every host, and a backend that is named answers for itself when it is opened: nothing is looked at. */
    bool named = options->backend != NULL && backend_find(options->backend) != NULL;
    bool found = wanted == PEN_PRECISION_F32 || (named && wanted != 0);
    for (size_t b = 0; b < count && !found && wanted != 0; b++) {
        found = (offered(options, table[b]) & 1u << wanted) != 0;
    }
    if (!found) {
        return precision_refuse(options, NULL, name, reterr);
    }
    *ret_precision = (enum pen_precision)wanted;
    return PEN_OK;
}

/* ---- what a model computes in ---- */

struct seen {
    bool float_product, integer_product, float_value, integer_value;
    const struct node *floats; /* the first product of floats */
};

static void dtype_note(enum pen_dtype dtype, bool *is_float, bool *is_integer)
{
    unsigned class = dtype == PEN_DTYPE_NONE || dtype == PEN_DTYPE_STRING ? 0 : element_class(dtype);
    *is_float |= (class & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) != 0;
    *is_integer |= (class & (ELEMENT_SIGNED | ELEMENT_UNSIGNED)) != 0;
}

static void node_note(const struct graph *g, const struct node *n, struct seen *s)
{
    bool product = (op_def(n->op)->traits & OP_MACS) != 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (n->in[i] == VALUE_NONE || g->values[n->in[i]].data != NULL) {
            continue;
        }
        enum pen_dtype dtype = g->values[n->in[i]].dtype;
        dtype_note(dtype, &s->float_value, &s->integer_value);
        if (product && i == 0) {
            dtype_note(dtype, &s->float_product, &s->integer_product);
            s->floats = s->floats == NULL && s->float_product ? n : s->floats;
        }
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        if (n->out[o] != VALUE_NONE) {
            dtype_note(g->values[n->out[o]].dtype, &s->float_value, &s->integer_value);
        }
    }
}

static void graph_note(const struct graph *g, struct seen *s)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t a = 0; !n->dead && a < n->attr_count; a++) {
            if (n->attrs[a].type == ATTR_GRAPH) {
                graph_note(n->attrs[a].graph, s);
            }
        }
        if (!n->dead) {
            node_note(g, n, s);
        }
    }
}

enum pen_precision precision_of(const struct graph *g, enum pen_precision otherwise)
{
    struct seen s = {.floats = NULL};
    graph_note(g, &s);
    bool products = s.float_product || s.integer_product;
    bool integers = products ? !s.float_product : s.integer_value && !s.float_value;
    return integers ? PEN_PRECISION_INT8 : otherwise;
}

enum pen_status precision_fits(const struct graph *g, enum pen_precision wanted, struct pen_error *reterr)
{
    struct seen s = {.floats = NULL};
    if (wanted != PEN_PRECISION_INT8 || precision_of(g, PEN_PRECISION_F32) == PEN_PRECISION_INT8) {
        return PEN_OK;
    }
    graph_note(g, &s);
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "precision int8 was asked for, and the model computes in floats%s%.100s%s%s%s: quantise the "
                         "model with its exporter's tool, or ask for another precision",
                         s.floats != NULL ? " (node " : "", s.floats != NULL ? s.floats->name : "",
                         s.floats != NULL ? ", " : "", s.floats != NULL ? op_def(s.floats->op)->name : "",
                         s.floats != NULL ? ")" : "");
}
