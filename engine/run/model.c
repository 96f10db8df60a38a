#include "run/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/pass.h"
#include "graph/pass_promote.h"

static enum pen_status file_map(const char *path, uint64_t limit, void **ret_file, size_t *ret_bytes,
                                struct pen_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "cannot open model file %s: %s",
                             path, strerror(errno));
    }
    struct stat st;
    enum pen_status status = PEN_OK;
    void *file = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = pen_error_set(reterr, PEN_ERR_IO, "%s is not a regular file: give the model file itself", path);
    } else if (st.st_size == 0) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "model file %s is empty", path);
    } else if ((uint64_t)st.st_size > limit) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "model file %s has %lld bytes, over the budget of %" PRIu64,
                               path, (long long)st.st_size, limit);
    } else {
        file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file == MAP_FAILED) {
            status = pen_error_set(reterr, PEN_ERR_IO, "cannot map model file %s: %s", path, strerror(errno));
        }
    }
    close(fd);
    if (status == PEN_OK) {
        *ret_file = file;
        *ret_bytes = (size_t)st.st_size;
    }
    return status;
}

/* Formats by their content; the first whose probe says yes reads the file. */
static const struct model_format {
    const char *name;
    bool (*probe)(const void *bytes, size_t size);
    enum pen_status (*read)(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                            struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr);
} formats[] = {
    {"tflite", tflite_probe, tflite_read},
    {"tfjs", tfjs_probe, tfjs_read},
    {"onnx", onnx_probe, onnx_read},
};

static const struct model_format *format_find(const struct pen_model *m)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i].probe(m->file, m->file_bytes)) {
            return &formats[i];
        }
    }
    return NULL;
}

enum pen_status model_graph_read(const struct pen_model *m, struct graph **ret_graph, struct import_extra *ret_extra,
                                 struct pen_error *reterr)
{
    return format_find(m)->read(m->file, m->file_bytes, m->folder, &m->engine->limits, ret_graph, ret_extra, reterr);
}

static enum pen_status graph_read(struct pen_model *m, const char *path, struct pen_error *reterr)
{
    const struct model_format *format = format_find(m);
    if (format == NULL) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "%s is not a model this build reads: it starts like none of the formats it knows", path);
    }
    m->format = format->name;
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if ((size_t)snprintf(m->folder, sizeof m->folder, "%.*s", length, slash == NULL ? "." : path) >= sizeof m->folder) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of the model is longer than %zu bytes",
                             sizeof m->folder);
    }
    return model_graph_read(m, &m->graph, &m->extra, reterr);
}

static enum pen_status passes(const struct pen_engine *engine, struct graph *g, struct pen_error *reterr)
{
    enum pen_status status = graph_verify(g, reterr);
    if (status != PEN_OK || !engine->options.optimise) {
        return status;
    }
    uint32_t promoted = 0;
    if (engine->options.precision == PEN_PRECISION_F32) {
        status = pass_promote(g, &promoted);
    }
    if (status == PEN_OK && promoted > 0) {
        status = graph_verify(g, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    bool fast = strcmp(engine->backends[0].ops->name, "reference") != 0;
    struct pass_options options = {.fold = true, .fuse = true, .nhwc = fast};
    struct pass_report report = {0};
    status = pass_run(g, &options, &report, reterr);
    return status == PEN_OK ? graph_verify(g, reterr) : status;
}

/* What is known of every value before inputs are: backends look at types and ranks when they say what they take. */
static enum pen_status values_note(struct graph *g, struct pen_error *reterr)
{
    struct shape_env *env = NULL;
    enum pen_status status = shape_env_new(g, NULL, NULL, false, &env, reterr);
    for (uint32_t v = 0; status == PEN_OK && v < g->value_count; v++) {
        if (g->values[v].producer != NODE_NONE) {
            g->values[v].dtype = env->facts[v].dtype;
            g->values[v].shape = env->facts[v].shape;
        }
    }
    shape_env_free(env);
    return status;
}

enum pen_status model_graph_prepare(const struct pen_engine *engine, struct graph *g, struct pen_error *reterr)
{
    enum pen_status status = passes(engine, g, reterr);
    return status == PEN_OK ? values_note(g, reterr) : status;
}

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

static enum pen_status signatures_make(struct pen_model *m, struct pen_error *reterr)
{
    m->input_count = m->graph->input_count;
    m->output_count = m->graph->output_count;
    m->inputs = signatures(m->graph, m->graph->inputs, m->graph->input_count);
    m->outputs = signatures(m->graph, m->graph->outputs, m->graph->output_count);
    if (m->inputs == NULL || m->outputs == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's signature");
    }
    return PEN_OK;
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
        snprintf(m->placement + used, sizeof m->placement - used, "; placed again for the contents of small inputs");
    }
}

enum pen_status pen_model_load(struct pen_engine *engine, const char *path, struct pen_model **ret_model,
                               struct pen_error *reterr)
{
    struct pen_model *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a model");
    }
    m->engine = engine;
    atomic_fetch_add(&engine_counters.models, 1);
    enum pen_status status = file_map(path, engine->limits.model_bytes, &m->file, &m->file_bytes, reterr);
    if (status == PEN_OK) {
        status = graph_read(m, path, reterr);
    }
    if (status == PEN_OK) {
        status = model_graph_prepare(engine, m->graph, reterr);
    }
    if (status == PEN_OK) {
        status = signatures_make(m, reterr);
    }
    if (status == PEN_OK) {
        status = variants_new(m, &m->variants, reterr);
    }
    if (status == PEN_OK) {
        pthread_mutex_lock(&engine->load_lock);
        status = program_new(engine->backends, engine->backend_count, m->graph, engine->options.strict,
                             variants_later(m->variants), &m->program, reterr);
        pthread_mutex_unlock(&engine->load_lock);
    }
    if (status != PEN_OK) {
        pen_model_free(m);
        return status;
    }
    placement_describe(m);
    /* Plans have packed what they need: the file's pages go back to the page cache and return when a kernel reads them in place. */
    madvise(m->file, m->file_bytes, MADV_DONTNEED);
    atomic_fetch_add(&engine_counters.weights_bytes, pen_model_bytes(m));
    *ret_model = m;
    return PEN_OK;
}

void pen_model_free(struct pen_model *model)
{
    if (model == NULL) {
        return;
    }
    atomic_fetch_sub(&engine_counters.models, 1);
    if (model->program != NULL) {
        atomic_fetch_sub(&engine_counters.weights_bytes, pen_model_bytes(model));
    }
    variants_free(model->variants);
    program_free(model->program);
    graph_free(model->graph);
    import_extra_fini(&model->extra);
    if (model->file != NULL) {
        munmap(model->file, model->file_bytes);
    }
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
    return model->format;
}

bool pen_model_stochastic(const struct pen_model *model)
{
    return model->graph->stochastic;
}

uint64_t pen_model_bytes(const struct pen_model *model)
{
    return model->file_bytes + model->graph->folded_bytes + program_plan_bytes(model->program);
}
