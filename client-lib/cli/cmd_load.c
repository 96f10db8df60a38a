/* cmd_load.c - `penstock load`: latency and throughput. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load_options.h"
#include "load_report.h"

static const struct setting settings[] = {
    COMMON_SETTINGS(struct load_options),
    REQUEST_SETTINGS(struct load_options, request),
    {.name = "model",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, model),
     .def = "",
     .help = "model to run, as its name without an option does"},
    {.name = "image",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, image),
     .def = "",
     .help = "a picture to send; without it and --input, random values"},
    {.name = "duration",
     .type = SETTING_DURATION,
     .offset = offsetof(struct load_options, duration_us),
     .def = "10s",
     .min = 1000,
     .max = INT64_C(864000000000),
     .help = "how long new jobs start"},
    {.name = "concurrency",
     .type = SETTING_INT,
     .offset = offsetof(struct load_options, concurrency),
     .def = "1",
     .min = 1,
     .max = 4000,
     .help = "closed loop: jobs in flight"},
    {.name = "rate",
     .type = SETTING_NUMBER,
     .offset = offsetof(struct load_options, rate),
     .def = "0",
     .unit = "jobs/s",
     .help = "open loop: jobs started per second, whatever the answers; latency counts from when a job was due"},
    {.name = "arrivals",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct load_options, arrivals),
     .def = "even",
     .choices = "even|poisson",
     .help = "with --rate: jobs start at even gaps, or independently of each other, as those of many users do"},
    {.name = "seed",
     .type = SETTING_INT,
     .offset = offsetof(struct load_options, seed),
     .def = "1",
     .help = "of the times of --arrivals poisson"},
    {.name = "sweep",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, sweep),
     .def = "",
     .help = "concurrency=1..64, rate=100..1000:100: one run of --duration for each value (doubled, or by the step "
             "behind the colon), and a chart of latency over throughput"},
    {.name = "svg",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, svg),
     .def = "",
     .help = "with --sweep: write the chart there, too"},
    {.name = "record",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, record),
     .def = "",
     .help = "send nothing: write down when the pool's jobs come (times, models, sizes), for --duration or until "
             "Ctrl-C; MODEL may be left out"},
    {.name = "record-bytes",
     .type = SETTING_BYTES,
     .offset = offsetof(struct load_options, record_bytes),
     .def = "1GiB",
     .min = 4096,
     .max = INT64_C(1) << 50,
     .help = "with --record: a file of this size becomes FILE.1, in place of the one before"},
    {.name = "replay",
     .type = SETTING_TEXT,
     .offset = offsetof(struct load_options, replay),
     .def = "",
     .help = "open loop: jobs start when those of a recording came, with its models and sizes; all of it, or for "
             "--duration; of MODEL alone, if one is named"},
    {.name = "speed",
     .type = SETTING_NUMBER,
     .offset = offsetof(struct load_options, speed),
     .def = "1",
     .help = "with --replay: so many times as fast"},
    {.name = "unique",
     .type = SETTING_FLAG,
     .offset = offsetof(struct load_options, unique),
     .def = "false",
     .help = "change the input for each job, so that no answer comes from the cache"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock load",
    .usage = "penstock load MODEL [options]",
    .about = "Sends jobs for a while and prints latency quantiles, throughput and errors. Closed loop (--concurrency) "
             "unless --rate is given.\n--sweep does so at several concurrencies or rates. --record writes down when "
             "the pool's jobs come; --replay sends as many, at the same times.",
    .after =
        "JSON: {requests, errors, throughput_per_s, latency_us: {p50, p90, p99, p999, max}, queue_us: {p50, p99},\n"
        "compute_us: {p50, p99}, cache_hits, batch_mean, slot_us_mean}; with --rate or --replay also late_us: {p50, "
        "p99}, how long "
        "after\n"
        "it was due a job was submitted. requests counts all answers, errors those without a result; throughput and\n"
        "latency are of successes; queue, compute, batch_mean (jobs in a run) and slot_us_mean (a job's share of its "
        "run)\nof those that did not come from the cache.\n"
        "--sweep: {sweep, steps: [{value, and the keys above}]}. --replay: also arrivals, skipped (of models that the "
        "pool\n"
        "does not have). --record: {arrivals, missed, files, elapsed_s}.\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static enum pen_status inputs_make(const struct load_options *o, const struct pen_model *model, struct inputs *inputs,
                                   struct pen_error *reterr)
{
    enum pen_status status = inputs_add_list(inputs, model, &o->request.inputs, reterr);
    if (status == PEN_OK && *o->image) {
        status = inputs_add_file(inputs, model, NULL, o->image, reterr);
    }
    return status == PEN_OK ? inputs_generate(inputs, model, reterr) : status;
}

struct load_plan load_plan_of(struct load_session *session, struct inputs *inputs)
{
    const struct load_options *o = session->o;
    return (struct load_plan){
        .client = session->client,
        .job = session->request.options,
        .inputs = inputs,
        .duration_us = o->duration_us,
        .concurrency = o->concurrency,
        .rate = o->rate,
        .arrivals = strcmp(o->arrivals, "poisson") == 0 ? LOAD_POISSON : LOAD_EVEN,
        .seed = (uint64_t)o->seed,
        .unique = o->unique,
        .progress = isatty(STDERR_FILENO),
    };
}

int load_fail(const struct load_session *session, enum pen_status status, const char *text)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_error_set(&error, status, "%s", text);
    return command_fail(&session->o->common, &error);
}

/* ---- one run ---- */

static int measure(struct load_session *session, struct inputs *inputs)
{
    struct load_report *report = calloc(1, sizeof *report);
    struct load_plan plan = load_plan_of(session, inputs);
    if (!report) {
        return load_fail(session, PEN_ERR_NO_MEMORY, "no memory for the report.");
    }
    load_run(&plan, report);
    if (session->o->common.json) {
        command_print(load_report_json(report));
    } else {
        load_report_text(report);
    }
    int code = load_report_exit(report);
    free(report);
    return code;
}

/* ---- which of these ---- */

static int run_model(struct load_session *session)
{
    const struct load_options *o = session->o;
    struct inputs inputs = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    uint64_t version = (uint64_t)o->request.version;
    const struct pen_model *model = model_find(session->models, o->model, version);
    enum pen_status status =
        model ? inputs_make(o, model, &inputs, &error) : model_missing(session->models, o->model, version, &error);
    int code;
    if (status == PEN_OK) {
        session->request.options.model = model->name;
        code = *o->sweep ? load_by_sweep(session, &inputs) : measure(session, &inputs);
    } else {
        code = command_fail(&o->common, &error);
    }
    inputs_fini(&inputs);
    return code;
}

static int run(struct load_session *session)
{
    const struct load_options *o = session->o;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (*o->record) {
        return load_by_record(session);
    }
    enum pen_status status = command_models_wait(&o->common, session->client, &session->models, &error);
    status = status == PEN_OK ? request_make(&o->request, &session->request, &error) : status;
    if (status != PEN_OK) {
        return command_fail(&o->common, &error);
    }
    return *o->replay ? load_by_replay(session) : run_model(session);
}

static int load(const struct load_options *o)
{
    struct load_session session = {.o = o};
    int code = EXIT_OK;
    session.client =
        command_connect_for_jobs(&o->common, "penstock load", o->request.tell_drain ? DRAIN_TELLS : DRAIN_WAITS, &code);
    if (!session.client) {
        return code;
    }
    code = run(&session);
    pen_client_free(session.client);
    pen_client_models_free(session.models);
    return code;
}

/* NULL: the options go together. */
static const char *misuse(const struct load_options *o)
{
    bool recording = *o->record || *o->replay;
    if (!*o->model && !recording) {
        return "name a model; penstock models lists the models";
    }
    if (!(o->rate >= 0.0) || !(o->speed > 0.0)) {
        return "--rate is at least 0 and --speed more than 0";
    }
    if ((*o->record != '\0') + (*o->replay != '\0') + (*o->sweep != '\0') > 1) {
        return "--record, --replay and --sweep are three different runs";
    }
    if (*o->svg && !*o->sweep) {
        return "--svg draws a --sweep";
    }
    if (recording && o->rate > 0.0) {
        return "a recording has the times of its jobs: no --rate with --record or --replay";
    }
    return NULL;
}

int command_load(int argc, char **argv)
{
    struct load_options options;
    const char *model[1] = {NULL};
    struct setting_given given;
    struct command_line line = {.argc = argc, .argv = argv, .words = model, .words_max = 1};
    if (!command_settings(&program, &line, &options)) {
        return line.exit;
    }
    options.model = line.count ? model[0] : options.model;
    options.duration_given = settings_given(line.store, "duration", &given);
    const char *why = misuse(&options);
    if (why) {
        fprintf(stderr, "penstock load: %s.\n", why);
        line.exit = EXIT_USAGE;
    } else {
        line.exit = load(&options);
    }
    settings_free(line.store);
    return line.exit;
}
