/* cmd_quarantine.c - `penstock quarantine`: the jobs that ended their workers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "words.h"

struct options {
    struct common common;
};

static const struct setting settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock quarantine",
    .usage = "penstock quarantine list | show JOB | kick JOB | kick all",
    .about =
        "Jobs that were alone on a worker when it died for the last time they were allowed to. Equal jobs are refused "
        "until they are\nkicked out, or forgotten after the broker's --quarantine-age.",
    .after = "JSON of list and show: {\"jobs\": [{job, model, version, tenant, deaths, workers, inputs, bytes, age_us, "
             "refused, known}]}; of kick:\n{\"kicked\": JOB}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static cJSON *entry_json(const struct pen_quarantined *entry)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "job", entry->job);
    cJSON_AddStringToObject(json, "model", entry->model);
    cJSON_AddNumberToObject(json, "version", (double)entry->version);
    cJSON_AddStringToObject(json, "tenant", entry->tenant);
    cJSON_AddNumberToObject(json, "deaths", entry->deaths);
    cJSON_AddStringToObject(json, "workers", entry->workers);
    cJSON_AddStringToObject(json, "inputs", entry->inputs);
    cJSON_AddNumberToObject(json, "bytes", (double)entry->bytes);
    cJSON_AddNumberToObject(json, "age_us", (double)entry->age_us);
    cJSON_AddNumberToObject(json, "refused", (double)entry->refused);
    cJSON_AddBoolToObject(json, "known", entry->known);
    return json;
}

static int print_json(const struct pen_quarantine *list)
{
    cJSON *json = cJSON_CreateObject(), *jobs = cJSON_AddArrayToObject(json, "jobs");
    for (size_t i = 0; i < list->count; i++) {
        cJSON_AddItemToArray(jobs, entry_json(&list->jobs[i]));
    }
    return command_print(json);
}

static void print_list(const struct pen_quarantine *list)
{
    char age[AMOUNT_BYTES];
    if (list->count == 0) {
        printf("no job is in quarantine\n");
        return;
    }
    printf("%-38s  %-24s  %-16s  %6s  %9s  %7s\n", "JOB", "MODEL", "TENANT", "DEATHS", "AGE", "REFUSED");
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_quarantined *one = &list->jobs[i];
        char model[280];
        snprintf(model, sizeof model, "%s:%" PRIu64, one->model, one->version);
        printf("%-38s  %-24s  %-16s  %6u  %9s  %7" PRIu64 "\n", one->job, model, one->tenant, one->deaths,
               amount_us(one->age_us, age), one->refused);
    }
}

static void print_one(const struct pen_quarantined *one)
{
    char age[AMOUNT_BYTES], bytes[AMOUNT_BYTES];
    printf("job       %s\nmodel     %s:%" PRIu64 "\ntenant    %s\ninputs    %s (the whole request: %s)\n", one->job,
           one->model, one->version, one->tenant, one->inputs, amount_bytes(one->bytes, bytes));
    printf("deaths    %u: it was on %s when %s lost\nage       %s\nrefused   %" PRIu64 " equal %s%s\n", one->deaths,
           one->workers, words_plural(one->deaths, "that was", "they were"), amount_us(one->age_us, age), one->refused,
           words_plural(one->refused, "job", "jobs"),
           one->known ? ""
                      : "; the client sent no digest and it is too large to be hashed, so equal ones are not known");
    printf("next      run it against one worker under a debugger, or: penstock quarantine kick %s\n", one->job);
}

static enum pen_status act(pen_client *client, const struct options *o, const char *verb, const char *job,
                           int *ret_code, struct pen_error *reterr)
{
    struct pen_quarantine *list = NULL;
    bool show = strcmp(verb, "show") == 0;
    enum pen_status status;
    if (strcmp(verb, "kick") == 0) {
        status = pen_client_kick(client, job, o->common.timeout_us, reterr);
        if (status == PEN_OK && o->common.json) {
            cJSON *json = cJSON_CreateObject();
            cJSON_AddStringToObject(json, "kicked", job);
            *ret_code = command_print(json);
        } else if (status == PEN_OK) {
            printf("kicked: %s\n", job);
        }
        return status;
    }
    status = pen_client_quarantine(client, show ? job : NULL, o->common.timeout_us, &list, reterr);
    if (status == PEN_OK && o->common.json) {
        *ret_code = print_json(list);
    } else if (status == PEN_OK && show) {
        print_one(&list->jobs[0]);
    } else if (status == PEN_OK) {
        print_list(list);
    }
    pen_client_quarantine_free(list);
    return status;
}

static int run(const struct options *o, const char *verb, const char *job)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (!client) {
        return code;
    }
    if (act(client, o, verb, job, &code, &error) != PEN_OK) {
        command_fail(&o->common, &error);
        code = error.status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(error.status);
    }
    pen_client_free(client);
    return code;
}

int command_quarantine(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *words[2] = {NULL, NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&program, argc, argv, words, 2}, &options, &count, &store, &code)) {
        return code;
    }
    const char *verb = count ? words[0] : "list";
    bool list = strcmp(verb, "list") == 0, other = strcmp(verb, "show") == 0 || strcmp(verb, "kick") == 0;
    if ((list && count <= 1) || (other && count == 2)) {
        code = run(&options, verb, words[1]);
    } else {
        fprintf(stderr, "penstock quarantine: expected list, show JOB, kick JOB or kick all.\n");
        code = EXIT_USAGE;
    }
    settings_free(store);
    return code;
}
