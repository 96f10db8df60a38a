/* cmd_trace.c - `penstock trace`: the lives of jobs that the broker has kept. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "trace_show.h"

struct options {
    struct common common;
    const char *format, *output;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "format",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct options, format),
     .def = "text",
     .choices = "text|json|chrome|otlp",
     .help = "text for people; chrome opens in ui.perfetto.dev and chrome://tracing; otlp is OpenTelemetry's"},
    {.name = "output",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, output),
     .def = "",
     .help = "write to this file"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock trace",
    .usage = "penstock trace [JOB|slow|errors|recent|kept] [options]",
    .about = "Shows one job's life, span by span, or lists those that the broker keeps: the slowest of the last ten "
             "minutes, the last\nfailed ones, the last ones, those that were sampled or asked for (penstock submit "
             "--trace). Without a word: slow.",
    .after = "Times of a worker are durations by its own clock, put in the middle between sending and answer.\n"
             "JSON: {\"traces\": [{job, trace_id, admitted_unix_us, total_us, model, version, backend, precision, how, "
             "status, worker,\nreason, error, attempts, batch, spans: [{parent, side, start_us, us, name, "
             "detail}]}]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static bool is_list(const char *what)
{
    static const char *const lists[] = {"slow", "errors", "recent", "kept"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(what, lists[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int slower_first(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    double left = cJSON_GetNumberValue(cJSON_GetObjectItem(*x, "total_us"));
    double right = cJSON_GetNumberValue(cJSON_GetObjectItem(*y, "total_us"));
    return left < right ? 1 : left > right ? -1 : 0;
}

static int later_first(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    double left = cJSON_GetNumberValue(cJSON_GetObjectItem(*x, "admitted_unix_us"));
    double right = cJSON_GetNumberValue(cJSON_GetObjectItem(*y, "admitted_unix_us"));
    return left < right ? 1 : left > right ? -1 : 0;
}

static int show_list(const char *what, const cJSON *traces, FILE *out)
{
    size_t count = (size_t)cJSON_GetArraySize(traces), used = 0;
    const cJSON **rows = calloc(count + 1, sizeof *rows), *trace;
    if (!rows) {
        fprintf(stderr, "penstock: NO_MEMORY: no memory for the list.\n");
        return EXIT_JOB_FAILED;
    }
    cJSON_ArrayForEach(trace, traces)
    {
        rows[used++] = trace;
    }
    qsort(rows, used, sizeof *rows, strcmp(what, "slow") == 0 ? slower_first : later_first);
    for (size_t i = 0; i < used; i++) {
        trace_show_line(rows[i], out);
    }
    if (used == 0) {
        fprintf(out, "none: the broker keeps no life of this kind yet\n");
    }
    free(rows);
    return EXIT_OK;
}

static int show(const struct options *o, const char *what, const char *text, FILE *out)
{
    int code = EXIT_OK;
    if (strcmp(o->format, "text") != 0 || o->common.json) {
        fprintf(out, "%s\n", text);
        return EXIT_OK;
    }
    cJSON *answer = cJSON_Parse(text), *traces = cJSON_GetObjectItem(answer, "traces");
    if (is_list(what)) {
        code = show_list(what, traces, out);
    } else {
        trace_show(cJSON_GetArrayItem(traces, 0), out);
    }
    cJSON_Delete(answer);
    return code;
}

static int ask(const struct options *o, const char *what)
{
    char question[4096], *text = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (!client) {
        return code;
    }
    snprintf(question, sizeof question, "%.4000s %s", what, strcmp(o->format, "text") == 0 ? "json" : o->format);
    if (pen_client_trace(client, question, o->common.timeout_us, &text, &error) != PEN_OK) {
        code = error.status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(error.status);
        command_fail(&o->common, &error);
    }
    pen_client_free(client);
    FILE *out = text && *o->output ? fopen(o->output, "w") : stdout;
    if (text && out) {
        code = show(o, what, text, out);
    }
    if (!out || (out != stdout && fclose(out) != 0)) {
        fprintf(stderr, "penstock: IO: %s cannot be written: %s\n", o->output, strerror(errno));
        code = EXIT_JOB_FAILED;
    }
    pen_text_free(text);
    return code;
}

int command_trace(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *what[1] = {"slow"};
    size_t count = 0;
    int code = EXIT_OK;
    if (command_settings(&(struct settings_call){&program, argc, argv, what, 1}, &options, &count, &store, &code)) {
        code = ask(&options, count ? what[0] : "slow");
        settings_free(store);
    }
    return code;
}
