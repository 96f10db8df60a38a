/* cmd_workers.c - `penstock workers`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "failed.h"
#include "measured.h"
#include "words.h"

struct options {
    struct common common;
    bool flags;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "flags",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, flags),
     .def = "false",
     .help = "show the flags of each, which jobs may demand with --require; JSON always has them"},
    {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock workers",
    .usage = "penstock workers [options]",
    .about = "Lists the workers of the pool.",
    .after =
        "JSON: {\"workers\": [{name, host, backend, device, state, software, slots, threads, jobs_running, "
        "jobs_done, jobs_failed, jobs_cancelled, results_bad,\n"
        "rss_bytes, age_us, last_seen_us, backlog_us, models: [\"name:version\"], errors: [{model, precision, "
        "measures, measured: as in\n"
        "`penstock models --json`, null = not known}], flags: {name: value},\n"
        "failed: [{worker, name, version, status, error, since_unix_us, serving}], failed_count}]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static void flags_json(cJSON *json, const struct pen_worker *w)
{
    cJSON *flags = cJSON_AddObjectToObject(json, "flags");
    for (size_t i = 0; i < w->flags_count; i++) {
        char name[128];
        size_t length = 0;
        const char *text = w->flags[i];
        while (text[length] && text[length] != '=' && length < sizeof name - 1) {
            name[length] = text[length];
            length++;
        }
        name[length] = '\0';
        cJSON_AddStringToObject(flags, name, text[length] == '=' ? text + length + 1 : "");
    }
}

static cJSON *errors_json(const struct pen_worker *w)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; w->errors && i < w->models_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "model", w->models[i]);
        cJSON_AddStringToObject(one, "precision", pen_precision_name(w->errors[i].precision));
        cJSON_AddBoolToObject(one, "measures", w->errors[i].measures);
        cJSON_AddItemToObject(one, "measured", measured_json(&w->errors[i]));
        cJSON_AddItemToArray(array, one);
    }
    return array;
}

static cJSON *worker_json(const struct pen_worker *w)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", w->name);
    cJSON_AddStringToObject(json, "host", w->host);
    cJSON_AddStringToObject(json, "backend", w->backend);
    cJSON_AddStringToObject(json, "device", w->device);
    cJSON_AddStringToObject(json, "state", w->state);
    cJSON_AddStringToObject(json, "software", w->software);
    cJSON_AddNumberToObject(json, "slots", w->slots);
    cJSON_AddNumberToObject(json, "threads", w->threads);
    cJSON_AddNumberToObject(json, "jobs_running", w->jobs_running);
    cJSON_AddNumberToObject(json, "jobs_done", (double)w->jobs_done);
    cJSON_AddNumberToObject(json, "jobs_failed", (double)w->jobs_failed);
    cJSON_AddNumberToObject(json, "jobs_cancelled", (double)w->jobs_cancelled);
    cJSON_AddNumberToObject(json, "results_bad", (double)w->results_bad);
    cJSON_AddNumberToObject(json, "rss_bytes", (double)w->rss_bytes);
    cJSON_AddNumberToObject(json, "age_us", (double)w->age_us);
    cJSON_AddNumberToObject(json, "last_seen_us", (double)w->last_seen_us);
    cJSON_AddNumberToObject(json, "backlog_us", (double)w->backlog_us);
    cJSON *models = cJSON_AddArrayToObject(json, "models");
    for (size_t i = 0; i < w->models_count; i++) {
        cJSON_AddItemToArray(models, cJSON_CreateString(w->models[i]));
    }
    cJSON_AddItemToObject(json, "errors", errors_json(w));
    flags_json(json, w);
    cJSON *failed = cJSON_AddArrayToObject(json, "failed");
    for (size_t i = 0; i < w->failures_count; i++) {
        cJSON_AddItemToArray(failed, failed_json(&w->failures[i]));
    }
    cJSON_AddNumberToObject(json, "failed_count", (double)w->failures_all);
    return json;
}

static void flags_text(const struct pen_worker *w)
{
    for (size_t i = 0; i < w->flags_count; i++) {
        int name = (int)strcspn(w->flags[i], "=");
        printf("  %-28.*s %s\n", name, w->flags[i], w->flags[i][name] ? w->flags[i] + name + 1 : "");
    }
}

/* One line for each, as far as the broker tells their errors. */
static void models_text(const struct pen_worker *w)
{
    char text[MEASURED_TEXT_BYTES];
    for (size_t i = 0; w->errors && i < w->models_count; i++) {
        printf("  model %s in %s: %s\n", w->models[i], pen_precision_name(w->errors[i].precision),
               measured_text(&w->errors[i], text));
    }
    for (size_t i = 0; !w->errors && i < w->models_count; i++) {
        printf("%s%s%s", i ? " " : "  models: ", w->models[i], i + 1 < w->models_count ? "" : "\n");
    }
}

static void worker_text(const struct pen_worker *w, bool flags)
{
    char rss[AMOUNT_BYTES], age[AMOUNT_BYTES];
    printf("%s  %s on %s, %u %s of %u %s, %s\n", w->name, w->backend, w->device, w->slots,
           words_plural(w->slots, "slot", "slots"), w->threads, words_plural(w->threads, "thread", "threads"),
           w->state);
    printf("  %u running, %" PRIu64 " done, %" PRIu64 " failed, ", w->jobs_running, w->jobs_done, w->jobs_failed);
    if (w->results_bad) {
        printf("%" PRIu64 " of its results against the contract, ", w->results_bad);
    }
    printf("%" PRIu64 " cancelled; %s, up %s\n", w->jobs_cancelled, amount_bytes(w->rss_bytes, rss),
           amount_us(w->age_us, age));
    models_text(w);
    for (size_t i = 0; i < w->failures_count; i++) {
        const struct pen_failed_model *f = &w->failures[i];
        char name[FAILED_NAME_BYTES];
        printf("  %s %s: %s\n", f->serving ? "refused a change of" : "could not load", failed_name(f, name), f->error);
    }
    if (w->failures_all > w->failures_count) {
        printf("  and %" PRIu64 " more that it could not load: its log names them\n",
               w->failures_all - w->failures_count);
    }
    if (flags) {
        flags_text(w);
    }
}

static int workers(const struct options *o)
{
    struct pen_worker_list *list = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, "penstock workers", &code);
    if (!client) {
        return code;
    }
    enum pen_status status = pen_client_workers(client, o->common.timeout_us, &list, &error);
    if (status != PEN_OK) {
        code = command_fail(&o->common, &error);
    } else if (o->common.json) {
        cJSON *json = cJSON_CreateObject(), *array = cJSON_AddArrayToObject(json, "workers");
        for (size_t i = 0; i < list->count; i++) {
            cJSON_AddItemToArray(array, worker_json(list->workers[i]));
        }
        command_print(json);
    } else {
        for (size_t i = 0; i < list->count; i++) {
            worker_text(list->workers[i], o->flags);
        }
        if (!list->count) {
            printf("No workers. Start one: penstock-worker --models DIR\n");
        }
    }
    pen_client_workers_free(list);
    pen_client_free(client);
    return code;
}

int command_workers(int argc, char **argv)
{
    struct options options;
    struct command_line line = {.argc = argc, .argv = argv};
    if (command_settings(&program, &line, &options)) {
        line.exit = workers(&options);
        settings_free(line.store);
    }
    return line.exit;
}
