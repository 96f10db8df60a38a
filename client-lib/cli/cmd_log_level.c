/* cmd_log_level.c - `penstock log-level`: more or fewer lines from a pool that runs. */
#include <stdio.h>

#include "command.h"

struct options {
    struct common common;
};

static const struct setting settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock log-level",
    .usage = "penstock log-level [LEVEL [broker|workers|WORKER]] [options]",
    .about =
        "Changes the level of broker and workers (debug, info, warn, error) at once and until the next start, or "
        "of those named.\nWithout a level: tells the broker's. The same from outside: SIGUSR1 logs more, SIGUSR2 less.",
    .after = "JSON: {\"broker\": LEVEL, \"workers_told\": N}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static int tell(const struct options *o, const char *level, const char *whom)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (!client) {
        return code;
    }
    if (pen_client_log_level(client, level, whom, o->common.timeout_us, &text, &error) != PEN_OK) {
        code = error.status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(error.status);
        command_fail(&o->common, &error);
    } else if (o->common.json) {
        puts(text);
    } else {
        cJSON *json = cJSON_Parse(text);
        const char *now = cJSON_GetStringValue(cJSON_GetObjectItem(json, "broker"));
        printf("broker: %s; workers told: %.0f\n", now ? now : "?",
               cJSON_GetNumberValue(cJSON_GetObjectItem(json, "workers_told")));
        cJSON_Delete(json);
    }
    pen_text_free(text);
    pen_client_free(client);
    return code;
}

int command_log_level(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *words[2] = {NULL, NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&(struct settings_call){&program, argc, argv, words, 2}, &options, &count, &store, &code)) {
        code = tell(&options, count > 0 ? words[0] : "", count > 1 ? words[1] : NULL);
        settings_free(store);
    }
    return code;
}
