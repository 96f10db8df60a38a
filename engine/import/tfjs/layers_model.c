/* The topology of layers models: sequential, functional, nested, with shared layers. */
#include "import/tfjs/layers_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"

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
        for (const cJSON *inner = config; model_layers(inner);
             inner = tfjs_json_get(model_layers(inner)->child, "config")) {
            const char *kind = tfjs_json_text(model_layers(inner)->child, "class_name");
            name = tfjs_json_text(tfjs_json_get(model_layers(inner)->child, "config"), "name");
            layer = kind && strcmp(kind, "InputLayer") == 0;
        }
        snprintf(text, sizeof text, layer ? "%.180s" : "%.180s_input", name ? name : "layer");
        while (!tfjs_json_get(config, "batch_input_shape") && !tfjs_json_get(config, "batch_shape") &&
               model_layers(config)) {
            const cJSON *inner = model_layers(config);
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
    if (model_init(&m, model_layers(c->l->config))) {
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
    const cJSON *layers = model_layers(l->config), *outs = tfjs_json_get(l->config, "output_layers");
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
