#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deadline.h"

/* Everybody who lists processes sees their arguments: a secret, which the settings have copied, is there no longer than that takes. */
static void hide_secrets(int argc, char **argv)
{
    static const char name[] = "--secret";
    for (int i = 1; i < argc; i++) {
        char *value = NULL;
        if (strncmp(argv[i], name, sizeof name - 1) == 0)
            value = argv[i][sizeof name - 1] == '='                    ? argv[i] + sizeof name
                    : argv[i][sizeof name - 1] == '\0' && i + 1 < argc ? argv[++i]
                                                                       : NULL;
        if (value)
            memset(value, 'x', strlen(value));
    }
}

bool command_settings(const struct settings_program *program, struct command_line *line, void *options)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    enum settings_outcome outcome = SETTINGS_RUN;
    line->exit = EXIT_OK;
    struct settings_call call = {program, line->argc, line->argv, line->words, line->words_max};
    if (settings_load(&call, options, &line->count, &outcome, &line->store, &error) != PEN_OK) {
        fprintf(stderr, "%s: %s\nTry %s --help.\n", program->name, error.text, program->name);
        line->exit = EXIT_USAGE;
        return false;
    }
    hide_secrets(line->argc, line->argv);
    if (outcome == SETTINGS_EXIT) {
        settings_free(line->store);
        return false;
    }
    return true;
}

int command_exit_of(enum pen_status status)
{
    switch (status) {
    case PEN_OK:
        return EXIT_OK;
    case PEN_ERR_UNAVAILABLE:
        return EXIT_NO_POOL;
    default:
        return EXIT_JOB_FAILED;
    }
}

int command_exit_of_answer(enum pen_status status)
{
    return status == PEN_ERR_UNSUPPORTED ? EXIT_NO_POOL : command_exit_of(status);
}

int command_fail(const struct common *common, const struct pen_error *error)
{
    if (common->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON *inner = cJSON_AddObjectToObject(json, "error");
        cJSON_AddStringToObject(inner, "code", pen_status_name(error->status));
        cJSON_AddStringToObject(inner, "text", error->text);
        command_print(json);
    }
    fprintf(stderr, "penstock: %s: %s\n", pen_status_name(error->status), error->text);
    return command_exit_of(error->status);
}

static void options_common(const struct common *common, const char *name, struct pen_client_options *ret_options)
{
    pen_client_options_init(ret_options, sizeof *ret_options);
    ret_options->endpoint = common->broker;
    ret_options->tenant = common->tenant;
    ret_options->key_file = common->key;
    ret_options->broker_key = common->broker_key;
    ret_options->name = name;
    ret_options->connect_timeout_us = common->timeout_us > 0 ? common->timeout_us : 1;
}

static pen_client *connect_by(const struct common *common, const struct pen_client_options *options, int *ret_exit)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_client *client = NULL;
    if (pen_client_connect(options, &client, &error) != PEN_OK) {
        int code = command_fail(common, &error);
        bool ours = error.status == PEN_ERR_INVALID || error.status == PEN_ERR_IO ||
                    error.status == PEN_ERR_CORRUPT; /* an address or a key file that is none */
        *ret_exit = ours ? EXIT_USAGE : code;
        return NULL;
    }
    return client;
}

/* It asks, or steers, just the broker that was named. */
pen_client *command_connect(const struct common *common, const char *name, int *ret_exit)
{
    struct pen_client_options options;
    options_common(common, name, &options);
    options.stays = true;
    return connect_by(common, &options, ret_exit);
}

pen_client *command_connect_for_jobs(const struct common *common, const char *name, enum on_drain on_drain,
                                     int *ret_exit)
{
    struct pen_client_options options;
    options_common(common, name, &options);
    options.tell_drain = on_drain == DRAIN_TELLS;
    return connect_by(common, &options, ret_exit);
}

#define SILENT_US 1000000u /* so long a wait is nobody's concern */

enum pen_status command_models_wait(const struct common *common, pen_client *client, struct pen_model_list **ret_models,
                                    struct pen_error *reterr)
{
    const uint64_t begin_us = clock_now_us();
    const uint64_t limit_us = begin_us + (common->timeout_us > 0 ? (uint64_t)common->timeout_us : 0);
    struct timespec pause = {.tv_nsec = 50000000};
    bool told = common->json;
    for (;;) {
        enum pen_status status = pen_client_models(client, common->timeout_us, ret_models, reterr);
        if (status != PEN_OK || (*ret_models)->count > 0 || (*ret_models)->failures_count > 0 ||
            clock_now_us() >= limit_us) {
            return status;
        }
        pen_client_models_free(*ret_models);
        *ret_models = NULL;
        if (!told && clock_now_us() - begin_us >= SILENT_US) {
            fprintf(stderr, "penstock: no worker is there yet; waiting for one until --timeout ends\n");
            told = true;
        }
        nanosleep(&pause, NULL);
    }
}

int command_of_job(const struct settings_program *program, int argc, char **argv, void *options,
                   int (*run)(const void *options, const char *job))
{
    const char *job[1] = {NULL};
    struct command_line line = {.argc = argc, .argv = argv, .words = job, .words_max = 1};
    if (!command_settings(program, &line, options)) {
        return line.exit;
    }
    if (line.count == 1) {
        line.exit = run(options, job[0]);
    } else {
        fprintf(stderr, "%s: name the job, such as 0123456789abcdef-42.\n", program->name);
        line.exit = EXIT_USAGE;
    }
    settings_free(line.store);
    return line.exit;
}

int command_print(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (!text) {
        fprintf(stderr, "penstock: NO_MEMORY: no memory for the answer as JSON.\n");
        return EXIT_JOB_FAILED;
    }
    puts(text);
    free(text);
    return EXIT_OK;
}

const char *amount_bytes(uint64_t bytes, char text[AMOUNT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024.0 && unit < 4; unit++) {
        value /= 1024.0;
    }
    snprintf(text, AMOUNT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *amount_us(uint64_t us, char text[AMOUNT_BYTES])
{
    if (us < 10000) {
        snprintf(text, AMOUNT_BYTES, "%" PRIu64 " us", us);
    } else if (us < 1000000) {
        snprintf(text, AMOUNT_BYTES, "%.1f ms", (double)us * 1e-3);
    } else if (us < 60000000) {
        snprintf(text, AMOUNT_BYTES, "%.1f s", (double)us * 1e-6);
    } else if (us < UINT64_C(6000000000)) {
        snprintf(text, AMOUNT_BYTES, "%.0f s", (double)us * 1e-6);
    } else {
        snprintf(text, AMOUNT_BYTES, "%.1f h", (double)us / 3.6e9);
    }
    return text;
}
