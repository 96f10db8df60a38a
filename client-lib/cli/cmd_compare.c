/* cmd_compare.c - `penstock compare MODEL:1 MODEL:2 DATA...`: the same inputs through two versions, their answers side by side. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "compare/agreement.h"
#include "inputs.h"
#include "request.h"

#define WORDS_MAX      4096u
#define FILES_MAX      65536u
#define NAME_MAX_BYTES 256u

struct options {
    struct common common;
    struct request_settings request;
    int64_t count;
    bool each;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    REQUEST_SETTINGS(struct options, request),
    {.name = "count",
     .type = SETTING_INT,
     .offset = offsetof(struct options, count),
     .def = "0",
     .max = 1000000,
     .help = "without files: so many jobs of seeded random inputs"},
    {.name = "each",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, each),
     .def = "false",
     .help = "a line for each file, too"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock compare",
    .usage = "penstock compare MODEL:VERSION MODEL:VERSION FILE|FOLDER... [options]",
    .about =
        "Runs each file through both versions, one after the other, never from the cache, and says how far the answers "
        "are apart.\nA version may be a label, such as digits:canary. Errors are relative to the range of the first "
        "version's output.",
    .after = "JSON: {\"first\": {model, version, failed, p50_us, p90_us, p99_us}, \"second\": {the same}, \"pairs\", "
             "\"largest_error\",\n\"mean_error\" (null: infinite), \"unlike\" (pairs whose outputs have other names, "
             "types or "
             "dims), \"rows\", \"top1_agreement\",\n\"files\": [{file, status, error, largest_error, mean_error, rows, "
             "same}] "
             "(with --each)}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

/* One of the two. */
struct side {
    char name[NAME_MAX_BYTES], label[65];
    uint64_t version;
    const struct pen_model *model;
};

struct comparison {
    const struct options *o;
    pen_client *client;
    struct side sides[2];
    struct agreement sums;
    cJSON *files; /* with --each and --json */
    int exit;
};

/* ---- what to compare ---- */

/* "digits:2", "digits:canary" */
static bool side_parse(const char *word, struct side *side)
{
    const char *colon = strrchr(word, ':');
    char *end = NULL;
    if (!colon || colon == word || !colon[1] || (size_t)(colon - word) >= sizeof side->name ||
        strlen(colon + 1) >= sizeof side->label) {
        return false;
    }
    memcpy(side->name, word, (size_t)(colon - word));
    side->version = strtoull(colon + 1, &end, 10);
    if (*end) {
        side->version = 0;
        memcpy(side->label, colon + 1, strlen(colon + 1) + 1);
    }
    return *end || side->version > 0;
}

/* The version that carries the label. */
static const struct pen_model *labelled(const struct pen_model_list *models, const struct side *side)
{
    for (size_t i = 0; i < models->count; i++) {
        const struct pen_model *model = models->models[i];
        for (size_t j = 0; strcmp(model->name, side->name) == 0 && j < model->version_labels_count; j++) {
            if (strcmp(model->version_labels[j].label, side->label) == 0) {
                return model;
            }
        }
    }
    return NULL;
}

static enum pen_status side_find(const struct pen_model_list *models, struct side *side, struct pen_error *reterr)
{
    side->model = *side->label ? labelled(models, side) : model_find(models, side->name, side->version);
    if (side->model) {
        side->version = side->model->version;
        return PEN_OK;
    }
    return *side->label ? pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                                        "no version of model \"%s\" carries the label \"%s\"; penstock models lists "
                                        "what there is.",
                                        side->name, side->label)
                        : model_missing(models, side->name, side->version, reterr);
}

/* ---- one input ---- */

/* NULL: it could not be submitted, and *reterr says why. */
static pen_result *run_one(const struct comparison *c, const struct side *side, const struct inputs *inputs,
                           struct pen_error *reterr)
{
    struct request request;
    pen_job *job = NULL;
    pen_result *result = NULL;
    if (request_make(&c->o->request, &request, reterr) != PEN_OK) {
        return NULL;
    }
    request.options.model = side->name;
    request.options.version = side->version;
    request.options.inputs = inputs->tensors;
    request.options.inputs_count = inputs->count;
    request.options.flags |= PEN_JOB_NO_CACHE;
    if (pen_client_submit(c->client, &request.options, &job, reterr) != PEN_OK) {
        return NULL;
    }
    (void)pen_job_wait(job, PEN_FOREVER, &result, reterr);
    pen_job_free(job);
    return result;
}

static void number_add(cJSON *json, const char *name, double value)
{
    if (isfinite(value)) {
        cJSON_AddNumberToObject(json, name, value);
    } else {
        cJSON_AddNullToObject(json, name);
    }
}

static void each_tell(const struct comparison *c, const char *what, const struct agreement_pair *pair,
                      enum pen_status status, const char *error)
{
    if (c->files) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "file", what);
        cJSON_AddStringToObject(json, "status", pen_status_name(status));
        cJSON_AddStringToObject(json, "error", error);
        number_add(json, "largest_error", pair->largest);
        number_add(json, "mean_error", pair->mean);
        cJSON_AddNumberToObject(json, "rows", (double)pair->rows);
        cJSON_AddNumberToObject(json, "same", (double)pair->same);
        cJSON_AddItemToArray(c->files, json);
    } else if (c->o->each && status == PEN_OK) {
        printf("%s  largest error %.3g, mean %.3g, first class the same in %" PRIu64 " of %" PRIu64 "\n", what,
               pair->largest, pair->mean, pair->same, pair->rows);
    }
    if (status != PEN_OK) {
        fprintf(stderr, "penstock: %s: %s: %s\n", what, pen_status_name(status), error);
    }
}

static void failed_tell(struct comparison *c, const char *what, enum pen_status status, const char *text)
{
    struct agreement_pair none = {.comparable = false};
    int code = command_exit_of_answer(status);
    each_tell(c, what, &none, status, text);
    c->exit = code > c->exit ? code : c->exit;
}

/* The versions take turns at being first, so that neither has the warmer caches. */
static void compare_one(struct comparison *c, const char *what, const struct inputs *inputs)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct agreement_pair pair;
    pen_result *results[2] = {NULL, NULL};
    size_t turn = (c->sums.pairs + c->sums.failed[0] + c->sums.failed[1]) % 2;
    for (size_t i = 0; i < 2 && error.status == PEN_OK; i++) {
        results[(i + turn) % 2] = run_one(c, &c->sides[(i + turn) % 2], inputs, &error);
    }
    if (!results[0] || !results[1]) {
        failed_tell(c, what, error.status ? error.status : PEN_ERR_NO_MEMORY, error.text);
    } else if (!agreement_add(&c->sums, results[0], results[1], &pair)) {
        failed_tell(c, what, PEN_ERR_NO_MEMORY, "no memory for the times");
    } else {
        const pen_result *bad = pen_result_status(results[0]) != PEN_OK ? results[0] : results[1];
        if (pen_result_status(bad) != PEN_OK) {
            failed_tell(c, what, pen_result_status(bad), pen_result_error(bad));
        } else {
            each_tell(c, what, &pair, PEN_OK, pair.comparable ? "" : "the outputs are not alike");
        }
    }
    pen_result_free(results[0]);
    pen_result_free(results[1]);
}

static void compare_file(struct comparison *c, const char *file)
{
    struct inputs inputs = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    enum pen_status status = inputs_add_list(&inputs, c->sides[0].model, &c->o->request.inputs, &error);
    if (status == PEN_OK && file) {
        status = inputs_add_file(&inputs, c->sides[0].model, NULL, file, &error);
    }
    if (status == PEN_OK) {
        compare_one(c, file ? file : c->sides[0].name, &inputs);
    } else {
        failed_tell(c, file ? file : c->sides[0].name, status, error.text);
    }
    inputs_fini(&inputs);
}

static void compare_random(struct comparison *c)
{
    for (int64_t i = 0; i < c->o->count; i++) {
        struct inputs inputs = {.count = 0};
        struct pen_error error = {.status = PEN_OK, .text = ""};
        char what[48];
        snprintf(what, sizeof what, "random %" PRId64, i + 1);
        if (inputs_generate(&inputs, c->sides[0].model, &error) == PEN_OK) {
            inputs_vary(&inputs, (uint64_t)i);
            compare_one(c, what, &inputs);
        } else {
            failed_tell(c, what, error.status, error.text);
        }
        inputs_fini(&inputs);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A file, or all files of a folder in the order of their names. */
static void compare_path(struct comparison *c, const char *path)
{
    struct stat info;
    struct dirent **items = NULL;
    int count = stat(path, &info) == 0 && S_ISDIR(info.st_mode) ? scandir(path, &items, NULL, by_name) : -1;
    if (count < 0) {
        compare_file(c, path);
        return;
    }
    for (int i = 0; i < count; i++) {
        char file[4096];
        bool fits = (size_t)snprintf(file, sizeof file, "%s/%s", path, items[i]->d_name) < sizeof file;
        if (fits && i < (int)FILES_MAX && items[i]->d_name[0] != '.' && stat(file, &info) == 0 &&
            S_ISREG(info.st_mode)) {
            compare_file(c, file);
        }
        free(items[i]);
    }
    free(items);
}

/* ---- what came out ---- */

static cJSON *side_json(struct comparison *c, unsigned which)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", c->sides[which].name);
    cJSON_AddNumberToObject(json, "version", (double)c->sides[which].version);
    cJSON_AddNumberToObject(json, "failed", (double)c->sums.failed[which]);
    cJSON_AddNumberToObject(json, "p50_us", (double)agreement_quantile(&c->sums, which, 0.5));
    cJSON_AddNumberToObject(json, "p90_us", (double)agreement_quantile(&c->sums, which, 0.9));
    cJSON_AddNumberToObject(json, "p99_us", (double)agreement_quantile(&c->sums, which, 0.99));
    return json;
}

static int print_json(struct comparison *c)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "first", side_json(c, 0));
    cJSON_AddItemToObject(json, "second", side_json(c, 1));
    cJSON_AddNumberToObject(json, "pairs", (double)c->sums.pairs);
    number_add(json, "largest_error", c->sums.largest);
    number_add(json, "mean_error", agreement_mean(&c->sums));
    cJSON_AddNumberToObject(json, "unlike", (double)c->sums.shapes);
    cJSON_AddNumberToObject(json, "rows", (double)c->sums.rows);
    cJSON_AddNumberToObject(json, "top1_agreement", agreement_top(&c->sums));
    if (c->files) {
        cJSON_AddItemToObject(json, "files", c->files);
    }
    return command_print(json);
}

static void print_text(struct comparison *c)
{
    char p50[AMOUNT_BYTES], p99[AMOUNT_BYTES];
    for (unsigned i = 0; i < 2; i++) {
        printf("%s:%" PRIu64 "  p50 %s, p99 %s, %" PRIu64 " failed\n", c->sides[i].name, c->sides[i].version,
               amount_us(agreement_quantile(&c->sums, i, 0.5), p50),
               amount_us(agreement_quantile(&c->sums, i, 0.99), p99), c->sums.failed[i]);
    }
    printf("%" PRIu64 " pairs: largest error %.3g, mean %.3g", c->sums.pairs, c->sums.largest,
           agreement_mean(&c->sums));
    if (c->sums.shapes > 0) {
        printf("; outputs of %" PRIu64 " pairs are not alike", c->sums.shapes);
    }
    if (c->sums.rows > 0) {
        printf("; first class the same in %" PRIu64 " of %" PRIu64 " rows (%.2f %%)", c->sums.same, c->sums.rows,
               100 * agreement_top(&c->sums));
    }
    printf("\n");
}

static int compare(struct comparison *c, const char *const *paths, size_t count)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct pen_model_list *models = NULL;
    enum pen_status status = command_models_wait(&c->o->common, c->client, &models, &error);
    for (size_t i = 0; i < 2 && status == PEN_OK; i++) {
        status = side_find(models, &c->sides[i], &error);
    }
    if (status != PEN_OK) {
        pen_client_models_free(models);
        return command_fail(&c->o->common, &error);
    }
    c->files = c->o->common.json && c->o->each ? cJSON_CreateArray() : NULL;
    for (size_t i = 0; i < count; i++) {
        compare_path(c, paths[i]);
    }
    if (count == 0 && c->o->request.inputs.count > 0) {
        compare_file(c, NULL);
    } else if (count == 0) {
        compare_random(c);
    }
    pen_client_models_free(models);
    int code = EXIT_OK;
    if (c->o->common.json) {
        code = print_json(c);
    } else {
        print_text(c);
    }
    return code > c->exit ? code : c->exit;
}

int command_compare(int argc, char **argv)
{
    static const char *words[WORDS_MAX];
    struct options options;
    struct comparison c = {.o = &options};
    struct command_line line = {.argc = argc, .argv = argv, .words = words, .words_max = WORDS_MAX};
    if (!command_settings(&program, &line, &options)) {
        return line.exit;
    }
    bool data = line.count > 2 || options.request.inputs.count > 0 || options.count > 0;
    if (line.count < 2 || !data || !side_parse(words[0], &c.sides[0]) || !side_parse(words[1], &c.sides[1])) {
        fprintf(stderr, "penstock compare: name two versions, as digits:1 digits:2, and files, a folder, --input "
                        "NAME=FILE or --count N; penstock models lists what there is.\n");
        settings_free(line.store);
        return EXIT_USAGE;
    }
    int code = EXIT_OK;
    c.client = command_connect_for_jobs(&options.common, program.name,
                                        options.request.tell_drain ? DRAIN_TELLS : DRAIN_WAITS, &code);
    if (c.client) {
        code = compare(&c, words + 2, line.count - 2);
    }
    agreement_fini(&c.sums);
    pen_client_free(c.client);
    settings_free(line.store);
    return code;
}
