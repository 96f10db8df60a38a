/* cmd_import.c - `penstock-engine import`: a folder that a worker serves, from a model file. `penstock import` runs it, with the same options. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/internal.h"
#include "tools/import_guess.h"
#include "tools/import_put.h"
#include "tools/tool.h"

#define LABELS_BYTES_MAX (8u * 1024 * 1024)

struct import_options {
    const char *models, *preset, *layout, *size, *labels;
    int64_t version;
    bool force, json;
};

#define AT(field_) .offset = offsetof(struct import_options, field_)
/* client-lib/cli/cmd_import.c has the same table: a test compares them. */
/* clang-format off */
static const struct setting table[] = {
    {.name = "models", .type = SETTING_TEXT, AT(models), .def = "models", .help = "folder of models, the worker's --models; made where it is not there"},
    {.name = "version", .type = SETTING_INT, AT(version), .def = "1", .min = 1, .max = 999999999, .help = "version that the model becomes"},
    {.name = "preset", .type = SETTING_CHOICE, AT(preset), .def = "auto", .choices = "auto|imagenet|tf|caffe|none", .help = "how pixels were scaled in training: imagenet (mean and deviation), tf (-1..1), caffe (BGR less the mean), none (0..255); auto = 0..1, as a guess"},
    {.name = "layout", .type = SETTING_CHOICE, AT(layout), .def = "auto", .choices = "auto|NCHW|NHWC", .help = "order of the dimensions of pictures; auto = by the signature"},
    {.name = "size", .type = SETTING_TEXT, AT(size), .def = "", .help = "WIDTHxHEIGHT of pictures, where the model leaves them open"},
    {.name = "labels", .type = SETTING_TEXT, AT(labels), .def = "", .help = "file with the names of the classes, one a line"},
    {.name = "force", .type = SETTING_FLAG, AT(force), .def = "false", .help = "replace a version that is there"},
    {.name = "json", .type = SETTING_FLAG, AT(json), .def = "false", .help = "print one JSON object"},
    {.name = NULL}};
/* clang-format on */

/* What is about one import alone comes from the command line and the file, not from a shell that was set up for something else. */
static const struct setting_variable variables[] = {{"version", "", settings_old_never},
                                                    {"size", "", settings_old_never},
                                                    {"labels", "", settings_old_never},
                                                    {"layout", "", settings_old_never},
                                                    {"preset", "", settings_old_never},
                                                    {"force", "", settings_old_never},
                                                    {.setting = NULL}};

static const struct settings_program program = {
    .name = "penstock-engine import",
    .usage = "penstock-engine import FILE NAME [options]",
    .about = "Makes a model file (ONNX, TFLite, TensorFlow.js) a model that workers serve: copies it with the files it "
             "names\ninto DIR/NAME/VERSION and writes config.json from what its signature says.\nSays what was seen, "
             "what was guessed, and what only the model's author knows. The model appears whole or not at all.",
    .after = "JSON keys: folder, config, format, files[], seen[], guessed[], unknown[].",
    .table = table,
    .variables = variables,
};

/* ---- what the options say ---------------------------------------------------------------------------------------------------------- */

static bool size_parse(const char *text, struct import_wish *wish)
{
    char end = 0;
    if (*text == '\0') {
        return true;
    }
    return sscanf(text, "%5" SCNu32 "x%5" SCNu32 "%c", &wish->width, &wish->height, &end) == 2 && wish->width > 0 &&
           wish->height > 0 && wish->width <= 65535 && wish->height <= 65535;
}

static size_t lines_count(const char *text, size_t bytes)
{
    size_t lines = 0;
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r')) {
        bytes--;
    }
    for (size_t i = 0; i < bytes; i++) {
        lines += text[i] == '\n';
    }
    return bytes > 0 ? lines + 1 : 0;
}

static enum pen_status labels_fd_read(int fd, const char *path, char **ret_text, size_t *ret_bytes,
                                      struct pen_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > LABELS_BYTES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "--labels %s is not a file of at most %u bytes", path,
                             LABELS_BYTES_MAX);
    }
    size_t size = (size_t)info.st_size, done = 0;
    char *text = malloc(size + 1);
    if (text == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the labels");
    }
    for (ssize_t got = 1; done < size && got > 0; done += got > 0 ? (size_t)got : 0) {
        got = read(fd, text + done, size - done);
    }
    if (done < size || memchr(text, '\0', size) != NULL || lines_count(text, size) == 0) {
        free(text);
        return pen_error_set(reterr, PEN_ERR_INVALID, "--labels %s is not a text with a name per line", path);
    }
    *ret_text = text;
    *ret_bytes = size;
    return PEN_OK;
}

static enum pen_status labels_read(const char *path, struct import_parts *parts, struct import_wish *wish,
                                   struct pen_error *reterr)
{
    char *text = NULL;
    if (*path == '\0') {
        return PEN_OK;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "cannot open --labels %s: %s", path, strerror(errno));
    }
    enum pen_status status = labels_fd_read(fd, path, &text, &parts->labels_size, reterr);
    close(fd);
    parts->labels = text;
    wish->labels = status == PEN_OK ? lines_count(text, parts->labels_size) : 0;
    return status;
}

/* ---- telling ----------------------------------------------------------------------------------------------------------------------- */

static void list_print(const char *what, const cJSON *list)
{
    for (const cJSON *item = list->child; item != NULL; item = item->next) {
        printf("%s %s\n", item == list->child ? what : "        ", item->valuestring);
    }
}

static void text_print(const struct import_parts *parts, const char *folder, const char *config, const char *format,
                       const struct import_guess *g)
{
    printf("%s: %s, %s%s", folder, parts->model, format, parts->file_count > 0 ? " and the files it names" : "");
    printf("\n%s\n%s\n", config, parts->config);
    list_print("seen    ", g->seen);
    list_print("guessed ", g->guessed);
    list_print("unknown ", g->unknown);
    printf("next     penstock-worker --models %s    (one with --watch takes it without a restart)\n", parts->models);
}

static void json_print(const struct import_parts *parts, const char *folder, const char *config, const char *format,
                       const struct import_guess *g)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "folder", folder);
    cJSON_AddStringToObject(root, "config", config);
    cJSON_AddStringToObject(root, "format", format);
    cJSON *files = cJSON_AddArrayToObject(root, "files");
    cJSON_AddItemToArray(files, cJSON_CreateString(parts->model));
    for (size_t i = 0; i < parts->file_count; i++) {
        cJSON_AddItemToArray(files, cJSON_CreateString(parts->files[i].name));
    }
    cJSON_AddItemReferenceToObject(root, "seen", g->seen);
    cJSON_AddItemReferenceToObject(root, "guessed", g->guessed);
    cJSON_AddItemReferenceToObject(root, "unknown", g->unknown);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

/* What the worker looks for in a version's folder (worker/models/model_file.h). */
static const char *worker_name(const char *format)
{
    return strcmp(format, "tflite") == 0 ? "model.tflite" : strcmp(format, "tfjs") == 0 ? "model.json" : "model.onnx";
}

static enum pen_status model_put(const struct import_options *o, const struct pen_model *model,
                                 struct import_parts *parts, const struct import_guess *g, struct pen_error *reterr)
{
    char folder[IMPORT_PATH_BYTES], config[IMPORT_PATH_BYTES];
    char *text = cJSON_Print(g->config);
    if (text == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for config.json");
    }
    parts->model = worker_name(pen_model_format(model));
    parts->bytes = model->source.file;
    parts->size = model->source.bytes;
    parts->files = model->extra.files;
    parts->file_count = model->extra.file_count;
    parts->config = text;
    enum pen_status status = import_put(parts, folder, config, reterr);
    if (status == PEN_OK) {
        (o->json ? json_print : text_print)(parts, folder, config, pen_model_format(model), g);
    }
    cJSON_free(text);
    return status;
}

/* The reference backend takes every model that the engine can read, and packs nothing: this is about the signature. */
static enum pen_status import(const struct import_options *o, const char *file, struct import_parts *parts,
                              const struct import_wish *wish, struct pen_error *reterr)
{
    struct pen_engine_options engine_options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct import_guess guess = {0};
    tool_engine_options(&engine_options);
    engine_options.backend = "reference";
    enum pen_status status = pen_engine_new(&engine_options, &engine, reterr);
    if (status == PEN_OK) {
        status = pen_model_load(engine, file, &model, reterr);
    }
    if (status == PEN_OK) {
        status = import_guess(model, wish, &guess, reterr);
    }
    if (status == PEN_OK) {
        status = model_put(o, model, parts, &guess, reterr);
    }
    import_guess_fini(&guess);
    pen_model_free(model);
    pen_engine_free(engine);
    return status;
}

/* As the other commands of `penstock` tell it. */
static int fail(const struct import_options *o, const struct pen_error *error)
{
    int code = error->status == PEN_ERR_UNSUPPORTED ? TOOL_UNAVAILABLE : TOOL_FAILED;
    fprintf(stderr, "penstock import: %s: %s\n", pen_status_name(error->status), error->text);
    if (!o->json) {
        return code;
    }
    cJSON *root = cJSON_CreateObject(), *object = cJSON_AddObjectToObject(root, "error");
    cJSON_AddStringToObject(object, "code", pen_status_name(error->status));
    cJSON_AddStringToObject(object, "text", error->text);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
    return code;
}

static int usage(const char *sentence)
{
    fprintf(stderr, "penstock import: %s\n", sentence);
    return TOOL_USAGE;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct import_options *o = from;
    struct import_wish wish = {.preset = o->preset, .layout = o->layout};
    struct pen_error error = {0};
    if (count != 2) {
        return usage("name the model file and the model: penstock import FILE NAME");
    }
    if (!size_parse(o->size, &wish)) {
        return usage("--size is WIDTHxHEIGHT in pixels: 224x224");
    }
    struct import_parts parts = {
        .models = o->models, .name = paths[1], .version = (uint64_t)o->version, .force = o->force};
    if (import_name_check(paths[1], &error) != PEN_OK) {
        return usage(error.text);
    }
    enum pen_status status = labels_read(o->labels, &parts, &wish, &error);
    if (status == PEN_OK) {
        status = import(o, paths[0], &parts, &wish, &error);
    }
    free((void *)(uintptr_t)parts.labels);
    return status == PEN_OK ? TOOL_OK : fail(o, &error);
}

int cmd_import(int argc, char **argv)
{
    struct import_options options = {0};
    const struct tool_command command = {&program, &options, NULL, 2, run, NULL};
    return tool_run(&command, argc, argv);
}
