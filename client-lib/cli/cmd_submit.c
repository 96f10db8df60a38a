/* cmd_submit.c - `penstock submit MODEL FILE...`: one job per file, all in flight at once, answers in the order of the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer_draw.h"
#include "command.h"
#include "inputs.h"
#include "request.h"
#include "show.h"
#include "trace_show.h"

#define FILES_MAX    4096u
#define HOLD_LOOK_US 100000 /* a job that takes longer may be waiting for its model */
#define AT_ONCE      64u    /* jobs in flight: enough to fill batches, little memory */

struct options {
    struct common common;
    struct request_settings request;
    const char *model, *output_dir, *draw;
    bool detach;
    const char *secret;
    int64_t detached_ttl_us;
    int64_t top;
};

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    REQUEST_SETTINGS(struct options, request),
    {.name = "model",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, model),
     .def = "",
     .help = "model to run; all names without an option are files then"},
    {.name = "top",
     .type = SETTING_INT,
     .offset = offsetof(struct options, top),
     .def = "3",
     .max = SHOW_TOP_MAX,
     .help = "best classes to show of models with labels and of pictures; 0 = the first values"},
    {.name = "output-dir",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, output_dir),
     .def = "",
     .help = "write every output there as FILE.OUTPUT.npy, FILE without folders and extension"},
    {.name = "draw",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, draw),
     .def = "",
     .help = "write the picture there as PNG, with what the model found drawn on it: boxes, points, masks, labels"},
    {.name = "detach",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, detach),
     .def = "false",
     .help = "leave when the broker has the jobs on disk; penstock fetch gets the results"},
    {.name = "secret",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, secret),
     .def = "",
     .help = "with --detach: who knows it may cancel the jobs (penstock cancel --secret), whatever their key"},
    {.name = "detached-ttl",
     .type = SETTING_DURATION,
     .offset = offsetof(struct options, detached_ttl_us),
     .def = "0",
     .max = 31536000000000,
     .help = "with --detach: how long job and result are kept; 0 = as long as the broker does"},
    {.name = NULL},
};

/* A variable that makes the first name a file would surprise. */
static const struct setting_variable variables[] = {{"model", "", NULL}, {.setting = NULL}};

static const struct settings_program program = {
    .name = "penstock submit",
    .usage = "penstock submit MODEL [FILE...] [options]",
    .about = "Runs MODEL once per FILE and prints the answers. A FILE is a picture (PNG, JPEG, WebP, BMP), which is "
             "converted and resized to "
             "what the model takes, here or on the worker, a .npy array, or raw little-endian values. Models with "
             "several inputs: --input "
             "NAME=FILE for each; of maps: --input 'NAME={\"key\": value}'.",
    .after =
        "JSON: {\"jobs\": [{file, job, status, error, model, version, backend, precision, device, worker, library, "
        "isa, "
        "build, batch_reason,\n"
        "batch_size, attempts, queue_us, compute_us, worker_us, total_us, round_trip_us, retry_after_us, decode_us, "
        "cached, "
        "age_us,\n"
        "measured: {max_relative_error, mean_relative_error, inputs, source, repeatable} or null,\n"
        "labels: [{label, index, score, row}], explanation (with --explain), answer (of models that have one), "
        "outputs: [{name, dtype, dims, values (at "
        "most "
        "1024)}]}]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
    .variables = variables,
};

struct run {
    const struct options *options;
    pen_client *client;
    const struct pen_model *model;
    struct show show;
    cJSON *jobs; /* with --json */
    size_t count, done;
    int exit;
    bool progress;
};

static void fail(struct run *run, const char *what, const struct pen_error *error)
{
    int code = command_exit_of(error->status);
    run->exit = code > run->exit ? code : run->exit;
    if (run->jobs) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "file", what);
        cJSON_AddStringToObject(json, "status", pen_status_name(error->status));
        cJSON_AddStringToObject(json, "error", error->text);
        cJSON_AddItemToArray(run->jobs, json);
    }
    fprintf(stderr, "penstock: %s: %s\n", pen_status_name(error->status), error->text);
}

/* Classes of models that name them, and of pictures; asked only of workers that know of it: the others' answers would not be cached. */
static uint32_t top_wanted(struct run *run, const struct inputs *inputs)
{
    run->show.names.any |= inputs->picture;
    bool classes = run->model->labels_count > 0 || inputs->picture;
    return classes && run->model->annotates ? (uint32_t)run->options->top : 0;
}

static pen_job *start(struct run *run, const char *file, bool first, bool last)
{
    struct request request;
    struct inputs inputs = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_job *job = NULL;
    enum pen_status status = request_make(&run->options->request, &request, &error);
    status = status == PEN_OK ? inputs_add_list(&inputs, run->model, &run->options->request.inputs, &error) : status;
    if (status == PEN_OK && file) {
        status = inputs_add_file(&inputs, run->model, NULL, file, &error);
    }
    if (status == PEN_OK) {
        request.options.model = run->model->name;
        request.options.inputs = inputs.tensors;
        request.options.inputs_count = inputs.count;
        request.options.flags |= run->options->detach ? PEN_JOB_DETACHED : 0u;
        request.options.flags &= ~((first ? 0u : PEN_JOB_SEQUENCE_START) | (last ? 0u : PEN_JOB_SEQUENCE_END));
        request.options.top_k = top_wanted(run, &inputs);
        request.options.detached_ttl_us = (uint64_t)run->options->detached_ttl_us;
        request.options.detached_secret = *run->options->secret ? run->options->secret : NULL;
        status = pen_client_submit(run->client, &request.options, &job, &error);
    }
    inputs_fini(&inputs);
    if (status != PEN_OK) {
        fail(run, file ? file : run->model->name, &error);
        return NULL;
    }
    return job;
}

/* With --trace: the job's life below its answer; in JSON it is one more key of the job. */
static void trace_tell(struct run *run, const char *id)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    char *text = NULL;
    if (pen_client_trace(run->client, id, run->options->common.timeout_us, &text, &error) != PEN_OK) {
        fprintf(stderr, "penstock: %s: %s\n", pen_status_name(error.status), error.text);
        return;
    }
    cJSON *answer = cJSON_Parse(text), *traces = cJSON_GetObjectItem(answer, "traces");
    if (run->jobs) {
        cJSON *job = cJSON_GetArrayItem(run->jobs, cJSON_GetArraySize(run->jobs) - 1);
        cJSON_AddItemToObject(job, "trace", cJSON_DetachItemFromArray(traces, 0));
    } else {
        trace_show(cJSON_GetArrayItem(traces, 0), stdout);
    }
    cJSON_Delete(answer);
    pen_text_free(text);
}

/* A job that waits for its model is worth a word to who looks on. */
static void hold_tell(pen_job *job, const char *what, const char *model)
{
    struct pen_hold hold;
    if (!pen_job_hold(job, &hold, sizeof hold)) {
        return;
    }
    fprintf(stderr, "penstock: %s waits: %s model '%s'%s", what,
            hold.reason == PEN_HOLD_LOADING ? "a worker loads" : "no worker is here yet for", model,
            hold.expect_us ? "" : "\n");
    if (hold.expect_us) {
        fprintf(stderr, "; expected to take %.3g s\n", (double)hold.expect_us / 1e6);
    }
}

static enum pen_status wait_told(const struct run *run, pen_job *job, const char *what, pen_result **ret_result,
                                 struct pen_error *reterr)
{
    enum pen_status status = pen_job_wait(job, HOLD_LOOK_US, ret_result, reterr);
    if (status != PEN_ERR_TIMEOUT) {
        return status;
    }
    if (!run->progress) {
        hold_tell(job, what, run->model->name);
    }
    return pen_job_wait(job, PEN_FOREVER, ret_result, reterr);
}

static void finish(struct run *run, pen_job *job, const char *what)
{
    char id[PEN_JOB_ID_BYTES];
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_result *result = NULL;
    if (!job || wait_told(run, job, what, &result, &error) != PEN_OK) {
        pen_job_free(job);
        return;
    }
    if (run->options->detach && !run->jobs && pen_result_status(result) == PEN_OK) {
        printf("%s  accepted; its result: penstock fetch %s\n", what, pen_job_id(job, id));
    } else if (run->jobs) {
        cJSON_AddItemToArray(run->jobs, show_json(&run->show, what, pen_job_id(job, id), result));
    } else {
        show_text(&run->show, what, pen_job_id(job, id), result);
    }
    if (run->options->request.trace || run->options->request.layers) {
        trace_tell(run, pen_job_id(job, id));
    }
    enum pen_status status = pen_result_status(result);
    int code = run->options->detach ? command_exit_of(status) : command_exit_of_answer(status);
    if (status == PEN_OK && run->show.output_dir && show_save(&run->show, what, result, &error) != PEN_OK) {
        fprintf(stderr, "penstock: %s: %s\n", pen_status_name(error.status), error.text);
        code = EXIT_JOB_FAILED;
    }
    if (status == PEN_OK && *run->options->draw && !run->options->detach &&
        answer_draw_file(result, what, run->options->draw, &error) != PEN_OK) {
        fprintf(stderr, "penstock: %s: %s\n", pen_status_name(error.status), error.text);
        code = EXIT_JOB_FAILED;
    }
    run->exit = code > run->exit ? code : run->exit;
    pen_result_free(result);
    pen_job_free(job);
    run->done++;
    if (run->progress) {
        fprintf(stderr, "\r%zu of %zu%s", run->done, run->count, run->done == run->count ? "\n" : "");
    }
}

static void run_all(struct run *run, const char *const *files, size_t count)
{
    pen_job *jobs[AT_ONCE];
    const char *const none[] = {NULL};
    if (count == 0) {
        files = none;
        count = 1;
    }
    run->count = count;
    run->progress = count > 1 && isatty(STDERR_FILENO) && (run->jobs || !isatty(STDOUT_FILENO));
    for (size_t started = 0, ended = 0; ended < count;) {
        while (started < count && started - ended < AT_ONCE) {
            jobs[started % AT_ONCE] = start(run, files[started], started == 0, started + 1 == count);
            started++;
        }
        finish(run, jobs[ended % AT_ONCE], files[ended] ? files[ended] : run->model->name);
        ended++;
    }
}

static int submit(const struct options *o, const char *const *files, size_t count)
{
    struct run run = {.options = o};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct pen_model_list *models = NULL;
    int code = EXIT_OK;
    run.client = command_connect_for_jobs(&o->common, "penstock submit",
                                          o->request.tell_drain ? DRAIN_TELLS : DRAIN_WAITS, &code);
    if (!run.client) {
        return code;
    }
    enum pen_status status = command_models_wait(&o->common, run.client, &models, &error);
    if (status == PEN_OK) {
        run.model = model_find(models, o->model, (uint64_t)o->request.version);
        if (!run.model) {
            status = model_missing(models, o->model, (uint64_t)o->request.version, &error);
        }
    }
    if (status == PEN_OK) {
        run.show = (struct show){.names = {run.model->labels, run.model->labels_count, false},
                                 .top = (size_t)o->top,
                                 .output_dir = *o->output_dir ? o->output_dir : NULL};
        run.jobs = o->common.json ? cJSON_CreateArray() : NULL;
        run_all(&run, files, count);
        if (o->common.json) {
            cJSON *json = cJSON_CreateObject();
            cJSON_AddItemToObject(json, "jobs", run.jobs);
            command_print(json);
        }
        code = run.exit;
    } else {
        code = command_fail(&o->common, &error);
    }
    pen_client_models_free(models);
    pen_client_free(run.client);
    return code;
}

/* Says what is wrong with options that are right one by one. */
static bool options_agree(const struct options *options, const char *const *files, size_t count)
{
    const char *pair[2];
    if (!*options->model || (count == 0 && options->request.inputs.count == 0)) {
        fprintf(stderr, "penstock submit: name a model and at least one file or --input NAME=FILE; penstock models "
                        "lists the models.\n");
        return false;
    }
    if (*options->draw && count != 1) {
        fprintf(stderr, "penstock submit: --draw is for one picture at a time.\n");
        return false;
    }
    if (*options->output_dir && show_clash(files, count, pair)) {
        fprintf(stderr,
                "penstock submit: the outputs of %s and %s would have the same names in --output-dir; submit one of "
                "them by itself, with another folder.\n",
                pair[0], pair[1]);
        return false;
    }
    return true;
}

int command_submit(int argc, char **argv)
{
    static const char *positional[FILES_MAX];
    struct options options;
    struct command_line line = {.argc = argc, .argv = argv, .words = positional, .words_max = FILES_MAX};
    if (!command_settings(&program, &line, &options)) {
        return line.exit;
    }
    const char *const *files = positional;
    if (!*options.model && line.count > 0) {
        options.model = *files++;
        line.count--;
    }
    line.exit = options_agree(&options, files, line.count) ? submit(&options, files, line.count) : EXIT_USAGE;
    settings_free(line.store);
    return line.exit;
}
