#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/dtype.h"
#include "run/rt_arena.h"
#include "tools/kernels_seen.h"
#include "tools/tool.h"
#include "version.h"

#define MODELS_MAX 256

struct kernels_options {
    struct tool_options tool;
    struct setting_list shapes;
    int64_t batch;
};

static const struct setting table[] = {
    TOOL_SETTINGS(struct kernels_options),
#include "tools/tool_flags.def"
    TOOL_SHAPE_SETTINGS(struct kernels_options),
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine kernels",
    .usage = "penstock-engine kernels [options] MODEL...",
    .about = "Prints what these models need of a build after the passes: operators with their types and backends, the "
             "parts of importers, the precision. The text is a list as -DPENSTOCK_KERNELS= reads it; deploy/custom "
             "builds from it. Each model is loaded and run once, on zeros.",
    .after = "JSON keys: version, backend, kernels[{operator, type, backend}], imports[{format, operator}], "
             "precisions[], parts[{name, form}] (shader variants), notes[] (models that did not run to their end).\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the backend is not available.",
    .table = table,
    .variables = tool_variables,
};

/* One run on zeros: what shapes of inputs decide is seen, too. */
static enum pen_status model_run(const struct kernels_options *o, struct pen_model *model, struct pen_error *reterr)
{
    struct pen_tensor inputs[TOOL_INPUTS_MAX];
    const struct pen_tensor *outputs = NULL;
    struct pen_session *session = NULL;
    struct rt_arena arena;
    size_t count = 0, output_count = 0;
    rt_arena_init(&arena, (uint64_t)8 << 30);
    enum pen_status status = tool_inputs(model, &o->shapes, o->batch, inputs, TOOL_INPUTS_MAX, &count, reterr);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        void *zeros =
            inputs[i].dtype == PEN_DTYPE_STRING ? NULL : arena.memory.alloc(&arena.memory, inputs[i].bytes + 1);
        if (zeros == NULL) {
            status =
                pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "input '%s' cannot be filled with zeros", inputs[i].name);
        } else {
            memset(zeros, 0, inputs[i].bytes);
            inputs[i].data = zeros;
        }
    }
    if (status == PEN_OK) {
        status = pen_session_new(model, &session, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_run(session, inputs, count, NULL, &outputs, &output_count, reterr);
    }
    pen_session_free(session);
    rt_arena_fini(&arena);
    return status;
}

/* Loads and runs one model under the eyes of `seen`. A model that loads and does not run is noted, not refused. */
static enum pen_status model_look(const struct kernels_options *o, struct pen_engine *engine, const char *path,
                                  struct kernels_seen *seen, struct pen_error *reterr)
{
    struct pen_model *model = NULL;
    struct pen_error why = {0};
    enum pen_status status = pen_model_load(engine, path, &model, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (model_run(o, model, &why) != PEN_OK) {
        kernels_seen_note(seen, path, why.text);
    }
    kernels_seen_precision(seen, pen_engine_precision(engine));
    kernels_seen_precision(seen, pen_model_precision(model));
    kernels_seen_import(seen, path, pen_model_format(model));
    pen_model_free(model);
    return PEN_OK;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct kernels_options *o = from;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    if (count == 0) {
        fprintf(stderr, "penstock-engine: kernels takes models: penstock-engine kernels MODEL...\n");
        return TOOL_USAGE;
    }
    int code = tool_engine(&o->tool, false, &engine);
    struct kernels_seen *seen = code == TOOL_OK ? kernels_seen_new() : NULL;
    for (size_t i = 0; seen != NULL && code == TOOL_OK && i < count; i++) {
        if (model_look(o, engine, paths[i], seen, &error) != PEN_OK) {
            code = tool_fail(&error);
        }
    }
    if (seen != NULL && code == TOOL_OK) {
        (o->tool.json ? kernels_seen_json : kernels_seen_text)(seen, pen_engine_backend(engine));
    }
    kernels_seen_free(seen);
    pen_engine_free(engine);
    return code;
}

int cmd_kernels(int argc, char **argv)
{
    struct kernels_options options = {0};
    const struct tool_command command = {&program, &options, NULL, MODELS_MAX, run, &options.tool};
    return tool_run(&command, argc, argv);
}
