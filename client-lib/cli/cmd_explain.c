/* cmd_explain.c - `penstock explain`: why this worker, why this batch, why not. */
#include <stdio.h>

#include "command.h"
#include "show.h"

struct options {
    struct common common;
};

static const struct setting settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock explain",
    .usage = "penstock explain JOB [options]",
    .about =
        "Says why a job ran on that worker and in that batch, why it waits, or why it was refused. JOB is the id that "
        "`penstock submit --json` and the logs show; the broker remembers the last --explain-jobs that ended.",
    .after = "JSON: {job, model, version, state, status, tenant, priority, worker, backend, why_worker, why_batch, "
             "why_not,\n"
             "batch_reason, batch_jobs, batch_rows, queue_us, expect_us, compute_us, total_us, attempts, capable,\n"
             "candidates: [{worker, backend, backlog_us, expect_us, transfer_us, credit, chosen}],\n"
             "steps: [{number, model, version, state, worker, backend, batch_reason, batch_jobs, attempts, queue_us,\n"
             "compute_us, total_us}]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static int explain(const void *options_given, const char *job)
{
    const struct options *o = options_given;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct pen_explanation *explanation = NULL;
    int code = EXIT_OK;
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (!client) {
        return code;
    }
    if (pen_client_explain(client, job, o->common.timeout_us, &explanation, &error) != PEN_OK) {
        command_fail(&o->common, &error);
        code = error.status == PEN_ERR_INVALID ? EXIT_USAGE : command_exit_of(error.status);
    } else if (o->common.json) {
        code = command_print(show_explanation_json(explanation));
    } else {
        show_explanation(explanation);
    }
    pen_explanation_free(explanation);
    pen_client_free(client);
    return code;
}

int command_explain(int argc, char **argv)
{
    struct options options;
    return command_of_job(&program, argc, argv, &options, explain);
}
