/* cmd_load.c - `penstock load`: latency and throughput. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "command.h"
#include "load_run.h"
#include "request.h"

struct options {
    struct common common;
    struct request_settings request;
    const char *model, *image;
    int64_t duration_us, concurrency;
    double rate;
    bool unique;
};

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
             "unless --rate is given.",
    .after =
        "JSON: {requests, errors, throughput_per_s, latency_us: {p50, p90, p99, p999, max}, queue_us: {p50, p99},\n"
        "compute_us: {p50, p99}, cache_hits}. requests counts all answers, errors those without a result; throughput "
        "and\n"
        "latency are of successes; queue and compute of those that did not come from the cache.\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static double throughput(const struct load_report *r)
{
    return r->elapsed_us ? (double)(r->requests - r->errors) * 1e6 / (double)r->elapsed_us : 0.0;
}

static void number(cJSON *json, const char *key, uint64_t value)
{
    cJSON_AddNumberToObject(json, key, (double)value);
}

static int report_json(const struct load_report *r)
{
    cJSON *json = cJSON_CreateObject();
    number(json, "requests", r->requests);
    number(json, "errors", r->errors);
    cJSON_AddNumberToObject(json, "throughput_per_s", throughput(r));
    cJSON *latency = cJSON_AddObjectToObject(json, "latency_us");
    number(latency, "p50", histogram_at(&r->latency_us, 0.5));
    number(latency, "p90", histogram_at(&r->latency_us, 0.9));
    number(latency, "p99", histogram_at(&r->latency_us, 0.99));
    number(latency, "p999", histogram_at(&r->latency_us, 0.999));
    number(latency, "max", r->latency_us.max);
    cJSON *queue = cJSON_AddObjectToObject(json, "queue_us");
    number(queue, "p50", histogram_at(&r->queue_us, 0.5));
    number(queue, "p99", histogram_at(&r->queue_us, 0.99));
    cJSON *compute = cJSON_AddObjectToObject(json, "compute_us");
    number(compute, "p50", histogram_at(&r->compute_us, 0.5));
    number(compute, "p99", histogram_at(&r->compute_us, 0.99));
    number(json, "cache_hits", r->cache_hits);
    return command_print(json);
}

static void report_text(const struct load_report *r)
{
    const struct histogram *l = &r->latency_us;
    printf("requests %" PRIu64 ", errors %" PRIu64 ", from the cache %" PRIu64 ", %.1f per second over %.1f s\n",
           r->requests, r->errors, r->cache_hits, throughput(r), (double)r->elapsed_us * 1e-6);
    printf("latency us  p50 %" PRIu64 "  p90 %" PRIu64 "  p99 %" PRIu64 "  p99.9 %" PRIu64 "  max %" PRIu64 "\n",
           histogram_at(l, 0.5), histogram_at(l, 0.9), histogram_at(l, 0.99), histogram_at(l, 0.999), l->max);
    printf("queue us    p50 %" PRIu64 "  p99 %" PRIu64 "\n", histogram_at(&r->queue_us, 0.5),
           histogram_at(&r->queue_us, 0.99));
    printf("compute us  p50 %" PRIu64 "  p99 %" PRIu64 "\n", histogram_at(&r->compute_us, 0.5),
           histogram_at(&r->compute_us, 0.99));
}

static enum pen_status inputs_make(const struct options *o, const struct pen_model *model, struct inputs *inputs,
                                   struct pen_error *reterr)
{
    enum pen_status status = inputs_add_list(inputs, model, &o->request.inputs, reterr);
    if (status == PEN_OK && *o->image) {
        status = inputs_add_file(inputs, model, NULL, o->image, reterr);
    }
    return status == PEN_OK ? inputs_generate(inputs, model, reterr) : status;
}

static int measure(const struct options *o, pen_client *client, struct request *request, struct inputs *inputs)
{
    struct load_report *report = calloc(1, sizeof *report);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct load_plan plan = {
        .client = client,
        .job = request->options,
        .inputs = inputs,
        .duration_us = o->duration_us,
        .concurrency = o->concurrency,
        .rate = o->rate,
        .unique = o->unique,
        .progress = isatty(STDERR_FILENO),
    };
    if (!report) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for the report.");
        return command_fail(&o->common, &error);
    }
    load_run(&plan, report);
    if (o->common.json) {
        report_json(report);
    } else {
        report_text(report);
    }
    int code = EXIT_OK;
    if (report->errors) {
        fprintf(stderr, "penstock: the last error was %s: %s\n", pen_status_name(report->error), report->error_text);
        code = command_exit_of_answer(report->error);
    }
    free(report);
    return code;
}

static int load(const struct options *o)
{
    struct request request;
    struct inputs inputs = {.count = 0};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct pen_model_list *models = NULL;
    int code = EXIT_OK;
    pen_client *client = command_connect_for_jobs(&o->common, "penstock load", o->request.tell_drain, &code);
    if (!client) {
        return code;
    }
    enum pen_status status = command_models_wait(&o->common, client, &models, &error);
    const struct pen_model *model =
        status == PEN_OK ? model_find(models, o->model, (uint64_t)o->request.version) : NULL;
    if (status == PEN_OK && !model) {
        status = model_missing(models, o->model, (uint64_t)o->request.version, &error);
    }
    status = status == PEN_OK ? request_make(&o->request, &request, &error) : status;
    status = status == PEN_OK ? inputs_make(o, model, &inputs, &error) : status;
    if (status == PEN_OK) {
        request.options.model = model->name;
        code = measure(o, client, &request, &inputs);
    } else {
        code = command_fail(&o->common, &error);
    }
    pen_client_free(client);
    inputs_fini(&inputs);
    pen_client_models_free(models);
    return code;
}

int command_load(int argc, char **argv)
{
    struct options options;
    struct settings_store *store = NULL;
    const char *model[1] = {NULL};
    size_t count = 0;
    int code = EXIT_OK;
    if (!command_settings(&(struct settings_call){&program, argc, argv, model, 1}, &options, &count, &store, &code)) {
        return code;
    }
    options.model = count ? model[0] : options.model;
    if (!*options.model || options.rate < 0.0) {
        fprintf(stderr, "penstock load: name a model%s; penstock models lists the models.\n",
                options.rate < 0.0 ? " and a --rate of at least 0" : "");
        code = EXIT_USAGE;
    } else {
        code = load(&options);
    }
    settings_free(store);
    return code;
}
