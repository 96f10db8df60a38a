/* cmd_load.c - `penstock load`: latency and throughput. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "load_record.h"
#include "load_replay.h"
#include "load_report.h"
#include "load_sweep.h"
#include "request.h"

struct options {
    struct common common;
    struct request_settings request;
    const char *model, *image, *arrivals, *sweep, *svg, *record, *replay;
    int64_t duration_us, concurrency, seed, record_bytes;
    double rate, speed;
    bool unique, duration_given;
};

#define FOREVER_US INT64_C(864000000000)

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    REQUEST_SETTINGS(struct options, request),
    {.name = "model",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, model),
     .def = "",
     .help = "model to run, as its name without an option does"},
    {.name = "image",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, image),
     .def = "",
     .help = "a picture to send; without it and --input, random values"},
    {.name = "duration",
     .type = SETTING_DURATION,
     .offset = offsetof(struct options, duration_us),
     .def = "10s",
     .min = 1000,
     .max = INT64_C(864000000000),
     .help = "how long new jobs start"},
    {.name = "concurrency",
     .type = SETTING_INT,
     .offset = offsetof(struct options, concurrency),
     .def = "1",
     .min = 1,
     .max = 4000,
     .help = "closed loop: jobs in flight"},
    {.name = "rate",
     .type = SETTING_NUMBER,
     .offset = offsetof(struct options, rate),
     .def = "0",
     .unit = "jobs/s",
     .help = "open loop: jobs started per second, whatever the answers; latency counts from when a job was due"},
    {.name = "arrivals",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct options, arrivals),
     .def = "even",
     .choices = "even|poisson",
     .help = "with --rate: jobs start at even gaps, or independently of each other, as those of many users do"},
    {.name = "seed",
     .type = SETTING_INT,
     .offset = offsetof(struct options, seed),
     .def = "1",
     .help = "of the times of --arrivals poisson"},
    {.name = "sweep",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, sweep),
     .def = "",
     .help = "concurrency=1..64, rate=100..1000:100: one run of --duration for each value (doubled, or by the step "
             "behind the colon), and a chart of latency over throughput"},
    {.name = "svg",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, svg),
     .def = "",
     .help = "with --sweep: write the chart there, too"},
    {.name = "record",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, record),
     .def = "",
     .help = "send nothing: write down when the pool's jobs come (times, models, sizes), for --duration or until "
             "Ctrl-C; MODEL may be left out"},
    {.name = "record-bytes",
     .type = SETTING_BYTES,
     .offset = offsetof(struct options, record_bytes),
     .def = "1GiB",
     .min = 4096,
     .max = INT64_C(1) << 50,
     .help = "with --record: a file of this size becomes FILE.1, in place of the one before"},
    {.name = "replay",
     .type = SETTING_TEXT,
     .offset = offsetof(struct options, replay),
     .def = "",
     .help = "open loop: jobs start when those of a recording came, with its models and sizes; all of it, or for "
             "--duration; of MODEL alone, if one is named"},
    {.name = "speed",
     .type = SETTING_NUMBER,
     .offset = offsetof(struct options, speed),
     .def = "1",
     .help = "with --replay: so many times as fast"},
    {.name = "unique",
     .type = SETTING_FLAG,
     .offset = offsetof(struct options, unique),
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

/* What every way of loading needs. */
struct session {
    const struct options *o;
    pen_client *client;
    struct pen_model_list *models;
    struct request request;
};

static enum pen_status inputs_make(const struct options *o, const struct pen_model *model, struct inputs *inputs,
                                   struct pen_error *reterr)
{
    enum pen_status status = inputs_add_list(inputs, model, &o->request.inputs, reterr);
    if (status == PEN_OK && *o->image) {
        status = inputs_add_file(inputs, model, NULL, o->image, reterr);
    }
    return status == PEN_OK ? inputs_generate(inputs, model, reterr) : status;
}

static struct load_plan plan_of(struct session *session, struct inputs *inputs)
{
    const struct options *o = session->o;
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

static int fail(const struct session *session, enum pen_status status, const char *text)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_error_set(&error, status, "%s", text);
    return command_fail(&session->o->common, &error);
}

/* ---- one run ---- */

static int measure(struct session *session, struct inputs *inputs)
{
    struct load_report *report = calloc(1, sizeof *report);
    struct load_plan plan = plan_of(session, inputs);
    if (!report) {
        return fail(session, PEN_ERR_NO_MEMORY, "no memory for the report.");
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

/* ---- a sweep ---- */

static void step_text(const struct load_sweep *sweep, const struct sweep_step *step)
{
    const struct load_report *r = step->report;
    if (step->value == sweep->values[0]) {
        printf("%11s %12s %10s %10s %10s %9s %8s\n", sweep->rates ? "rate" : "concurrency", "answers/s", "p50 ms",
               "p90 ms", "p99 ms", "in a run", "errors");
    }
    printf("%11.6g %12.1f %10.3f %10.3f %10.3f %9.1f %8" PRIu64 "\n", step->value, load_throughput(r),
           (double)histogram_at(&r->latency_us, 0.5) / 1e3, (double)histogram_at(&r->latency_us, 0.9) / 1e3,
           (double)histogram_at(&r->latency_us, 0.99) / 1e3, load_batch(r), r->errors);
    fflush(stdout);
}

static void step_nothing(const struct load_sweep *sweep, const struct sweep_step *step)
{
    (void)sweep;
    (void)step;
}

static int sweep_json(const struct load_sweep *sweep, const struct sweep_step *steps)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "sweep", sweep->rates ? "rate" : "concurrency");
    cJSON *list = cJSON_AddArrayToObject(json, "steps");
    for (size_t i = 0; i < sweep->count; i++) {
        cJSON *step = load_report_json(steps[i].report);
        cJSON_AddNumberToObject(step, "value", steps[i].value);
        cJSON_AddItemToArray(list, step);
    }
    return command_print(json);
}

static int sweep_exit(const struct load_sweep *sweep, const struct sweep_step *steps)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < sweep->count && code == EXIT_OK; i++) {
        code = load_report_exit(steps[i].report);
    }
    return code;
}

static int sweep_show(const struct session *session, const struct load_sweep *sweep, const struct sweep_step *steps)
{
    struct chart_point points[2 * SWEEP_STEPS_MAX];
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct chart chart;
    sweep_chart(session->request.options.model, steps, sweep->count, points, &chart);
    if (session->o->common.json) {
        sweep_json(sweep, steps);
    } else {
        printf("\n");
        chart_print(&chart, stdout, chart_columns(), 16);
    }
    if (*session->o->svg && chart_save(&chart, session->o->svg, &error) != PEN_OK) {
        return command_fail(&session->o->common, &error);
    }
    return sweep_exit(sweep, steps);
}

static int run_sweep(struct session *session, struct inputs *inputs)
{
    struct sweep_step steps[SWEEP_STEPS_MAX];
    struct load_sweep sweep;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct load_plan plan = plan_of(session, inputs);
    if (sweep_parse(session->o->sweep, &sweep, &error) != PEN_OK) {
        command_fail(&session->o->common, &error);
        return EXIT_USAGE;
    }
    enum pen_status status =
        sweep_run(&sweep, &plan, session->o->common.json ? step_nothing : step_text, steps, &error);
    int code = status == PEN_OK ? sweep_show(session, &sweep, steps) : command_fail(&session->o->common, &error);
    sweep_free(steps, sweep.count);
    return code;
}

/* ---- a recording ---- */

static void replay_show(const struct session *session, const struct replay *replay, const struct load_report *report)
{
    if (session->o->common.json) {
        cJSON *json = load_report_json(report);
        cJSON_AddNumberToObject(json, "arrivals", (double)replay->taken);
        cJSON_AddNumberToObject(json, "skipped", (double)replay->skipped);
        command_print(json);
        return;
    }
    load_report_text(report);
    if (replay->skipped && *replay->missing) {
        printf("%" PRIu64 " arrivals skipped: the pool does not have their models, such as %s\n", replay->skipped,
               replay->missing);
    }
}

static int replay_run(struct session *session, struct replay *replay)
{
    struct load_report *report = calloc(1, sizeof *report);
    struct inputs none = {.count = 0};
    struct load_plan plan = plan_of(session, &none);
    int code;
    if (!report) {
        return fail(session, PEN_ERR_NO_MEMORY, "no memory for the report.");
    }
    plan.next = replay_next;
    plan.context = replay;
    plan.duration_us = session->o->duration_given ? session->o->duration_us : FOREVER_US;
    load_run(&plan, report);
    replay_show(session, replay, report);
    code = replay->status == PEN_OK ? load_report_exit(report) : command_fail(&session->o->common, &replay->error);
    if (code == EXIT_OK && replay->taken == 0) {
        code = fail(session, PEN_ERR_NOT_FOUND, "the recording has no arrival of a model that the pool has.");
    }
    free(report);
    return code;
}

static int run_replay(struct session *session)
{
    const struct options *o = session->o;
    struct replay *replay = calloc(1, sizeof *replay);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (!replay) {
        return fail(session, PEN_ERR_NO_MEMORY, "no memory for a replay.");
    }
    replay->models = session->models;
    replay->model = *o->model ? o->model : NULL;
    replay->image = o->image;
    replay->speed = o->speed;
    replay->job = session->request.options;
    int code;
    if (replay_open(replay, o->replay, &error) == PEN_OK) {
        code = replay_run(session, replay);
        replay_close(replay);
    } else {
        code = command_fail(&o->common, &error);
    }
    free(replay);
    return code;
}

static int run_record(struct session *session)
{
    const struct options *o = session->o;
    struct record_report report;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct record_plan plan = {
        .client = session->client,
        .file = o->record,
        .model = *o->model ? o->model : NULL,
        .duration_us = o->duration_given ? o->duration_us : FOREVER_US,
        .bytes_max = o->record_bytes,
        .timeout_us = o->common.timeout_us,
        .progress = isatty(STDERR_FILENO),
    };
    if (load_record(&plan, &report, &error) != PEN_OK) {
        return command_fail(&o->common, &error);
    }
    if (!o->common.json) {
        printf("%" PRIu64 " arrivals in %s over %.1f s, %" PRIu64 " missed%s\n", report.written, o->record,
               (double)report.elapsed_us * 1e-6, report.missed,
               report.turned ? "; the older ones are in the file of that name and .1" : "");
        return EXIT_OK;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "arrivals", (double)report.written);
    cJSON_AddNumberToObject(json, "missed", (double)report.missed);
    cJSON_AddNumberToObject(json, "files", (double)report.turned + 1.0);
    cJSON_AddNumberToObject(json, "elapsed_s", (double)report.elapsed_us * 1e-6);
    return command_print(json);
}

/* ---- which of these ---- */

static int run_model(struct session *session)
{
    const struct options *o = session->o;
    struct inputs inputs = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    uint64_t version = (uint64_t)o->request.version;
    const struct pen_model *model = model_find(session->models, o->model, version);
    enum pen_status status =
        model ? inputs_make(o, model, &inputs, &error) : model_missing(session->models, o->model, version, &error);
    int code;
    if (status == PEN_OK) {
        session->request.options.model = model->name;
        code = *o->sweep ? run_sweep(session, &inputs) : measure(session, &inputs);
    } else {
        code = command_fail(&o->common, &error);
    }
    inputs_fini(&inputs);
    return code;
}

static int run(struct session *session)
{
    const struct options *o = session->o;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (*o->record) {
        return run_record(session);
    }
    enum pen_status status = command_models_wait(&o->common, session->client, &session->models, &error);
    status = status == PEN_OK ? request_make(&o->request, &session->request, &error) : status;
    if (status != PEN_OK) {
        return command_fail(&o->common, &error);
    }
    return *o->replay ? run_replay(session) : run_model(session);
}

static int load(const struct options *o)
{
    struct session session = {.o = o};
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
static const char *misuse(const struct options *o)
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
    struct options options;
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
