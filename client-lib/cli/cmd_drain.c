/* cmd_drain.c - `penstock drain` and `penstock cancel`: one sentence to the broker. */
#include <stdio.h>

#include "command.h"

struct options {
    struct common common;
    const char *secret; /* of `cancel` alone */
};

static const struct setting settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct setting cancel_settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "secret",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, secret),
     .def = "",
     .help = "secret that the detached job was submitted with (penstock submit --secret): it may be cancelled without "
             "the role admin"},
    {.name = NULL}};

static const struct settings_program drain_program = {
    .name = "penstock drain",
    .usage = "penstock drain [WORKER] [options]",
    .about = "Lets the broker take no more jobs, finish those it has and leave; or only the worker of that name.",
    .after = "JSON: {\"drained\": \"broker\" or the worker's name}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static const struct settings_program cancel_program = {
    .name = "penstock cancel",
    .usage = "penstock cancel JOB [options]",
    .about = "Cancels a job by its id, as `penstock submit --json` and the logs show it. Whoever submitted it gets "
             "CANCELLED.",
    .after = "JSON: {\"cancelled\": JOB}\n\n" EXIT_CODES_TEXT,
    .table = cancel_settings,
};

typedef enum pen_status (*verb)(pen_client *client, const char *argument, int64_t timeout_us, struct pen_error *reterr);

static int tell(const struct options *o, const char *name, verb act, const char *argument, const char *key,
                const char *whom)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, name, &code);
    if (!client) {
        return code;
    }
    enum pen_status status = o->secret && *o->secret
                                 ? pen_client_cancel_own(client, argument, o->secret, o->common.timeout_us, &error)
                                 : act(client, argument, o->common.timeout_us, &error);
    if (status != PEN_OK) {
        code = error.status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(error.status);
        command_fail(&o->common, &error);
    } else if (o->common.json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, key, whom);
        code = command_print(json);
    } else {
        printf("%s: %s\n", key, whom);
    }
    pen_client_free(client);
    return code;
}

int command_drain(int argc, char **argv)
{
    struct options options = {.secret = NULL};
    struct settings_store *store = NULL;
    const char *worker[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&(struct settings_call){&drain_program, argc, argv, worker, 1}, &options, &count, &store,
                         &code)) {
        code = tell(&options, drain_program.name, pen_client_drain, count ? worker[0] : NULL, "drained",
                    count ? worker[0] : "broker");
        settings_free(store);
    }
    return code;
}

int command_cancel(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *job[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&cancel_program, argc, argv, job, 1}, &options, &count, &store,
                          &code)) {
        return code;
    }
    if (count == 1) {
        code = tell(&options, cancel_program.name, pen_client_cancel, job[0], "cancelled", job[0]);
    } else {
        fprintf(stderr, "penstock cancel: name the job, such as 0123456789abcdef-42.\n");
        code = EXIT_USAGE;
    }
    settings_free(store);
    return code;
}
