/* load_ways.c - `penstock load` in steps, by a recording, and as the one that records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "load_options.h"
#include "load_record.h"
#include "load_replay.h"
#include "load_report.h"
#include "load_sweep.h"

#define FOREVER_US INT64_C(864000000000)

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

static int sweep_show(const struct load_session *session, const struct load_sweep *sweep,
                      const struct sweep_step *steps)
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

int load_by_sweep(struct load_session *session, struct inputs *inputs)
{
    struct sweep_step steps[SWEEP_STEPS_MAX];
    struct load_sweep sweep;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct load_plan plan = load_plan_of(session, inputs);
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

static void replay_show(const struct load_session *session, const struct replay *replay,
                        const struct load_report *report)
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

static int replay_run(struct load_session *session, struct replay *replay)
{
    struct load_report *report = calloc(1, sizeof *report);
    struct inputs none = {.count = 0};
    struct load_plan plan = load_plan_of(session, &none);
    int code;
    if (!report) {
        return load_fail(session, PEN_ERR_NO_MEMORY, "no memory for the report.");
    }
    plan.next = replay_next;
    plan.context = replay;
    plan.duration_us = session->o->duration_given ? session->o->duration_us : FOREVER_US;
    load_run(&plan, report);
    replay_show(session, replay, report);
    code = replay->status == PEN_OK ? load_report_exit(report) : command_fail(&session->o->common, &replay->error);
    if (code == EXIT_OK && replay->taken == 0) {
        code = load_fail(session, PEN_ERR_NOT_FOUND, "the recording has no arrival of a model that the pool has.");
    }
    free(report);
    return code;
}

int load_by_replay(struct load_session *session)
{
    const struct load_options *o = session->o;
    struct replay *replay = calloc(1, sizeof *replay);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (!replay) {
        return load_fail(session, PEN_ERR_NO_MEMORY, "no memory for a replay.");
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

int load_by_record(struct load_session *session)
{
    const struct load_options *o = session->o;
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
