#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/info_refused.h"
#include "tools/tool.h"
#include "version.h"

#define MODELS_MAX 256

struct info_options {
    struct tool_options tool;
    bool issue, explain;
    struct setting_list shapes;
    int64_t batch;
};

static const struct setting table[] = {
    TOOL_SETTINGS(struct info_options),
#include "tools/tool_flags.def"
    {.name = "issue",
     .type = SETTING_FLAG,
     .offset = offsetof(struct info_options, issue),
     .help = "print a text to report instead: version, format, operators and how often each is used; no weights, no "
             "names of nodes"},
    {.name = "explain",
     .type = SETTING_FLAG,
     .offset = offsetof(struct info_options, explain),
     .help = "also tell each choice of the engine and why: backends, passes, precision, kernels, buckets, threads"},
    TOOL_SHAPE_SETTINGS(struct info_options),
    {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock-engine info",
    .usage = "penstock-engine info [options] [MODEL...]",
    .about = "Lists the backends of this build, what this host offers them, and the flags of the chosen one after its "
             "self-test. With model files: their inputs and outputs, and which backend runs how many of their nodes "
             "and multiply-adds. Of a model that cannot run: each missing operator with its nodes, and what avoids it.",
    .after = "JSON keys: version, formats, chosen, backends[{name, priority, available, reason, device, library, "
             "precisions[], options[{name, choices or least and most, default, meaning}]}], flags{name: value}, "
             "environment[{name, value, origin, where, meaning}]; with model files "
             "models[{model, format, precision, placement, "
             "inputs[{name, type, shape[], dims}], outputs[], labels[], normalisation{mean[], deviation[]} (where a "
             "TFLite file has them), entries (of a file with several entry points; "
             "FILE#NAME is one of them)}]:\n"
             "an open dimension is -1 in shape, its name or ? in dims; shape is missing where the rank is open. Of a "
             "model that cannot run: model, format, error, missing[{operator, nodes[], advice, line (to add to the "
             "list of a build that has one)}], runs_in (a "
             "precision).\n"
             "With --explain also explain[{about, scope, subject, choice, reason}]: of the engine, and of each model; "
             "kernels and buckets for the shapes of --shape and --batch.\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the backend is not available, 4 a model cannot run.",
    .table = table,
    .variables = tool_variables,
};

static void options_json(cJSON *backend, const struct pen_backend_option *options)
{
    cJSON *list = cJSON_AddArrayToObject(backend, "options");
    for (const struct pen_backend_option *o = options; o != NULL && o->name != NULL; o++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", o->name);
        if (o->choices != NULL) {
            cJSON_AddStringToObject(row, "choices", o->choices);
        } else {
            cJSON_AddNumberToObject(row, "least", o->least);
            cJSON_AddNumberToObject(row, "most", o->most);
        }
        cJSON_AddStringToObject(row, "default", o->value);
        cJSON_AddStringToObject(row, "meaning", o->meaning);
        cJSON_AddItemToArray(list, row);
    }
}

static void options_print(const struct pen_backend_info *info)
{
    for (const struct pen_backend_option *o = info->options; o != NULL && o->name != NULL; o++) {
        char range[32];
        snprintf(range, sizeof range, "%u to %u", o->least, o->most);
        printf("  %-10s      option %s.%s (%s, %s): %s\n", "", info->name, o->name,
               o->choices != NULL ? o->choices : range, o->value, o->meaning);
    }
}

static void print_json(const struct pen_backend_info *infos, size_t count, const struct pen_engine *engine,
                       const struct pen_explain *explain)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", version_build());
    cJSON_AddStringToObject(root, "formats", pen_engine_formats());
    cJSON_AddStringToObject(root, "chosen", pen_engine_backend(engine));
    cJSON *list = cJSON_AddArrayToObject(root, "backends");
    for (size_t i = 0; i < count; i++) {
        cJSON *b = cJSON_CreateObject();
        cJSON_AddStringToObject(b, "name", infos[i].name);
        cJSON_AddNumberToObject(b, "priority", infos[i].priority);
        cJSON_AddBoolToObject(b, "available", infos[i].available);
        cJSON_AddStringToObject(b, "reason", infos[i].reason);
        cJSON_AddStringToObject(b, "device", infos[i].device);
        cJSON_AddStringToObject(b, "library", infos[i].library);
        cJSON *precisions = cJSON_AddArrayToObject(b, "precisions");
        for (unsigned p = PEN_PRECISION_F32; p <= PEN_PRECISION_INT8; p++) {
            if ((infos[i].precisions & (1u << p)) != 0) {
                cJSON_AddItemToArray(precisions, cJSON_CreateString(pen_engine_precision_name((enum pen_precision)p)));
            }
        }
        options_json(b, infos[i].options);
        cJSON_AddItemToArray(list, b);
    }
    size_t flag_count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &flag_count);
    cJSON *object = cJSON_AddObjectToObject(root, "flags");
    for (size_t i = 0; i < flag_count; i++) {
        cJSON_AddStringToObject(object, flags[i].name, flags[i].value);
    }
    cJSON *told = cJSON_AddArrayToObject(root, "environment");
    for (size_t i = 0; i < flag_count; i++) {
        cJSON_AddItemToArray(told, tool_flag_json(&flags[i]));
    }
    tool_explain_json(root, explain, 0);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

static void print_text(const struct pen_backend_info *infos, size_t count, const struct pen_engine *engine,
                       const struct pen_explain *explain)
{
    printf("%s\nreads %s\n\nbackends, by priority:\n", version_build(), pen_engine_formats());
    for (size_t i = 0; i < count; i++) {
        printf("  %-10s %3d  %-11s %s%s%s%s\n", infos[i].name, infos[i].priority,
               infos[i].available ? "available" : "unavailable", infos[i].available ? infos[i].device : infos[i].reason,
               infos[i].library[0] != '\0' ? " (" : "", infos[i].library, infos[i].library[0] != '\0' ? ")" : "");
        printf("  %-10s      precisions:", "");
        for (unsigned p = PEN_PRECISION_F32; p <= PEN_PRECISION_INT8; p++) {
            if ((infos[i].precisions & (1u << p)) != 0) {
                printf(" %s", pen_engine_precision_name((enum pen_precision)p));
            }
        }
        printf("\n");
        options_print(&infos[i]);
    }
    printf("\nchosen: %s\nflags:\n", pen_engine_backend(engine));
    size_t flag_count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &flag_count);
    for (size_t i = 0; i < flag_count; i++) {
        printf("  %-24s %-12s %s%s%s\n", flags[i].name, flags[i].value[0] != '\0' ? flags[i].value : "-",
               pen_origin_name(flags[i].origin), flags[i].where[0] != '\0' ? " " : "", flags[i].where);
    }
    tool_explain_print(explain, 0);
}

/* ---- models ---- */

struct port {
    const struct pen_model *model;
    const struct pen_tensor *tensor;
    bool output;
    size_t index;
};

/* "N x 3 x 224 x 224", "? x 10", "scalar", "any rank". */
static const char *dims_text(const struct port *p, char *text, size_t bytes)
{
    const struct pen_tensor *t = p->tensor;
    size_t used = 0;
    if (t->rank == 0) {
        snprintf(text, bytes, "%s", pen_model_ranked(p->model, p->output, p->index) ? "scalar" : "any rank");
    }
    for (uint32_t d = 0; d < t->rank && used < bytes; d++) {
        const char *name = p->output ? NULL : pen_model_symbol(p->model, p->index, d), *x = d > 0 ? " x " : "";
        int more = t->dims[d] >= 0 ? snprintf(text + used, bytes - used, "%s%" PRId64, x, t->dims[d])
                                   : snprintf(text + used, bytes - used, "%s%s", x, name != NULL ? name : "?");
        used += more > 0 ? (size_t)more : 0;
    }
    return text;
}

/* " scale 0.0078 zero 128", or nothing. */
static const char *quant_text(const struct port *p, char *text, size_t bytes)
{
    float scale = 0.0f;
    int32_t zero = 0;
    bool has = p->output ? pen_model_output_quant(p->model, p->index, &scale, &zero)
                         : pen_model_input_quant(p->model, p->index, &scale, &zero);
    text[0] = '\0';
    if (has) {
        snprintf(text, bytes, ", real = (q - %" PRId32 ") x %.6g", zero, (double)scale);
    }
    return text;
}

static void port_print(const struct port *p)
{
    char dims[512], quant[64];
    printf("  %s\t%s\t%s\t%s%s\n", p->output ? "output" : "input", p->tensor->name, pen_dtype_name(p->tensor->dtype),
           dims_text(p, dims, sizeof dims), quant_text(p, quant, sizeof quant));
}

static void port_json(const struct port *p, cJSON *list)
{
    char dims[512];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", p->tensor->name);
    cJSON_AddStringToObject(o, "type", pen_dtype_name(p->tensor->dtype));
    cJSON *shape = pen_model_ranked(p->model, p->output, p->index) ? cJSON_AddArrayToObject(o, "shape") : NULL;
    for (uint32_t d = 0; shape != NULL && d < p->tensor->rank; d++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)p->tensor->dims[d]));
    }
    cJSON_AddStringToObject(o, "dims", dims_text(p, dims, sizeof dims));
    cJSON_AddItemToArray(list, o);
}

/* Both sides of the signature, as lines (list NULL) or into the arrays. */
static void ports_print(const struct pen_model *model, bool output, cJSON *list)
{
    size_t count = 0;
    const struct pen_tensor *tensors = output ? pen_model_outputs(model, &count) : pen_model_inputs(model, &count);
    for (size_t i = 0; i < count; i++) {
        struct port p = {model, &tensors[i], output, i};
        if (list != NULL) {
            port_json(&p, list);
        } else {
            port_print(&p);
        }
    }
}

#define INFO_CHANNELS 16
#define INFO_LABELS   5 /* shown of those that there are */

/* What the file says of its classes and pixels. */
static void notes_text(const struct pen_model *model)
{
    float mean[INFO_CHANNELS], deviation[INFO_CHANNELS];
    size_t bytes = 0, count = pen_model_normalisation(model, mean, deviation, INFO_CHANNELS), lines = 0;
    const char *labels = pen_model_labels(model, &bytes);
    for (size_t i = 0; labels != NULL && i < bytes; i++) {
        lines += labels[i] == '\n' || i + 1 == bytes;
    }
    for (size_t i = 0; i < count; i++) {
        printf("  normalisation\t(pixel - %.6g) / %.6g\n", (double)mean[i], (double)deviation[i]);
    }
    if (lines > 0) {
        printf("  labels\t%zu\t", lines);
    }
    for (size_t i = 0; lines > 0 && i < INFO_LABELS && i < lines; i++) {
        size_t length = strcspn(labels, "\r\n");
        printf("%s%.*s", i > 0 ? ", " : "", (int)(length < 60 ? length : 60), labels);
        labels += length;
        labels += strspn(labels, "\r\n");
    }
    if (lines > 0) {
        printf("%s\n", lines > INFO_LABELS ? ", ..." : "");
    }
}

static void notes_json(const struct pen_model *model, cJSON *item)
{
    float mean[INFO_CHANNELS], deviation[INFO_CHANNELS];
    size_t bytes = 0, count = pen_model_normalisation(model, mean, deviation, INFO_CHANNELS);
    const char *labels = pen_model_labels(model, &bytes);
    if (count > 0) {
        cJSON *told = cJSON_AddObjectToObject(item, "normalisation");
        cJSON_AddItemToObject(told, "mean", cJSON_CreateFloatArray(mean, (int)count));
        cJSON_AddItemToObject(told, "deviation", cJSON_CreateFloatArray(deviation, (int)count));
    }
    cJSON *list = labels != NULL ? cJSON_AddArrayToObject(item, "labels") : NULL;
    for (const char *end = labels != NULL ? labels + bytes : NULL; labels < end;) {
        char text[256];
        size_t length = strcspn(labels, "\r\n");
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), labels);
        cJSON_AddItemToArray(list, cJSON_CreateString(text));
        labels += length;
        labels += *labels == '\r';
        labels += *labels == '\n';
    }
}

static cJSON *model_json(const char *path, const struct pen_model *model)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "model", path);
    cJSON_AddStringToObject(item, "format", pen_model_format(model));
    cJSON_AddStringToObject(item, "precision", pen_engine_precision_name(pen_model_precision(model)));
    cJSON_AddStringToObject(item, "placement", pen_model_placement(model));
    ports_print(model, false, cJSON_AddArrayToObject(item, "inputs"));
    ports_print(model, true, cJSON_AddArrayToObject(item, "outputs"));
    notes_json(model, item);
    char entries[400];
    if (strcmp(pen_model_format(model), "tflite") == 0 && info_entries(path, entries, sizeof entries)) {
        cJSON_AddStringToObject(item, "entries", entries);
    }
    return item;
}

static void model_text(const char *path, const struct pen_model *model)
{
    printf("%s\t%s\t%s\t%s\n", path, pen_model_format(model), pen_engine_precision_name(pen_model_precision(model)),
           pen_model_placement(model));
    ports_print(model, false, NULL);
    ports_print(model, true, NULL);
    notes_text(model);
    char entries[400];
    if (strcmp(pen_model_format(model), "tflite") == 0 && info_entries(path, entries, sizeof entries)) {
        printf("  entries\t%s\tname one as FILE#NAME\n", entries);
    }
}

/* The bucket of some shapes, so that kernels are chosen. What stands in the way is a row of its own. */
static void shapes_explain(struct pen_model *model, const struct info_options *options)
{
    struct pen_tensor inputs[TOOL_INPUTS_MAX];
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    size_t count = 0;
    enum pen_status status =
        tool_inputs(model, &options->shapes, options->batch, inputs, TOOL_INPUTS_MAX, &count, &error);
    if (status == PEN_OK) {
        status = pen_session_new(model, &session, &error);
    }
    if (status == PEN_OK) {
        status = pen_session_bind(session, inputs, count, &error);
    }
    if (status != PEN_OK) {
        fprintf(stderr, "penstock-engine: no shapes to explain kernels for (%s): give --shape name=1x3x224x224\n",
                error.text);
    }
    pen_session_free(session);
}

/* A few lines, or one object of the list, for each model. */
static int models_print(const char *const *paths, size_t count, struct pen_engine *engine,
                        const struct info_options *options, const struct pen_explain *explain)
{
    bool json = options->tool.json;
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "models");
    int code = TOOL_OK;
    for (size_t i = 0; i < count; i++) {
        struct pen_error error = {0};
        size_t first = i == 0 ? 0 : tool_explain_count(explain); /* with the engine's own */
        struct pen_model *model = NULL;
        if (pen_model_load(engine, paths[i], &model, &error) != PEN_OK) {
            code = info_refused(paths[i], &error, &options->tool, options->issue, json ? list : NULL);
            continue;
        }
        if (explain != NULL) {
            shapes_explain(model, options);
        }
        if (options->issue) {
            info_issue(paths[i], model);
        } else if (json) {
            cJSON *item = model_json(paths[i], model);
            tool_explain_json(item, explain, first);
            cJSON_AddItemToArray(list, item);
        } else {
            model_text(paths[i], model);
            tool_explain_print(explain, first);
        }
        pen_model_free(model);
    }
    char *text = json ? cJSON_PrintUnformatted(root) : NULL;
    if (text != NULL) {
        printf("%s\n", text);
    }
    cJSON_free(text);
    cJSON_Delete(root);
    return code;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct info_options *options = from;
    struct pen_engine *engine = NULL;
    struct tool_options tool = options->tool;
    tool.explain = options->explain ? pen_explain_new() : NULL;
    int code = tool_engine(&tool, false, &engine);
    if (engine != NULL && count > 0) {
        code = models_print(paths, count, engine, options, tool.explain);
    } else if (engine != NULL) {
        struct pen_backend_info infos[16];
        struct pen_env *env = NULL;
        code = tool_env(&options->tool, &env);
        size_t backends = code == TOOL_OK ? pen_backends(pen_env_options(env), infos, 16) : 0;
        (options->tool.json ? print_json : print_text)(infos, backends > 16 ? 16 : backends, engine, tool.explain);
        pen_env_free(env);
    }
    pen_engine_free(engine);
    pen_explain_free(tool.explain);
    return code;
}

int cmd_info(int argc, char **argv)
{
    struct info_options options = {0};
    const struct tool_command command = {&program, &options, NULL, MODELS_MAX, run, &options.tool};
    return tool_run(&command, argc, argv);
}
