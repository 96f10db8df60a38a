/*
 * cmd_import.c - `penstock import`: a model file becomes a model that workers serve.
 *
 * Reading models is the engine's work, and this program has no engine: it runs `penstock-engine import`, which lies beside it or in PATH, with
 * the options that were given.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static char ENGINE[] = "penstock-engine";

struct options {
    const char *models, *preset, *layout, *size, *labels;
    int64_t version;
    bool force, json;
};

#define AT(field_) .offset = offsetof(struct options, field_)
/* engine/tools/cmd_import.c has the same table: a test compares them. */
/* clang-format off */
static const struct setting settings[] = {
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
    .name = "penstock import",
    .usage = "penstock import FILE NAME [--preset imagenet|tf|caffe|none] [--labels FILE] [options]",
    .about = "Makes a model file (ONNX, TFLite, TensorFlow.js) a model that workers serve: copies it with the files it "
             "names\ninto DIR/NAME/VERSION and writes config.json from what its signature says.\nSays what was seen, "
             "what was guessed, and what only the model's author knows. The model appears whole or not at all.\nIt "
             "runs penstock-engine, which lies beside it or in PATH; no broker is asked.",
    .after = "JSON: {folder, config, format, files: [...], seen: [...], guessed: [...], unknown: [...]}\n\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 this build of the engine cannot run the model.",
    .table = settings,
    .variables = variables,
};

/* Beside this program first: of two installations it is the one that belongs to it. Returns only when there is none. */
static int engine_run(char **argv)
{
    char path[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - sizeof ENGINE);
    if (bytes > 0) {
        path[bytes] = '\0';
        strcpy(strrchr(path, '/') + 1, ENGINE);
        if (access(path, X_OK) == 0) {
            execv(path, argv);
        }
    }
    execvp(ENGINE, argv);
    fprintf(stderr,
            "penstock import: penstock-engine cannot be run: %s. It reads the model, and lies neither beside this "
            "program nor in PATH: install the package penstock-engine, or build the target of that name\n",
            strerror(errno));
    return EXIT_JOB_FAILED;
}

int command_import(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *named[2] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&program, argc, argv, named, 2}, &options, &count, &store, &code)) {
        return code;
    }
    settings_free(store);
    if (count != 2) {
        fprintf(stderr, "penstock import: name the model file and the model: penstock import FILE NAME\n");
        return EXIT_USAGE;
    }
    char **words = calloc((size_t)argc + 2, sizeof *words); /* penstock-engine import FILE NAME ... NULL */
    if (words == NULL) {
        fprintf(stderr, "penstock import: no memory for the arguments\n");
        return EXIT_JOB_FAILED;
    }
    words[0] = ENGINE;
    memcpy(words + 1, argv, (size_t)argc * sizeof *words);
    code = engine_run(words);
    free(words);
    return code;
}
