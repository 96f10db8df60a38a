/* Functional models: calls of layers whose tensors name each other. */
#include "import/tfjs/layers_model.h"

#include <stdlib.h>
#include <string.h>

#include "words.h"

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
const cJSON *ends_of(const cJSON *config, const char *field)
{
    return tfjs_json_get(config, field);
}

uint32_t ends_count(const cJSON *ends)
{
    return cJSON_IsString(cJSON_GetArrayItem(ends, 0)) ? 1 : (uint32_t)cJSON_GetArraySize(ends);
}

const cJSON *end_at(const cJSON *ends, uint32_t index)
{
    return cJSON_IsString(cJSON_GetArrayItem(ends, 0)) ? ends : cJSON_GetArrayItem(ends, (int)index);
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

void functional(struct kcall *c, struct model *m, bool whole)
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
