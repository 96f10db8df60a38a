/* The layers of a model and what their calls gave. */
#include "import/tfjs/layers_model.h"

#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"

const cJSON *model_layers(const cJSON *config)
{
    return cJSON_IsArray(config) ? config
                                 : tfjs_json_list(config, "layers"); /* an old Sequential's config is the list */
}

void model_fini(struct model *m)
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

bool model_init(struct model *m, const cJSON *layers)
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

void keep_out(struct model *m, struct call_out *to, const struct ktensor *out, uint32_t count)
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

struct kcall *kcall_new(struct klayer *l)
{
    struct kcall *c = calloc(1, sizeof *c);
    if (!c)
        build_stop(l->b, PEN_ERR_NO_MEMORY, "no memory to call a layer");
    else
        *c = (struct kcall){.l = l, .b = l->b};
    return c;
}

/* What a call is given by name: Keras 3 has it beside the others, Keras 2 behind the first tensor. */
const cJSON *kwargs_of(const cJSON *node)
{
    const cJSON *first = cJSON_IsArray(node) ? node->child : NULL;
    if (cJSON_IsObject(node))
        return tfjs_json_get(node, "kwargs");
    return cJSON_IsArray(first) ? cJSON_GetArrayItem(first, 3) : cJSON_GetArrayItem(node, 3);
}

void member_call(struct model *m, struct member *k, uint32_t call, const struct ktensor *in, uint32_t count)
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

struct ktensor input_make(struct build *b, const cJSON *config, const char *name)
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
