/*
 * case_run FILE BACKEND [open] - runs every case of a file (one JSON line each: a small model, its inputs, the answers of the format's own runtime) and
 * compares. open: the inputs' dimensions are not told to the importer. Prints what fails and a line of counts; exit status 1 when something failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_model.h"
#include "case_tensor.h"
#include "folder.h"
#include "penstock/engine.h"

#define ENDS_MAX 16

struct run {
    struct pen_engine *engine;
    const char *folder;
    bool open;
    unsigned passed, failed;
};

static void report(struct run *r, const cJSON *line, const char *what)
{
    printf("%s: %s\n", cJSON_GetStringValue(cJSON_GetObjectItem(line, "n")), what);
    r->failed++;
}

/* Two errors may be told apart by the file: "tol": [absolute, relative]. */
static void tolerance(const cJSON *line, double *absolute, double *relative)
{
    const cJSON *given = cJSON_GetObjectItem(line, "tol");
    *absolute = given ? cJSON_GetArrayItem(given, 0)->valuedouble : 1e-5;
    *relative = given ? cJSON_GetArrayItem(given, 1)->valuedouble : 1e-4;
}

static bool outputs_check(struct run *r, const cJSON *line, const struct pen_tensor *out, size_t outs)
{
    const cJSON *json;
    double absolute, relative;
    size_t position = 0;
    tolerance(line, &absolute, &relative);
    cJSON_ArrayForEach(json, cJSON_GetObjectItem(line, "out"))
    {
        struct case_tensor want;
        char text[256], all[400];
        case_tensor_init(&want, json);
        const struct pen_tensor *got = position < outs ? &out[position] : NULL;
        position++;
        bool real = want.tensor.dtype == PEN_DTYPE_F32 || cJSON_GetObjectItem(line, "tol") != NULL;
        bool same =
            got && case_tensor_same(got, &want.tensor, real ? absolute : 0, real ? relative : 0, text, sizeof text);
        snprintf(all, sizeof all, "output %s: %s", want.tensor.name, got ? text : "there is none");
        case_tensor_fini(&want);
        if (!same) {
            report(r, line, all);
            return false;
        }
    }
    return true;
}

static void session_run(struct run *r, const cJSON *line, struct pen_model *m)
{
    struct pen_error error = {0};
    struct pen_session *session = NULL;
    struct case_tensor in[ENDS_MAX];
    struct pen_tensor feeds[ENDS_MAX];
    const struct pen_tensor *out = NULL;
    const cJSON *json;
    size_t outs = 0, count = 0;
    cJSON_ArrayForEach(json, cJSON_GetObjectItem(line, "in"))
    {
        if (count == ENDS_MAX)
            exit(2);
        case_tensor_init(&in[count], json);
        feeds[count] = in[count].tensor;
        count++;
    }
    enum pen_status status = pen_session_new(m, &session, &error);
    if (status == PEN_OK)
        status = pen_session_run(session, feeds, count, NULL, &out, &outs, &error);
    if (status != PEN_OK)
        report(r, line, error.text);
    else if (outputs_check(r, line, out, outs))
        r->passed++;
    pen_session_free(session);
    for (size_t i = 0; i < count; i++)
        case_tensor_fini(&in[i]);
}

static void case_try(struct run *r, const char *text)
{
    cJSON *line = cJSON_Parse(text);
    char path[FOLDER_PATH_BYTES + 32];
    struct pen_error error = {0};
    struct pen_model *m = NULL;
    if (!line) {
        printf("a line that is no JSON: %.60s\n", text);
        r->failed++;
        return;
    }
    case_model_write(line, r->folder, r->open, path, sizeof path);
    if (pen_model_load(r->engine, path, &m, &error) == PEN_OK)
        session_run(r, line, m);
    else
        report(r, line, error.text);
    pen_model_free(m);
    cJSON_Delete(line);
}

/* The cases' models as files of their own, CASES-NUMBER.json or .tflite: seeds for the fuzz targets. */
static int models_write(const char *to, const char *cases)
{
    char path[FOLDER_PATH_BYTES + 32], name[FOLDER_PATH_BYTES], *rest = NULL;
    char *text = file_read(cases, &(size_t){0});
    const char *base = strrchr(cases, '/') ? strrchr(cases, '/') + 1 : cases;
    unsigned number = 0;
    folder_new(name);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        cJSON *json = cJSON_Parse(line);
        char file[4096];
        case_model_write(json, name, false, path, sizeof path);
        snprintf(file, sizeof file, "%.3000s/%.*s-%u%s", to, (int)strcspn(base, "."), base, number++,
                 strrchr(path, '.'));
        file_copy(path, file);
        cJSON_Delete(json);
    }
    folder_free(name);
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    char folder[FOLDER_PATH_BYTES];
    struct pen_engine_options options;
    struct pen_error error = {0};
    size_t size;
    if (argc == 4 && strcmp(argv[1], "--models") == 0) {
        return models_write(argv[2], argv[3]);
    }
    if (argc < 3) {
        fprintf(stderr, "case_run FILE BACKEND [open] | case_run --models FOLDER FILE\n");
        return 2;
    }
    char *text = file_read(argv[1], &size), *rest = NULL;
    struct run r = {.open = argc > 3 && strcmp(argv[3], "open") == 0, .folder = folder};
    pen_engine_options_init(&options);
    options.backend = argv[2];
    if (pen_engine_new(&options, &r.engine, &error) != PEN_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    folder_new(folder);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        case_try(&r, line);
    printf("%s on %s: %u passed, %u failed\n", argv[1], argv[2], r.passed, r.failed);
    folder_free(folder);
    pen_engine_free(r.engine);
    free(text);
    return r.failed || r.passed == 0 ? 1 : 0;
}
