/* cmd_model.c - `penstock model`: models at run time (load, unload, label, shadow), and between machines (remote.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "remote.h"

#define WORDS_MAX 65

struct options {
    struct common common;
    int64_t wait_us;
    const char *share, *errors, *latency, *disagreement;
    int64_t back, after;
    struct remote_options remote;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "wait",
     .type = SETTING_DURATION,
     .offset = offsetof(struct options, wait_us),
     .def = "2min",
     .help = "how long the workers may take to load or unload"},
    {.name = "share",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, share),
     .def = "0",
     .help = "with label: how many of the jobs that name no version go there, such as 0.05 or 5%; with shadow: how "
             "many jobs are copied"},
    {.name = "back",
     .type = SETTING_INT,
     .offset = offsetof(struct options, back),
     .def = "0",
     .help = "with shadow and --label: the version that it moves to"},
    {.name = "after",
     .type = SETTING_INT,
     .offset = offsetof(struct options, after),
     .def = "100",
     .min = 1,
     .max = 1000000000,
     .help = "with shadow and --label: nothing is judged before so many jobs"},
    {.name = "max-errors",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, errors),
     .def = "0",
     .help = "with shadow and --label: share of the version's jobs that may fail, such as 2%; 0 = any"},
    {.name = "max-latency",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, latency),
     .def = "0",
     .help = "with shadow and --label: copies may take so many times as long as their originals; 0 = any"},
    {.name = "max-disagreement",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, disagreement),
     .def = "0",
     .help = "with shadow and --label: share of answers that may differ (another first class, other outputs); 0 = any"},
    REMOTE_SETTINGS(struct options),
    {.name = NULL},
};

/* PENSTOCK_WAIT is how long `penstock fetch` waits. */
static const struct setting_variable variables[] = {
    {"wait", "PENSTOCK_MODEL_WAIT", settings_old_never}, REMOTE_VARIABLES, {.setting = NULL}};

static const struct settings_program program = {
    .name = "penstock model",
    .usage = "penstock model load|unload NAME[:VERSION] [options]\n"
             "       penstock model label NAME LABEL VERSION|none [--remote] [options]\n"
             "       penstock model shadow NAME VERSION|none --share 10% [options]\n"
             "       penstock model shadow NAME\n"
             "       penstock model push DIR --to REGISTRY [--as NAME[@VERSION]] [--label LABEL] [options]\n"
             "       penstock model pull NAME[@VERSION|:LABEL]... --registry REGISTRY [--to DIR] [options]\n"
             "       penstock model list [--remote] [options]",
    .about = "load: workers (re)load the model from their folders; what serves goes on until the new one is warm, and "
             "when it cannot be loaded. unload: they take it out of service; jobs that run are finished. label: jobs "
             "that name no version go to \"stable\", a share of them to other labels; --version-label asks for one. "
             "Brokers that "
             "share a Redis share labels. shadow: a share of the jobs is copied to that version, the answers are "
             "compared, and "
             "nobody gets those of the copies; without a version it says what came out. Each broker copies its own "
             "jobs.\n"
             "push: a model's folder (NAME/, or NAME/VERSION/) into a registry: a folder, or a bucket with the keys of "
             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. pull: models of a registry into the store, and with --to "
             "into a folder of models; each file is compared with its SHA-256. NAME alone is the highest version, "
             "NAME@sha256:DIGEST one content for ever. list: the models of the store, or with --remote of the "
             "registry. These ask no broker.",
    .after =
        "JSON: {\"outcomes\": [{worker, status, error}]}, or {\"label\": LABEL, \"version\": "
        "VERSION}, or of shadow {version, share_ppm, copied, skipped, failed,\ncompared, unlike, rows, same, "
        "largest_error, mean_error, disagreement, original_us, shadow_us, went_back}. push: {model, version, digest, "
        "label, files, bytes, sent_bytes}. pull: {\"models\": [{model, "
        "version,\ndigest, bytes, registry_bytes, workers_bytes, host_bytes, store_bytes, registry_reached}]}. "
        "list: {store or registry,\n\"models\": [...]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
    .variables = variables,
};

static cJSON *outcome_json(const struct pen_outcome *one)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "worker", one->worker);
    cJSON_AddStringToObject(item, "status", pen_status_name(one->status));
    cJSON_AddStringToObject(item, "error", one->error);
    return item;
}

static void outcomes_show(const struct options *o, const struct pen_outcome_list *list)
{
    cJSON *json = o->common.json ? cJSON_CreateObject() : NULL;
    cJSON *array = json ? cJSON_AddArrayToObject(json, "outcomes") : NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_outcome *one = &list->outcomes[i];
        if (json) {
            cJSON_AddItemToArray(array, outcome_json(one));
        } else {
            printf("%s  %s%s%s\n", one->worker, pen_status_name(one->status), *one->error ? ": " : "", one->error);
        }
    }
    if (json) {
        command_print(json);
    }
}

static int order(const struct options *o, pen_client *client, const char *verb, const char *model)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct pen_outcome_list *list = NULL;
    enum pen_status status = strcmp(verb, "load") == 0
                                 ? pen_client_model_load(client, model, o->wait_us, &list, &error)
                                 : pen_client_model_unload(client, model, o->wait_us, &list, &error);
    if (list) {
        outcomes_show(o, list);
    } else if (status != PEN_OK) {
        command_fail(&o->common, &error);
    }
    pen_outcomes_free(list);
    return status == PEN_OK ? EXIT_OK : status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(status);
}

/* 0..1; -1: it is no number. */
static double share_parse(const char *text)
{
    char *end;
    double share = strtod(text, &end);
    if (end == text || (*end && strcmp(end, "%") != 0)) {
        return -1.0;
    }
    return *end ? share / 100.0 : share;
}

static int label_told(const struct options *o, const char *const *words, uint64_t version)
{
    if (o->common.json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "label", words[2]);
        cJSON_AddNumberToObject(json, "version", (double)version);
        return command_print(json);
    }
    printf("%s: %s is %s%s\n", words[1], words[2], version ? "version " : "taken back", version ? words[3] : "");
    return EXIT_OK;
}

static int label(const struct options *o, pen_client *client, const char *const *words)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    char *end = NULL;
    bool none = strcmp(words[3], "none") == 0;
    uint64_t version = none ? 0 : strtoull(words[3], &end, 10);
    if (!none && (*end || version == 0)) {
        fprintf(stderr,
                "penstock model: %s is no version; versions are numbers from 1, \"none\" takes the label back.\n",
                words[3]);
        return EXIT_USAGE;
    }
    enum pen_status status = pen_client_model_label(client, words[1], words[2], version, share_parse(o->share),
                                                    o->common.timeout_us, &error);
    if (status == PEN_OK) {
        return label_told(o, words, version);
    }
    command_fail(&o->common, &error);
    return status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(status);
}

typedef int remote_verb(const struct common *common, const struct remote_options *o, const char *const *words,
                        size_t count);

/* The verbs that ask no broker; NULL: it is another one. */
static remote_verb *remote_find(const struct options *o, const char *const *words, size_t count)
{
    static const struct {
        const char *name;
        remote_verb *run;
    } verbs[] = {{"push", remote_push}, {"pull", remote_pull}, {"list", remote_list}};
    for (size_t i = 0; count > 0 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(words[0], verbs[i].name) == 0) {
            return verbs[i].run;
        }
    }
    return o->remote.remote && count == 4 && strcmp(words[0], "label") == 0 ? remote_label : NULL;
}

/* ---- shadow ---- */

static int shadow_told(const struct options *o, pen_client *client, const char *model)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    char *text = NULL;
    enum pen_status status = pen_client_model_shadow_told(client, model, o->common.timeout_us, &text, &error);
    if (status != PEN_OK) {
        command_fail(&o->common, &error);
        return command_exit_of(status);
    }
    cJSON *json = cJSON_Parse(text), *item;
    pen_text_free(text);
    if (o->common.json && json) {
        return command_print(json);
    }
    cJSON_ArrayForEach(item, json)
    {
        char *value = cJSON_PrintUnformatted(item);
        printf("%-14s %s\n", item->string, value ? value : "");
        cJSON_free(value);
    }
    cJSON_Delete(json);
    return EXIT_OK;
}

static int shadow_set(const struct options *o, pen_client *client, const char *const *words)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    char *end = NULL;
    bool none = strcmp(words[2], "none") == 0;
    uint64_t version = none ? 1 : strtoull(words[2], &end, 10);
    double share = none ? 0 : share_parse(o->share);
    struct pen_shadow_guard guard = {.label = o->remote.label,
                                     .back = (uint64_t)o->back,
                                     .errors = share_parse(o->errors),
                                     .latency = share_parse(o->latency),
                                     .disagreement = share_parse(o->disagreement),
                                     .after = (uint32_t)o->after};
    if (!none && (*end || version == 0 || share <= 0)) {
        fprintf(stderr,
                "penstock model: shadow takes a version, from 1, and --share, such as 10%%; \"none\" ends it.\n");
        return EXIT_USAGE;
    }
    enum pen_status status = pen_client_model_shadow(
        client, words[1], version, share, *o->remote.label && !none ? &guard : NULL, o->common.timeout_us, &error);
    if (status != PEN_OK) {
        command_fail(&o->common, &error);
        return status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(status);
    }
    return none ? EXIT_OK : shadow_told(o, client, words[1]);
}

static int act(const struct options *o, const char *const *words, size_t count)
{
    bool orders = count == 2 && (strcmp(words[0], "load") == 0 || strcmp(words[0], "unload") == 0);
    bool shadows = (count == 2 || count == 3) && strcmp(words[0], "shadow") == 0;
    int code = EXIT_USAGE;
    remote_verb *remote = remote_find(o, words, count);
    if (remote) {
        return remote(&o->common, &o->remote, words, count);
    }
    if (!orders && !shadows && !(count == 4 && strcmp(words[0], "label") == 0)) {
        fprintf(stderr, "%s\n", program.usage);
        return EXIT_USAGE;
    }
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (client) {
        code = orders                  ? order(o, client, words[0], words[1])
               : shadows && count == 2 ? shadow_told(o, client, words[1])
               : shadows               ? shadow_set(o, client, words)
                                       : label(o, client, words);
        pen_client_free(client);
    }
    return code;
}

int command_model(int argc, char **argv)
{
    struct options options;
    const char *words[WORDS_MAX] = {NULL};
    struct command_line line = {.argc = argc, .argv = argv, .words = words, .words_max = WORDS_MAX};
    if (command_settings(&program, &line, &options)) {
        line.exit = act(&options, words, line.count);
        settings_free(line.store);
    }
    return line.exit;
}
