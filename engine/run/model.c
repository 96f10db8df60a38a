#include "graph/explain.h"
#include "graph/kept.h"
#include "error_complete.h"
#include "run/internal.h"
#include "run/precision.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pen_tensor *signatures(const struct graph *g, const uint32_t *ids, uint32_t count)
{
    struct pen_tensor *sigs = calloc((size_t)count + 1, sizeof *sigs);
    for (uint32_t i = 0; sigs != NULL && i < count; i++) {
        const struct value *v = &g->values[ids[i]];
        sigs[i] = (struct pen_tensor){
            .name = v->name, .dtype = v->dtype, .rank = v->shape.rank < 0 ? 0 : (uint32_t)v->shape.rank};
        for (uint32_t d = 0; d < sigs[i].rank; d++) {
            sigs[i].dims[d] = v->shape.dim[d];
        }
    }
    return sigs;
}

/*
 * What the file declares of an output is no promise: many files declare a batch of 1 where any will do. A dim that does not follow from the inputs'
 * signature is dynamic, and a rank that does not is 0.
 */
static enum pen_status outputs_loosen(struct pen_model *m, struct pen_error *reterr)
{
    struct shape_env *env;
    enum pen_status status = shape_env_new(m->graph, NULL, NULL, false, &env, reterr);
    if (status != PEN_OK) {
        return status;
    }
    for (uint32_t i = 0; i < m->output_count; i++) {
        const struct value *v = &m->graph->values[m->graph->outputs[i]];
        const struct shape *known = &env->facts[m->graph->outputs[i]].shape;
        if (v->producer == NODE_NONE) {
            continue;
        }
        m->outputs[i].rank = 0;
        for (int32_t d = 0; d < known->rank; d++) {
            m->outputs[i].dims[m->outputs[i].rank++] = known->dim[d] < 0 ? -1 : known->dim[d];
        }
    }
    (void)shape_env_unfolded(env, m->unfolded, sizeof m->unfolded);
    shape_env_free(env);
    return PEN_OK;
}

static enum pen_status signatures_make(struct pen_model *m, struct pen_error *reterr)
{
    m->input_count = m->graph->input_count;
    m->output_count = m->graph->output_count;
    m->inputs = signatures(m->graph, m->graph->inputs, m->graph->input_count);
    m->outputs = signatures(m->graph, m->graph->outputs, m->graph->output_count);
    if (m->inputs == NULL || m->outputs == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's signature");
    }
    return outputs_loosen(m, reterr);
}

static void placement_describe(struct pen_model *m)
{
    struct placement total = *m->program->placement;
    for (uint32_t i = 0; i < m->program->child_count; i++) {
        program_placement_add(m->program->children[i].program, &total);
    }
    placement_text(&total, m->placement, sizeof m->placement);
    size_t used = strlen(m->placement);
    if (m->variants != NULL) {
        snprintf(m->placement + used, sizeof m->placement - used, "; placed again for what inputs decide");
    }
    used = strlen(m->placement);
    if (m->graph->narrow != NULL) {
        snprintf(m->placement + used, sizeof m->placement - used,
                 "; 16-bit floats stay as they are, rounded after every node: %s cannot be widened", m->graph->narrow);
    }
    used = strlen(m->placement);
    if (m->unfolded[0] != '\0') {
        snprintf(m->placement + used, sizeof m->placement - used, "; %s", m->unfolded);
    }
}

static void precision_explain(const struct pen_model *m)
{
    bool integers = m->precision == PEN_PRECISION_INT8;
    explain_say(m->engine->options.explain, PEN_CHOICE_PRECISION, "the model", pen_engine_precision_name(m->precision),
                "%s",
                integers ? "its products are all of integers, whatever floats are computed in"
                         : "it has products of floats, or none: the engine's precision is the model's");
}

/* A memo_new callback. */
static void content_digest(void *context, uint8_t ret_digest[16])
{
    pen_model_digest(context, ret_digest);
}

/* Where measurements of it are kept: in its folder. */
static enum pen_status memo_open(struct pen_model *m, const char *path, const char *beneath, struct pen_error *reterr)
{
    m->path = strdup(path);
    m->beneath = strdup(beneath);
    if (m->engine->options.keep_measured) {
        m->memo = memo_new(m->source.folder, content_digest, m);
    }
    return m->path != NULL && m->beneath != NULL
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a model's path");
}

static enum pen_status load(struct pen_model *m, const char *path, const char *beneath, struct pen_error *reterr)
{
    struct pen_engine *e = m->engine;
    struct source_options options = engine_source_options(e);
    enum pen_status status = source_open(path, beneath, e->limits.model_bytes, &m->source, reterr);
    if (status == PEN_OK) {
        status = memo_open(m, path, beneath, reterr);
    }
    if (status == PEN_OK) {
        status = source_graph(&m->source, &options, &m->graph, &m->extra, reterr);
    }
    if (status == PEN_OK) {
        m->graph->memo = m->memo;
    }
    if (status == PEN_OK) {
        status = signatures_make(m, reterr);
    }
    if (status == PEN_OK) {
        status = variants_new(m, &m->variants, reterr);
    }
    if (status == PEN_OK) {
        pthread_mutex_lock(&m->engine->load_lock);
        status = program_new(e->backends, e->backend_count, m->graph, engine_placement_choice(e),
                             variants_later(m->variants), &m->program, reterr);
        pthread_mutex_unlock(&m->engine->load_lock);
    }
    options.explain = NULL; /* what is made again was explained */
    return status == PEN_OK ? constants_new(&m->source, &options, m->graph, m->program, &m->constants, reterr) : status;
}

void model_weigh(struct pen_model *m)
{
    uint64_t now = constants_bytes(m->constants) + program_plan_bytes(m->program);
    model_ledger_weights(&m->ledger, atomic_exchange(&m->bytes, now), now);
}

enum pen_status pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                               struct pen_error *reterr)
{
    return pen_model_load_beneath(engine, path, "/", ret_model, reterr);
}

enum pen_status pen_model_load_beneath(struct pen_engine *engine, const char *path, const char *folder,
                                       struct pen_model **ret_model, struct pen_error *reterr)
{
    struct pen_model *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a model");
    }
    m->engine = engine;
    m->ledger.budget = engine->options.budget_bytes;
    atomic_fetch_add(&engine_counters.models, 1);
    enum pen_status status = error_complete(reterr, load(m, path, folder, reterr), "load the model");
    if (status != PEN_OK) {
        pen_model_free(m);
        return status;
    }
    status = precision_fits(m->graph, engine->options.precision, reterr);
    if (status != PEN_OK) {
        pen_model_free(m);
        return status;
    }
    m->precision = precision_of(m->graph, engine->options.precision);
    precision_explain(m);
    if (m->precision == PEN_PRECISION_INT8 && !KEPT(precision_int8)) {
        pen_model_free(m);
        return pen_error_set(
            reterr, PEN_ERR_UNSUPPORTED,
            "the model computes in int8, which this build leaves out: add the line \"precision int8\" to "
            "the list of -DPENSTOCK_KERNELS");
    }
    placement_describe(m);
    source_cool(&m->source, &m->extra);
    model_weigh(m);
    if (m->ledger.budget > 0 && m->bytes > m->ledger.budget) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "the model's weights take %" PRIu64 " bytes, over the memory budget of %" PRIu64,
                               (uint64_t)m->bytes, m->ledger.budget);
        pen_model_free(m);
        return status;
    }
    env_freeze(engine->env);
    *ret_model = m;
    return PEN_OK;
}

void pen_model_free(struct pen_model *model)
{
    if (model == NULL) {
        return;
    }
    if (model->attached != NULL) {
        model->attached_free(model->attached);
    }
    atomic_fetch_sub(&engine_counters.models, 1);
    variants_free(model->variants);
    model_ledger_weights(&model->ledger, model->bytes, 0);
    program_free(model->program);
    constants_free(model->constants);
    graph_free(model->graph);
    import_extra_fini(&model->extra);
    source_close(&model->source);
    memo_free(model->memo);
    free(model->beneath);
    free(model->path);
    free(model->inputs);
    free(model->outputs);
    free(model);
}

const struct pen_tensor *pen_model_inputs(const struct pen_model *model, size_t *ret_count)
{
    *ret_count = model->input_count;
    return model->inputs;
}

const struct pen_tensor *pen_model_outputs(const struct pen_model *model, size_t *ret_count)
{
    *ret_count = model->output_count;
    return model->outputs;
}

const char *pen_model_symbol(const struct pen_model *model, size_t input, uint32_t dim)
{
    if (input >= model->input_count || dim >= PEN_MAX_RANK) {
        return NULL;
    }
    return model->graph->values[model->graph->inputs[input]].symbol[dim];
}

bool pen_model_ranked(const struct pen_model *model, bool output, size_t index)
{
    const struct graph *g = model->graph;
    const uint32_t *ids = output ? g->outputs : g->inputs;
    return index < (output ? g->output_count : g->input_count) && g->values[ids[index]].shape.rank >= 0;
}

static bool quant_of(const struct value *v, float *ret_scale, int32_t *ret_zero_point)
{
    const struct quant *quant = &v->quant;
    if (quant->count != 1 || quant->scale == NULL || !(quant->scale[0] > 0.0f)) {
        return false;
    }
    *ret_scale = quant->scale[0];
    *ret_zero_point = quant->zero_point == NULL ? 0 : quant->zero_point[0];
    return true;
}

bool pen_model_input_quant(const struct pen_model *model, size_t input, float *ret_scale, int32_t *ret_zero_point)
{
    const struct graph *g = model->graph;
    return input < g->input_count && quant_of(&g->values[g->inputs[input]], ret_scale, ret_zero_point);
}

bool pen_model_output_quant(const struct pen_model *model, size_t output, float *ret_scale, int32_t *ret_zero_point)
{
    const struct graph *g = model->graph;
    return output < g->output_count && quant_of(&g->values[g->outputs[output]], ret_scale, ret_zero_point);
}

const char *pen_model_placement(const struct pen_model *model)
{
    return model->placement;
}

const char *pen_model_format(const struct pen_model *model)
{
    return source_format(&model->source);
}

enum pen_precision pen_model_precision(const struct pen_model *model)
{
    return model->precision;
}

const char *pen_model_labels(const struct pen_model *model, size_t *ret_bytes)
{
    const struct graph_notes *notes = model->graph->notes;
    *ret_bytes = notes != NULL ? notes->labels_bytes : 0;
    return notes != NULL ? notes->labels : NULL;
}

size_t pen_model_normalisation(const struct pen_model *model, float *ret_mean, float *ret_deviation, size_t room)
{
    const struct graph_notes *notes = model->graph->notes;
    size_t count = notes != NULL ? notes->channels : 0;
    for (size_t i = 0; i < count && i < room; i++) {
        ret_mean[i] = notes->mean[i];
        ret_deviation[i] = notes->deviation[i];
    }
    return count < room ? count : room;
}

bool pen_model_stochastic(const struct pen_model *model)
{
    return model->graph->stochastic;
}

uint64_t pen_model_bytes(const struct pen_model *model)
{
    return model->bytes;
}

uint64_t pen_model_memory(const struct pen_model *model)
{
    return model->ledger.weights_bytes + model->ledger.sessions_bytes;
}

uint64_t pen_model_weights(const struct pen_model *model)
{
    return constants_weights(model->constants);
}
