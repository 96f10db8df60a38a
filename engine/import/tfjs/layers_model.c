/* The topology of layers models: sequential, functional, nested, with shared layers. */
#include "import/inventory.h"
#include "import/tfjs/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"
#include "words.h"

#define EXPANSIONS_MAX 100000

/* A layer of a model, with the tensors of each of its calls. */
struct member {
    const cJSON *json;
    const char *name;
    struct call_out {
        struct ktensor *out;
        uint32_t count;
        bool done;
    } * calls;
    uint32_t call_count;
    uint32_t alike; /* layers of its kind before it */
    uint32_t first; /* index of its first call: a model counts its own making as call 0 */
};

struct model {
    struct klayer *l;
    struct member *members;
    uint32_t count;
    struct names names;
};

bool layer_is_model(const char *kind)
{
    return strcmp(kind, "Model") == 0 || strcmp(kind, "Functional") == 0 || strcmp(kind, "Sequential") == 0;
}

struct klayer layer_of(struct klayer *outer, const cJSON *json)
{
    const char *kind = tfjs_json_text(json, "class_name"),
               *name = tfjs_json_text(tfjs_json_get(json, "config"), "name");
    struct klayer l = {.r = outer->r,
                       .b = outer->b,
                       .config = tfjs_json_get(json, "config"),
                       .depth = outer->depth + 1,
                       .outer = outer->kind ? outer : NULL};
    l.kind = kind ? kind : "?";
    l.name = name ? name : tfjs_json_text(json, "name") ? tfjs_json_text(json, "name") : l.kind;
    return l;
}

static const cJSON *layer_list(const cJSON *config)
{
    return cJSON_IsArray(config) ? config
                                 : tfjs_json_list(config, "layers"); /* an old Sequential's config is the list */
}

/* ---- calling one layer ------------------------------------------------------------------------------------------------ */

const struct layer_row *layer_row_at(uint32_t index)
{
    static const struct layer_row *const tables[] = {layers_core,      layers_conv, layers_norm,
                                                     layers_recurrent, layers_scan, layers_attend};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct layer_row *row = tables[i]; row->kind; row++) {
            if (index-- == 0)
                return row;
        }
    }
    return NULL;
}

static const struct layer_row *row_find(const char *kind)
{
    const struct layer_row *row;
    for (uint32_t i = 0; (row = layer_row_at(i)) != NULL; i++) {
        if (strcmp(row->kind, kind) == 0)
            return row;
    }
    return NULL;
}

/*
 * Keras 3 writes how it makes masks as layers, and feeds them to layers under the name "mask". Masks travel with the tensors here; what a mask is made of has no value,
 * and nothing else may read it.
 */
static bool is_mask_step(struct kcall *c)
{
    static const char *const kinds[] = {"NotEqual", "Any", "LogicalAnd", "LogicalOr"};
    bool step = false, of_mask = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        step = step || strcmp(c->l->kind, kinds[i]) == 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        of_mask = of_mask || c->in[i].value == VALUE_NONE;
    if (of_mask && !step && c->b->missing->count == 0)
        build_miss(c->b, "a mask that is computed with");
    return (step && c->l->r->placed) || of_mask;
}

void layer_call(struct kcall *c)
{
    const struct layer_row *row = row_find(c->l->kind);
    const char *name = c->b->name, *origin = c->b->origin;
    c->b->name = c->l->name;
    c->b->origin = graph_text(c->b->g, c->l->kind, strlen(c->l->kind));
    c->op = row ? row->op : 0;
    inventory_note(c->b->g->limits.inventory, c->l->kind);
    if (c->l->depth > c->b->g->limits.depth || c->l->r->expansions++ > EXPANSIONS_MAX)
        build_stop(c->b, PEN_ERR_TOO_LARGE, "models are nested too deep or used too often");
    else if (layer_is_model(c->l->kind))
        layer_model(c);
    else if (is_mask_step(c))
        c->out[c->out_count++] = (struct ktensor){VALUE_NONE, 0, VALUE_NONE};
    else if (row && row->call && c->in_count == 0)
        build_stop(c->b, PEN_ERR_CORRUPT, "it is called on nothing");
    else if (row && row->call) {
        row->call(c);
    } else
        build_miss(c->b, c->l->kind);
    if (c->out_count == 0 && c->in_count > 0) /* something, so that all missing layers can be listed */
        c->out[c->out_count++] = c->in[0];
    c->b->name = name;
    c->b->origin = origin;
}

/* ---- members ------------------------------------------------------------------------------------------------------------ */

static void model_fini(struct model *m)
{
    for (uint32_t i = 0; m->members && i < m->count; i++)
        free(m->members[i].calls);
    free(m->members);
    names_fini(&m->names);
}

/* True when some reference names the layer's call 0: [name, 0, ...] anywhere in this JSON. */
static bool call_zero_named(const cJSON *json, const char *name)
{
    const cJSON *part;
    int64_t call;
    const char *given = cJSON_IsArray(json) ? cJSON_GetStringValue(cJSON_GetArrayItem(json, 0)) : NULL;
    if (given && strcmp(given, name) == 0 && tfjs_json_integer(cJSON_GetArrayItem(json, 1), &call) && call == 0)
        return true;
    cJSON_ArrayForEach(part, json)
    {
        if (call_zero_named(part, name)) /* as deep as the JSON, whose depth is capped */
            return true;
    }
    return false;
}

/* Calls of a nested model are numbered from 1 unless something in its surroundings names its call 0. */
static uint32_t first_call(const struct model *m, const cJSON *layers, const struct klayer *l, const char *name)
{
    const cJSON *json;
    if (!layer_is_model(l->kind) || strcmp(m->l->kind, "Sequential") == 0)
        return 0;
    cJSON_ArrayForEach(json, layers)
    {
        if (call_zero_named(tfjs_json_get(json, "inbound_nodes"), name))
            return 0;
    }
    return call_zero_named(tfjs_json_get(m->l->config, "output_layers"), name) ? 0 : 1;
}

/* How many layers of that kind the model has had. */
static uint32_t alike_before(const struct model *m, const char *kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; m->l->r->placed && i < m->count; i++)
        count += strcmp(layer_of(m->l, m->members[i].json).kind, kind) == 0;
    return count;
}

static bool model_init(struct model *m, const cJSON *layers)
{
    int count = cJSON_IsArray(layers) ? cJSON_GetArraySize(layers) : 0;
    const cJSON *json;
    struct build *b = m->l->b;
    if (count == 0 || count > LAYERS_MAX) {
        build_stop(b, PEN_ERR_CORRUPT, "a model of %d layers", count);
        return false;
    }
    m->members = calloc((size_t)count, sizeof *m->members);
    if (!m->members) {
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for %d layers", count);
        return false;
    }
    cJSON_ArrayForEach(json, layers)
    {
        struct member *k = &m->members[m->count];
        const cJSON *nodes = tfjs_json_get(json, "inbound_nodes");
        struct klayer l = layer_of(m->l, json);
        k->json = json;
        k->name = tfjs_json_text(json, "name") ? tfjs_json_text(json, "name") : l.name;
        k->call_count = cJSON_GetArraySize(nodes) > 0 ? (uint32_t)cJSON_GetArraySize(nodes) : 1;
        k->calls = k->call_count <= LAYERS_MAX ? calloc(k->call_count, sizeof *k->calls) : NULL;
        k->first = first_call(m, layers, &l, k->name);
        k->alike = alike_before(m, l.kind);
        m->count++;
        if (!k->calls) {
            build_stop(b, PEN_ERR_NO_MEMORY, "no memory for %u calls", k->call_count);
            return false;
        }
        enum pen_status put =
            names_put(&m->names, (struct bytes){(const uint8_t *)k->name, strlen(k->name)}, m->count - 1);
        if (put != PEN_OK) {
            build_stop(b, put == PEN_ERR_NO_MEMORY ? put : PEN_ERR_CORRUPT,
                       put == PEN_ERR_NO_MEMORY ? "no memory for layer '%.100s'" : "two layers are named '%.100s'",
                       k->name);
            return false;
        }
    }
    return true;
}

static void keep_out(struct model *m, struct call_out *to, const struct ktensor *out, uint32_t count)
{
    to->out = graph_alloc(m->l->b->g, ((size_t)count + 1) * sizeof *out);
    if (!to->out) {
        build_stop(m->l->b, PEN_ERR_NO_MEMORY, "no memory for a layer's outputs");
        return;
    }
    memcpy(to->out, out, count * sizeof *out);
    to->count = count;
    to->done = true;
}

static struct kcall *kcall_new(struct klayer *l)
{
    struct kcall *c = calloc(1, sizeof *c);
    if (!c)
        build_stop(l->b, PEN_ERR_NO_MEMORY, "no memory to call a layer");
    else
        *c = (struct kcall){.l = l, .b = l->b};
    return c;
}

/* What a call is given by name: Keras 3 has it beside the others, Keras 2 behind the first tensor. */
static const cJSON *kwargs_of(const cJSON *node)
{
    const cJSON *first = cJSON_IsArray(node) ? node->child : NULL;
    if (cJSON_IsObject(node))
        return tfjs_json_get(node, "kwargs");
    return cJSON_IsArray(first) ? cJSON_GetArrayItem(first, 3) : cJSON_GetArrayItem(node, 3);
}

static void member_call(struct model *m, struct member *k, uint32_t call, const struct ktensor *in, uint32_t count)
{
    struct klayer l = layer_of(m->l, k->json);
    struct kcall *c = kcall_new(&l);
    if (!c)
        return;
    layer_place("layers/", l.kind, k->alike, l.place, sizeof l.place);
    l.kwargs = kwargs_of(cJSON_GetArrayItem(tfjs_json_get(k->json, "inbound_nodes"), (int)call));
    c->in = in;
    c->in_count = count;
    layer_call(c);
    if (m->l->b->status == PEN_OK)
        keep_out(m, &k->calls[call], c->out, c->out_count);
    free(c);
}

/* ---- functional ------------------------------------------------------------------------------------------------------------ */

/* The tensor that [layer, call, tensor] names: 1 = there, 0 = not yet, -1 = never. */
static int tensor_find(const struct model *m, const cJSON *history, struct ktensor *ret)
{
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(history, 0));
    int64_t call = 0, tensor = 0;
    uint32_t at;
    if (!name || !names_get(&m->names, (struct bytes){(const uint8_t *)name, strlen(name)}, &at))
        return -1;
    (void)tfjs_json_integer(cJSON_GetArrayItem(history, 1), &call);
    (void)tfjs_json_integer(cJSON_GetArrayItem(history, 2), &tensor);
    const struct member *k = &m->members[at];
    call -= k->first;
    if (call < 0 || call >= (int64_t)k->call_count)
        return -1;
    if (!k->calls[call].done)
        return 0;
    if (tensor < 0 || tensor >= (int64_t)k->calls[call].count)
        return -1;
    *ret = k->calls[call].out[tensor];
    return 1;
}

struct gather {
    const struct model *m;
    struct ktensor in[LAYER_TENSORS_MAX];
    uint32_t count;
    int state; /* as tensor_find */
};

static void gather_in(struct gather *g, const cJSON *node);

/* Tensors that are given by name, in the order in which layers take them. */
static void gather_named(struct gather *g, const cJSON *kwargs)
{
    static const char *const names[] = {"value", "key", "initial_state"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (tfjs_json_get(kwargs, names[i]))
            gather_in(g, tfjs_json_get(kwargs, names[i]));
    }
}

/* Tensors of one call: [[name, call, tensor, {}], ...], a bare [name, call, tensor], or Keras 3's {args: [{config: {keras_history}}]}. */
static void gather_in(struct gather *g, const cJSON *node)
{
    const cJSON *part, *history = tfjs_json_get(tfjs_json_get(node, "config"), "keras_history");
    if (g->state <= 0)
        return;
    if (!history && cJSON_IsArray(node) && cJSON_IsString(cJSON_GetArrayItem(node, 0)))
        history = node;
    if (history) {
        g->state = g->count < LAYER_TENSORS_MAX ? tensor_find(g->m, history, &g->in[g->count]) : -1;
        g->count++;
        gather_named(g, cJSON_GetArrayItem(history == node ? node : NULL, 3));
        return;
    }
    if (tfjs_json_get(node, "args")) {
        gather_in(g, tfjs_json_get(node, "args")); /* as deep as the JSON, whose depth is capped */
        gather_named(g, tfjs_json_get(node, "kwargs"));
        return;
    }
    if (!cJSON_IsArray(node))
        return;
    cJSON_ArrayForEach(part, node)
    {
        gather_in(g, part);
    }
}

/* One round over all calls that are not made yet; true when something was. */
static bool round_run(struct model *m, struct gather *g, bool *ret_left)
{
    bool any = false;
    *ret_left = false;
    for (uint32_t i = 0; i < m->count && m->l->b->status == PEN_OK; i++) {
        struct member *k = &m->members[i];
        const cJSON *node =
            tfjs_json_get(k->json, "inbound_nodes") ? tfjs_json_get(k->json, "inbound_nodes")->child : NULL;
        for (uint32_t n = 0; n < k->call_count && m->l->b->status == PEN_OK; n++, node = node ? node->next : NULL) {
            if (k->calls[n].done || !node)
                continue;
            g->count = 0;
            g->state = 1;
            gather_in(g, node);
            if (g->state < 0)
                build_stop(m->l->b, PEN_ERR_CORRUPT, "layer '%.100s' is fed by a tensor that is not there", k->name);
            if (g->state > 0 && m->l->b->status == PEN_OK) {
                member_call(m, k, n, g->in, g->count);
                any = true;
            } else {
                *ret_left = true;
            }
        }
    }
    return any;
}

/* Ends of a functional model: a list of [name, call, tensor], or one of them. */
static const cJSON *ends_of(const cJSON *config, const char *field)
{
    return tfjs_json_get(config, field);
}

static uint32_t ends_count(const cJSON *ends)
{
    return cJSON_IsString(cJSON_GetArrayItem(ends, 0)) ? 1 : (uint32_t)cJSON_GetArraySize(ends);
}

static const cJSON *end_at(const cJSON *ends, uint32_t index)
{
    return cJSON_IsString(cJSON_GetArrayItem(ends, 0)) ? ends : cJSON_GetArrayItem(ends, (int)index);
}

static struct ktensor input_make(struct build *b, const cJSON *config, const char *name)
{
    const cJSON *dim, *dims = tfjs_json_get(config, "batch_input_shape");
    struct shape shape = {0};
    const char *dtype = tfjs_json_text(config, "dtype");
    if (!dims)
        dims = tfjs_json_get(config, "batch_shape");
    if (!cJSON_IsArray(dims) || cJSON_GetArraySize(dims) > PEN_MAX_RANK) {
        build_stop(b, PEN_ERR_CORRUPT, "input '%.100s' has no shape", name);
        return (struct ktensor){VALUE_NONE, 0, VALUE_NONE};
    }
    cJSON_ArrayForEach(dim, dims)
    {
        int64_t size = SHAPE_DIM_UNKNOWN;
        (void)tfjs_json_integer(dim, &size);
        shape.dim[shape.rank++] = size < 0 ? SHAPE_DIM_UNKNOWN : size;
    }
    bool integers = dtype && strncmp(dtype, "int", 3) == 0;
    uint32_t value = build_input(b, name, strlen(name), integers ? PEN_DTYPE_I32 : PEN_DTYPE_F32, &shape);
    return (struct ktensor){value, shape.rank, VALUE_NONE};
}

static void feed(struct model *m, const cJSON *end, const struct ktensor *given, uint32_t index)
{
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(end, 0));
    uint32_t at;
    if (!name || !names_get(&m->names, (struct bytes){(const uint8_t *)name, strlen(name)}, &at)) {
        build_stop(m->l->b, PEN_ERR_CORRUPT, "input %u of a model is no layer of it", index);
        return;
    }
    struct member *k = &m->members[at];
    struct ktensor x = given ? given[index] : input_make(m->l->b, tfjs_json_get(k->json, "config"), k->name);
    if (m->l->b->status == PEN_OK)
        keep_out(m, &k->calls[0], &x, 1);
}

static void functional(struct kcall *c, struct model *m, bool whole)
{
    const cJSON *ins = ends_of(c->l->config, "input_layers"), *outs = ends_of(c->l->config, "output_layers");
    struct gather *g = malloc(sizeof *g);
    bool left = true;
    if (!g) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a model");
        return;
    }
    g->m = m;
    if (!whole && ends_count(ins) != c->in_count)
        build_stop(c->b, PEN_ERR_CORRUPT, "a model of %u %s is called on %u", ends_count(ins),
                   words_plural(ends_count(ins), "input", "inputs"), c->in_count);
    for (uint32_t i = 0; i < ends_count(ins) && c->b->status == PEN_OK; i++)
        feed(m, end_at(ins, i), whole ? NULL : c->in, i);
    while (left && c->b->status == PEN_OK && round_run(m, g, &left))
        continue;
    for (uint32_t i = 0; i < ends_count(outs) && c->b->status == PEN_OK; i++) {
        if (i >= LAYER_TENSORS_MAX || tensor_find(m, end_at(outs, i), &c->out[i]) <= 0)
            build_stop(c->b, PEN_ERR_CORRUPT, "output %u of a model is not computed", i);
        c->out_count = i + 1;
    }
    free(g);
}

/* ---- sequential --------------------------------------------------------------------------------------------------------------- */

static void sequential(struct kcall *c, struct model *m, bool whole)
{
    const struct ktensor *in = c->in;
    uint32_t count = c->in_count;
    struct ktensor first;
    if (whole) {
        const cJSON *config = tfjs_json_get(m->members[0].json, "config");
        const char *name = tfjs_json_text(config, "name");
        bool layer = strcmp(layer_of(c->l, m->members[0].json).kind, "InputLayer") == 0;
        char text[200];
        for (const cJSON *inner = config; layer_list(inner);
             inner = tfjs_json_get(layer_list(inner)->child, "config")) {
            const char *kind = tfjs_json_text(layer_list(inner)->child, "class_name");
            name = tfjs_json_text(tfjs_json_get(layer_list(inner)->child, "config"), "name");
            layer = kind && strcmp(kind, "InputLayer") == 0;
        }
        snprintf(text, sizeof text, layer ? "%.180s" : "%.180s_input", name ? name : "layer");
        while (!tfjs_json_get(config, "batch_input_shape") && !tfjs_json_get(config, "batch_shape") &&
               layer_list(config)) {
            const cJSON *inner = layer_list(config);
            config = tfjs_json_get(inner->child, "config"); /* a model that begins with a model */
        }
        first = input_make(c->b, config, text);
        in = &first;
        count = 1;
    }
    for (uint32_t i = 0; i < m->count && c->b->status == PEN_OK; i++) {
        if (strcmp(layer_of(c->l, m->members[i].json).kind, "InputLayer") == 0)
            continue;
        member_call(m, &m->members[i], 0, in, count);
        in = m->members[i].calls[0].out;
        count = m->members[i].calls[0].count;
    }
    for (uint32_t i = 0; i < count && c->b->status == PEN_OK; i++)
        c->out[c->out_count++] = in[i];
}

static void model_run(struct kcall *c, bool whole)
{
    struct model m = {.l = c->l};
    if (model_init(&m, layer_list(c->l->config))) {
        if (strcmp(c->l->kind, "Sequential") == 0)
            sequential(c, &m, whole);
        else
            functional(c, &m, whole);
    }
    model_fini(&m);
}

void layer_model(struct kcall *c)
{
    model_run(c, false);
}

/* ---- the whole model ------------------------------------------------------------------------------------------------------------ */

/* An output carries the name of its layer. */
static void output_name(const struct klayer *l, uint32_t index, char *text, size_t room)
{
    const cJSON *layers = layer_list(l->config), *outs = tfjs_json_get(l->config, "output_layers");
    const char *name = NULL;
    if (strcmp(l->kind, "Sequential") == 0)
        name = layer_of((struct klayer *)l, cJSON_GetArrayItem(layers, cJSON_GetArraySize(layers) - 1)).name;
    else
        name = cJSON_GetStringValue(cJSON_GetArrayItem(end_at(outs, index), 0));
    snprintf(text, room, "%.200s", name ? name : "output");
}

static void outputs_make(struct kcall *c)
{
    char name[208];
    for (uint32_t i = 0; i < c->out_count && c->b->status == PEN_OK; i++) {
        uint32_t value = build_1(c->b, OP_Identity, c->out[i].value);
        output_name(c->l, i, name, sizeof name);
        value = build_bind(c->b, value, name, strlen(name));
        if (c->b->status == PEN_OK && graph_output_add(c->b->g, value) != PEN_OK)
            build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
}

enum pen_status js_layers_model(struct tfjs *r, struct graph *g, const cJSON *root)
{
    const cJSON *topology = tfjs_json_get(root, "modelTopology"), *json = tfjs_json_get(topology, "model_config");
    struct build b = {.g = g, .missing = &r->missing, .reterr = r->reterr};
    struct klayer outer = {.r = r, .b = &b}, l = layer_of(&outer, json ? json : topology);
    r->placed = layer_weights_placed(&r->weights);
    if (!layer_is_model(l.kind))
        return pen_error_set(r->reterr, PEN_ERR_CORRUPT, "the model's topology is a '%.80s', not a model", l.kind);
    struct kcall *c = kcall_new(&l);
    if (c)
        model_run(c, true);
    if (c && b.status == PEN_OK && r->missing.count == 0)
        outputs_make(c);
    free(c);
    build_fini(&b);
    return b.status;
}
