#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"
#include "words.h"

#define MODELS_MAX 256

struct tune_options {
    struct tool_options tool;
    struct setting_list shapes;
    int64_t batch, class_us;
};

static const struct setting table[] = {
    TOOL_SETTINGS(struct tune_options),
#include "tools/tool_flags.def"
    TOOL_SHAPE_SETTINGS(struct tune_options),
    {.name = "class-time",
     .type = SETTING_DURATION,
     .offset = offsetof(struct tune_options, class_us),
     .def = "500ms",
     .min = 0,
     .max = 600000000,
     .help = "time for one class of products; three rounds are run in any case"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine tune",
    .usage = "penstock-engine tune [options] MODEL...",
    .about =
        "Measures the kernels a backend may choose among on the products of these models, and keeps the fastest of "
        "each class in the folder --vk-cache-dir, for this device, driver and precision.",
    .after = "JSON keys: backend, device, precision, stored, classes[{products, shape, by_rule, chosen, us{family: "
             "time}, wrong[]}].",
    .table = table,
    .variables = tool_variables,
};

struct tuner {
    const struct tune_options *options;
    struct pen_engine *engine;
    cJSON *classes;
    size_t rows;
};

/* The products of a model become known when a session prepares its shapes. */
static enum pen_status model_prepare(struct tuner *t, const char *path, struct pen_error *reterr)
{
    struct pen_tensor inputs[TOOL_INPUTS_MAX];
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    size_t count = 0;
    enum pen_status status = pen_model_load(t->engine, path, &model, reterr);
    if (status == PEN_OK) {
        status = tool_inputs(model, &t->options->shapes, t->options->batch, inputs, TOOL_INPUTS_MAX, &count, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_new(model, &session, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_warm(session, inputs, count, NULL, NULL, reterr);
    }
    pen_session_free(session);
    pen_model_free(model);
    return status;
}

static void row_print(void *context, const struct pen_tune_row *row)
{
    struct tuner *t = context;
    t->rows++;
    if (!t->options->tool.json) {
        printf("%-44s %-26s", row->products, row->shape);
        for (size_t i = 0; i < row->time_count; i++) {
            printf(" %s %.1f", row->times[i].family, row->times[i].us);
        }
        printf(" us: %s%s", row->chosen, strcmp(row->chosen, row->by_rule) == 0 ? "" : " (not what the rules take)");
        for (size_t i = 0; i < row->wrong_count; i++) {
            printf("%s%s", i == 0 ? "; left out, as their results are wrong here: " : ", ", row->wrong[i]);
        }
        printf("\n");
        return;
    }
    cJSON *o = cJSON_CreateObject(), *us = cJSON_AddObjectToObject(o, "us"),
          *wrong = cJSON_AddArrayToObject(o, "wrong");
    cJSON_AddStringToObject(o, "products", row->products);
    cJSON_AddStringToObject(o, "shape", row->shape);
    cJSON_AddStringToObject(o, "by_rule", row->by_rule);
    cJSON_AddStringToObject(o, "chosen", row->chosen);
    for (size_t i = 0; i < row->time_count; i++) {
        cJSON_AddNumberToObject(us, row->times[i].family, row->times[i].us);
    }
    for (size_t i = 0; i < row->wrong_count; i++) {
        cJSON_AddItemToArray(wrong, cJSON_CreateString(row->wrong[i]));
    }
    cJSON_AddItemToArray(t->classes, o);
}

static void print_json(const struct tuner *t, bool stored)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "backend", pen_engine_backend(t->engine));
    cJSON_AddStringToObject(o, "device", pen_engine_device(t->engine));
    cJSON_AddStringToObject(o, "precision", pen_engine_precision_name(pen_engine_precision(t->engine)));
    cJSON_AddBoolToObject(o, "stored", stored);
    cJSON_AddItemReferenceToObject(o, "classes", t->classes);
    char *text = cJSON_PrintUnformatted(o);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(o);
}

static enum pen_status tune(struct tuner *t, const char *const *paths, size_t count, bool *ret_stored,
                            struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = model_prepare(t, paths[i], reterr);
    }
    return status == PEN_OK
               ? pen_engine_tune(t->engine, (uint64_t)t->options->class_us, row_print, t, ret_stored, reterr)
               : status;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct tune_options *options = from;
    struct tuner t = {.options = options, .classes = cJSON_CreateArray()};
    struct pen_error error = {0};
    bool stored = false;
    if (count == 0) {
        fprintf(stderr, "penstock-engine: tune needs at least one MODEL\n");
        cJSON_Delete(t.classes);
        return TOOL_USAGE;
    }
    int code = tool_engine(&options->tool, false, &t.engine);
    if (code == TOOL_OK && tune(&t, paths, count, &stored, &error) != PEN_OK) {
        code = tool_fail(&error);
    } else if (code == TOOL_OK && options->tool.json) {
        print_json(&t, stored);
    } else if (code == TOOL_OK) {
        printf("%zu %s; %s\n", t.rows, words_plural(t.rows, "class", "classes"), stored ? "stored" : "not stored");
    }
    if (code == TOOL_OK && !stored) {
        fprintf(stderr,
                "penstock-engine: the table was not stored: give a folder that can be written as --vk-cache-dir\n");
    }
    cJSON_Delete(t.classes);
    pen_engine_free(t.engine);
    return code;
}

int cmd_tune(int argc, char **argv)
{
    struct tune_options options = {0};
    const struct tool_command command = {&program, &options, NULL, MODELS_MAX, run, &options.tool};
    return tool_run(&command, argc, argv);
}
