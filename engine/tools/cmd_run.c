#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "classes.h"
#include "tools/case.h"
#include "tools/npy_file.h"
#include "tools/run_classes.h"
#include "tools/run_picture.h"
#include "tools/tool.h"
#include "words.h"

struct run_options {
    struct tool_options tool;
    const char *model, *output_dir, *compare, *labels;
    struct setting_list inputs, shapes;
    double image_scale;
    int64_t top;
    bool strict, profile, check_numerics;
};

static const struct setting table[] = {
    {.name = "model", .type = SETTING_TEXT, .offset = offsetof(struct run_options, model), .help = "model file"},
    {.name = "input",
     .type = SETTING_LIST,
     .offset = offsetof(struct run_options, inputs),
     .help = "name=file of each input: .npy, a picture (PNG, JPEG, BMP) or .bin (raw little-endian)"},
    {.name = "output-dir",
     .type = SETTING_TEXT,
     .offset = offsetof(struct run_options, output_dir),
     .def = ".",
     .help = "where NAME.npy of each output is written"},
    {.name = "shape",
     .type = SETTING_LIST,
     .offset = offsetof(struct run_options, shapes),
     .help = "shape of a .bin input with dynamic dims: name=1x3x224x224"},
    {.name = "image-scale",
     .type = SETTING_NUMBER,
     .offset = offsetof(struct run_options, image_scale),
     .def = "0.00392156862745098",
     .help = "factor on 0..255 for pictures into float inputs"},
    {.name = "labels",
     .type = SETTING_TEXT,
     .offset = offsetof(struct run_options, labels),
     .def = "",
     .help = "file with the names of the classes, one a line, or a config.json that has them"},
    {.name = "top",
     .type = SETTING_INT,
     .offset = offsetof(struct run_options, top),
     .def = "3",
     .max = CLASSES_MAX,
     .help = "classes to show of a picture, or with --labels; 0 = none"},
    {.name = "strict",
     .type = SETTING_FLAG,
     .offset = offsetof(struct run_options, strict),
     .help = "fail unless the backend takes every node"},
    {.name = "profile",
     .type = SETTING_FLAG,
     .offset = offsetof(struct run_options, profile),
     .help = "print the time per node"},
    {.name = "check-numerics",
     .type = SETTING_FLAG,
     .offset = offsetof(struct run_options, check_numerics),
     .help = "fail at the first node that produces a NaN or an infinity"},
    {.name = "compare",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct run_options, compare),
     .def = "none",
     .choices = "none|reference",
     .help = "reference: run every node there, too, and fail at the first that deviates"},
    TOOL_SETTINGS(struct run_options),
#include "tools/tool_flags.def"
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine run",
    .usage = "penstock-engine run --model FILE --input name=file ... --output-dir DIR",
    .about = "Runs a model once on tensors or pictures from files and writes each output as .npy. A picture is resized "
             "as penstock "
             "submit does; of a classifier the best classes are shown.",
    .after = "JSON keys: model, backend, placement, run_ms, outputs[{name, dtype, shape, file}], labels[{output, row, "
             "index, score, label}]; "
             "with --profile nodes[{backend, op, node, us, macs}].",
    .table = table,
    .variables = tool_variables,
};

static bool has_end(const char *path, const char *end)
{
    size_t a = strlen(path);
    size_t b = strlen(end);
    return a > b && strcmp(path + a - b, end) == 0;
}

static const char *file_for(const struct setting_list *inputs, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < inputs->count; i++) {
        if (strncmp(inputs->items[i], name, length) == 0 && inputs->items[i][length] == '=') {
            return inputs->items[i] + length + 1;
        }
    }
    return NULL;
}

/* Whatever its name ends in, a picture is told by its first bytes; a file that is called one must be one. */
static bool called_picture(const char *path)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (has_end(path, ends[i])) {
            return true;
        }
    }
    return false;
}

static enum pen_status input_read(const struct run_options *o, struct rt_arena *arena, struct pen_tensor *t,
                                  bool *picture, struct pen_error *reterr)
{
    const char *path = file_for(&o->inputs, t->name);
    if (path == NULL) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "input '%s' is missing: add --input '%s=FILE'", t->name, t->name);
    }
    if (has_end(path, ".npy")) {
        return npy_read(path, arena, t, reterr);
    }
    void *bytes = NULL;
    size_t size = 0;
    enum pen_status status = case_file(arena, path, &bytes, &size, reterr);
    if (status == PEN_OK && (called_picture(path) || picture_known(bytes, size))) {
        *picture = true;
        return picture_into(bytes, size, path, o->image_scale, arena, t, reterr);
    }
    t->data = bytes;
    t->bytes = size;
    return status;
}

static enum pen_status output_write(const struct run_options *o, const struct pen_tensor *t, cJSON *list,
                                    struct pen_error *reterr)
{
    char path[4096];
    char shape[128];
    char name[256];
    snprintf(name, sizeof name, "%s", t->name);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '/' || *c == ':' ? '_' : *c;
    }
    snprintf(path, sizeof path, "%s/%s.npy", o->output_dir, name);
    enum pen_status status = npy_write(path, t, reterr);
    if (status != PEN_OK) {
        return status;
    }
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "name", t->name);
    cJSON_AddStringToObject(entry, "dtype", pen_dtype_name(t->dtype));
    cJSON_AddStringToObject(entry, "shape", pen_shape_text(t->dims, t->rank, shape, sizeof shape));
    cJSON_AddStringToObject(entry, "file", path);
    cJSON_AddItemToArray(list, entry);
    if (!o->tool.json) {
        printf("%s  %s  %s  -> %s\n", t->name, pen_dtype_name(t->dtype), shape, path);
    }
    return PEN_OK;
}

static void print_json(const struct run_options *o, const struct pen_engine *engine, const struct pen_model *model,
                       struct pen_session *session, double ms, cJSON *list, cJSON *classes)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", o->model);
    cJSON_AddStringToObject(root, "backend", pen_engine_backend(engine));
    cJSON_AddStringToObject(root, "placement", pen_model_placement(model));
    cJSON_AddNumberToObject(root, "run_ms", ms);
    cJSON_AddItemReferenceToObject(root, "outputs", list);
    cJSON_AddItemToObject(root, "labels", classes);
    tool_profile_json(root, session);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

static enum pen_status inputs_known(const struct run_options *o, const struct pen_tensor *inputs, size_t count,
                                    struct pen_error *reterr)
{
    for (size_t i = 0; i < o->inputs.count; i++) {
        bool found = false;
        for (size_t k = 0; k < count && !found; k++) {
            size_t length = strlen(inputs[k].name);
            found = strncmp(o->inputs.items[i], inputs[k].name, length) == 0 && o->inputs.items[i][length] == '=';
        }
        if (!found) {
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                                 "--input %s names no input of the model; its first input is '%s'", o->inputs.items[i],
                                 count > 0 ? inputs[0].name : "(none)");
        }
    }
    return PEN_OK;
}

static enum pen_status run(const struct run_options *o, struct pen_engine *engine, struct rt_arena *arena, cJSON *list,
                           struct pen_error *reterr)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_tensor inputs[TOOL_INPUTS_MAX];
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    size_t output_count = 0;
    bool picture = false;
    struct class_names names = {0};
    cJSON *classes = o->tool.json ? cJSON_CreateArray() : NULL;
    enum pen_status status = class_names_read(o->labels, arena, &names, reterr);
    if (status == PEN_OK) {
        status = pen_model_load(engine, o->model, &model, reterr);
    }
    if (status == PEN_OK) {
        status = tool_inputs(model, &o->shapes, 1, inputs, TOOL_INPUTS_MAX, &count, reterr);
    }
    if (status == PEN_OK) {
        status = inputs_known(o, inputs, count, reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        status = input_read(o, arena, &inputs[i], &picture, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_new(model, &session, reterr);
    }
    if (status == PEN_OK) {
        pen_session_profile(session, o->profile);
    }
    uint64_t start = tool_now_ns();
    if (status == PEN_OK) {
        status = pen_session_run(session, inputs, count, NULL, &outputs, &output_count, reterr);
    }
    double ms = (double)(tool_now_ns() - start) / 1e6;
    if (status == PEN_OK && pen_session_note(session)[0] != '\0') {
        fprintf(stderr, "penstock-engine: %s\n", pen_session_note(session));
    }
    for (size_t i = 0; status == PEN_OK && i < output_count; i++) {
        status = output_write(o, &outputs[i], list, reterr);
    }
    if (status == PEN_OK && (picture || *o->labels != '\0') && o->top > 0) {
        status = classes_show(outputs, output_count, &names, (size_t)o->top, classes, reterr);
    }
    if (status == PEN_OK && o->tool.json) {
        print_json(o, engine, model, session, ms, list, classes);
        classes = NULL;
    } else if (status == PEN_OK) {
        char took[TOOL_TIME_BYTES];
        printf("%s in %s on %s\n", o->model, tool_time_text(ms, took, sizeof took), pen_model_placement(model));
        if (pen_session_compared(session) > 0) {
            printf("%" PRIu64 " %s with reference\n", pen_session_compared(session),
                   words_plural(pen_session_compared(session), "node agrees", "nodes agree"));
        }
        tool_profile_print(session);
    }
    cJSON_Delete(classes);
    pen_session_free(session);
    pen_model_free(model);
    return status;
}

static int run_command(void *from, const char *const *paths, size_t count)
{
    const struct run_options *options = from;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    (void)paths, (void)count;
    if (mkdir(options->output_dir, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "penstock-engine: cannot make folder %s: %s\n", options->output_dir, strerror(errno));
        return TOOL_FAILED;
    }
    struct tool_options tool = options->tool;
    tool.profile_nodes = options->profile;
    tool.check_numerics = options->check_numerics;
    tool.compare_reference = strcmp(options->compare, "reference") == 0;
    int code = tool_engine(&tool, options->strict, &engine);
    if (code == TOOL_OK) {
        struct rt_arena arena;
        rt_arena_init(&arena, (uint64_t)8 << 30);
        cJSON *list = cJSON_CreateArray();
        if (run(options, engine, &arena, list, &error) != PEN_OK) {
            code = tool_fail(&error);
        }
        cJSON_Delete(list);
        rt_arena_fini(&arena);
    }
    pen_engine_free(engine);
    return code;
}

int cmd_run(int argc, char **argv)
{
    struct run_options options = {0};
    const struct tool_command command = {&program, &options, &options.model, 0, run_command, &options.tool};
    return tool_run(&command, argc, argv);
}
