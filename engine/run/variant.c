#include "run/variant.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/arena.h"
#include "graph/askew.h"
#include "graph/explain.h"
#include "graph/specialise.h"
#include "run/internal.h"

struct variant {
    struct variant *next; /* in the model's list, the last used first */
    atomic_uint references;
    void *key;
    size_t key_bytes;
    struct graph *graph;
    struct import_extra extra;
    struct program *program;
    struct model_ledger *ledger;
    atomic_uint_least64_t bytes; /* booked there: constants of its own and plans */
};

struct variants {
    struct pen_model *model;
    struct specialise found;
    /* Guarded by the engine's load_lock: */
    struct variant *list;
    uint32_t kept, built;
};

enum pen_status variants_new(struct pen_model *model, struct variants **ret_variants, struct pen_error *reterr)
{
    bool reference = model->engine->backends[0].ops->is_reference;
    if (reference || !specialise_possible(model->graph) ||
        model->source.bytes + model->graph->folded_bytes > VARIANT_MODEL_BYTES) {
        return PEN_OK;
    }
    struct variants *v = calloc(1, sizeof *v);
    struct shape_env *env = NULL;
    enum pen_status status = trial_env_new(model->graph, &env, reterr);
    if (status == PEN_OK && (v == NULL || specialise_find(model->graph, env, &v->found) != PEN_OK)) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to look for inputs that decide shapes");
    }
    shape_env_free(env);
    if (status != PEN_OK || !specialise_useful(&v->found)) {
        if (v != NULL) {
            specialise_fini(&v->found);
        }
        free(v);
        return status;
    }
    v->model = model;
    *ret_variants = v;
    return PEN_OK;
}

void variants_free(struct variants *v)
{
    if (v == NULL) {
        return;
    }
    while (v->list != NULL) {
        struct variant *next = v->list->next;
        variant_release(v->list);
        v->list = next;
    }
    specialise_fini(&v->found);
    free(v);
}

const bool *variants_later(const struct variants *v)
{
    return v != NULL ? v->found.node : NULL;
}

void variant_release(struct variant *variant)
{
    if (variant == NULL) {
        return;
    }
    const unsigned references = atomic_fetch_sub(&variant->references, 1);
    PEN_ASSERT(references > 0, "a variant is released once for each reference");
    if (references > 1) {
        return;
    }
    model_ledger_weights(variant->ledger, variant->bytes, 0);
    program_free(variant->program);
    graph_free(variant->graph);
    import_extra_fini(&variant->extra);
    free(variant->key);
    free(variant);
}

void variant_weigh(struct variant *variant)
{
    uint64_t now = arena_bytes(variant->graph->arena) + program_plan_bytes(variant->program);
    model_ledger_weights(variant->ledger, atomic_exchange(&variant->bytes, now), now);
}

const struct graph *variant_graph(const struct variant *variant)
{
    return variant->graph;
}

const struct program *variant_program(const struct variant *variant)
{
    return variant->program;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------------- */

/* Does input i belong to the key: its contents, or its shape alone? */
static bool key_has(const struct variants *v, uint32_t i, const struct rt_value *in)
{
    return v->found.input[i] || (v->found.shapes && in->kind == VALUE_TENSOR);
}

/*
 * Rank, dims and bytes of each input that decides, one after the other; where shapes decide, rank and dims of the others too.
 * *ret_key NULL: an input is too large to be a parameter.
 */
static enum pen_status key_make(const struct variants *v, const struct rt_value *in, void **ret_key, size_t *ret_bytes)
{
    const struct graph *g = v->model->graph;
    size_t bytes = 0;
    for (uint32_t i = 0; i < g->input_count; i++) {
        int64_t elements = shape_elements(&in[i].shape);
        if (v->found.input[i] && (in[i].kind != VALUE_TENSOR || in[i].dtype != g->values[g->inputs[i]].dtype ||
                                  elements < 0 || elements > SPECIALISE_ELEMENTS)) {
            *ret_key = NULL;
            return PEN_OK;
        }
        bytes += key_has(v, i, &in[i]) ? sizeof in[i].shape : 0;
        bytes += v->found.input[i] ? in[i].bytes : 0;
    }
    uint8_t *key = calloc(1, bytes + 1);
    if (key == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    *ret_key = key;
    *ret_bytes = bytes;
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (!key_has(v, i, &in[i])) {
            continue;
        }
        struct shape shape = shape_of(in[i].shape.rank, in[i].shape.dim); /* dims beyond the rank are zero */
        memcpy(key, &shape, sizeof shape);
        key += sizeof shape;
        if (v->found.input[i] && in[i].bytes > 0) {
            memcpy(key, in[i].data, in[i].bytes);
        }
        key += v->found.input[i] ? in[i].bytes : 0;
    }
    return PEN_OK;
}

/* ---- making one -------------------------------------------------------------------------------------------------------------- */

static enum pen_status constants_put(const struct variants *v, struct graph *g, const struct rt_value *in)
{
    struct shape *shapes = calloc((size_t)g->input_count + 1, sizeof *shapes);
    const void **data = calloc((size_t)g->input_count + 1, sizeof *data);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (shapes != NULL && data != NULL) {
        for (uint32_t i = 0; i < g->input_count; i++) {
            shapes[i] = in[i].shape;
            data[i] = in[i].data;
        }
        status = specialise_apply(g, &v->found, shapes, data);
    }
    free(shapes);
    free((void *)data);
    return status;
}

static enum pen_status variant_make(const struct variants *v, const struct rt_value *in, struct variant **ret_variant,
                                    struct pen_error *reterr)
{
    struct pen_engine *engine = v->model->engine;
    struct variant *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a model's variant");
    }
    atomic_init(&made->references, 1);
    made->ledger = &v->model->ledger;
    struct source_options options = engine_source_options(engine);
    enum pen_status status = source_read(&v->model->source, &options, &made->graph, &made->extra, reterr);
    if (status == PEN_OK) {
        made->graph->memo = v->model->memo;
    }
    if (status == PEN_OK && constants_put(v, made->graph, in) != PEN_OK) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the constants of a model's variant");
    }
    if (status == PEN_OK) {
        status = source_prepare(made->graph, &options, reterr);
    }
    if (status == PEN_OK && graph_align_all(made->graph) != PEN_OK) { /* nobody looks who reads them */
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the constants of a model's variant");
    }
    if (status == PEN_OK) {
        status = program_new(engine->backends, engine->backend_count, made->graph, engine_placement_choice(engine),
                             NULL, &made->program, reterr);
    }
    if (status != PEN_OK) {
        variant_release(made);
        return status;
    }
    variant_weigh(made);
    *ret_variant = made;
    return PEN_OK;
}

/* What is chosen for it stands under its number. */
static enum pen_status variant_new(const struct variants *v, const struct rt_value *in, struct variant **ret_variant,
                                   struct pen_error *reterr)
{
    struct pen_explain *log = v->model->engine->options.explain;
    char scope[40];
    snprintf(scope, sizeof scope, "variant %u", v->built);
    explain_say(log, PEN_CHOICE_BUCKET, "the model", scope,
                "the values or shapes of these inputs decide its structure, and come for the first time: a graph with "
                "them as constants is made");
    explain_scope(log, scope);
    enum pen_status status = variant_make(v, in, ret_variant, reterr);
    explain_scope(log, "");
    return status;
}

/* ---- the list ------------------------------------------------------------------------------------------------------------------ */

static struct variant *list_find(struct variants *v, const void *key, size_t bytes)
{
    for (struct variant **at = &v->list; *at != NULL; at = &(*at)->next) {
        struct variant *found = *at;
        if (found->key_bytes == bytes && memcmp(found->key, key, bytes) == 0) {
            *at = found->next;
            found->next = v->list;
            v->list = found;
            return found;
        }
    }
    return NULL;
}

static void list_add(struct variants *v, struct variant *added)
{
    added->next = v->list;
    v->list = added;
    if (++v->kept <= VARIANTS_KEPT) {
        return;
    }
    struct variant **last = &v->list;
    while ((*last)->next != NULL) {
        last = &(*last)->next;
    }
    variant_release(*last);
    *last = NULL;
    v->kept--;
    PEN_ASSERT(v->kept == VARIANTS_KEPT && v->kept <= v->built, "a model keeps some of the variants that it has made");
}

static enum pen_status general(const struct variants *v, const char *why, struct pen_error *reterr)
{
    return v->model->engine->options.strict
               ? pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                               "the model's shapes follow from the contents of its inputs, and %s; allow fallback "
                               "placement",
                               why)
               : PEN_OK;
}

static enum pen_status take(struct variants *v, const struct rt_value *in, void **key, size_t bytes,
                            struct variant **ret_variant, struct pen_error *reterr)
{
    struct variant *found = list_find(v, *key, bytes);
    if (found == NULL && v->built >= VARIANTS_BUILT) {
        return general(v, "too many different ones have been compiled", reterr);
    }
    if (found == NULL) {
        v->built++;
        enum pen_status status = variant_new(v, in, &found, reterr);
        if (status != PEN_OK) {
            return status;
        }
        found->key = *key;
        found->key_bytes = bytes;
        *key = NULL;
        list_add(v, found);
    }
    atomic_fetch_add(&found->references, 1);
    *ret_variant = found;
    return PEN_OK;
}

enum pen_status variant_take(struct variants *v, const struct rt_value *in, struct variant **ret_variant,
                             struct pen_error *reterr)
{
    void *key = NULL;
    size_t bytes = 0;
    *ret_variant = NULL;
    if (key_make(v, in, &key, &bytes) != PEN_OK) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the key of a model's variant");
    }
    if (key == NULL) {
        return general(v, "one of them is too large to be compiled in", reterr);
    }
    pthread_mutex_lock(&v->model->engine->load_lock); /* backends plan one model at a time */
    enum pen_status status = take(v, in, &key, bytes, ret_variant, reterr);
    pthread_mutex_unlock(&v->model->engine->load_lock);
    free(key);
    return status;
}
