/* cmd_plan.c - `penstock plan`: how many workers, with which settings, hold a promise about latency. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_run.h"

/* clang-format off */
static const struct setting settings[] = {
    COMMON_SETTINGS(struct plan_options),
    REQUEST_SETTINGS(struct plan_options, request),
    {.name = "model", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, model), .def = "", .help = "model to plan for, as its name without an option does"},
    {.name = "image", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, image), .def = "", .help = "a picture to send; without it and --input, random values"},
    {.name = "slo", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, slo), .def = "", .help = "the promise, such as p99=20ms, p50=5ms, p99.9=1s"},
    {.name = "rate", .type = SETTING_NUMBER, .offset = offsetof(struct plan_options, rate), .def = "0", .unit = "jobs/s", .help = "jobs that come per second, of one row each, independently of each other"},
    {.name = "margin", .type = SETTING_NUMBER, .offset = offsetof(struct plan_options, margin), .def = "0.2", .help = "part of the promised time that must stay free, 0 to 0.9"},
    {.name = "workers-max", .type = SETTING_INT, .offset = offsetof(struct plan_options, workers_max), .def = "64", .unit = "workers", .min = 1, .max = 1000, .help = "plans with more are not looked for"},
    {.name = "batch-max", .type = SETTING_INT, .offset = offsetof(struct plan_options, batch_max), .def = "0", .unit = "rows", .max = 1024, .help = "largest batch that is measured; 0 = max_batch_size of the pool's workers; of plan's own workers 32"},
    {.name = "point", .type = SETTING_DURATION, .offset = offsetof(struct plan_options, point_us), .def = "500ms", .min = 10000, .max = 600000000, .help = "how long each point of a curve is measured, at least; those of one row four times as long"},
    {.name = "seed", .type = SETTING_INT, .offset = offsetof(struct plan_options, seed), .def = "1", .help = "of the simulated arrivals"},
    {.name = "curves", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, curves), .def = "", .help = "read the curves of --save instead of measuring"},
    {.name = "save", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, save), .def = "", .help = "write the measured curves there, as JSON"},
    {.name = "svg", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, svg), .def = "", .help = "write the chart of the best setting there"},
    {.name = "models", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, models), .def = "", .help = "folder of models: for --apply, and for workers of plan's own"},
    {.name = "try-slots", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, slots), .def = "", .help = "such as 1,2: measure workers of plan's own with so many slots, on this machine, with a broker of their own, instead of the pool's"},
    {.name = "try-threads", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, threads), .def = "", .help = "the same with so many threads a slot; every number of slots with every number of threads"},
    {.name = "worker-option", .type = SETTING_LIST, .offset = offsetof(struct plan_options, worker_options), .help = "NAME=VALUE: an option of plan's own workers, such as decoders=2"},
    {.name = "bin", .type = SETTING_TEXT, .offset = offsetof(struct plan_options, bin), .def = "", .help = "folder of penstock-broker and penstock-worker; default: beside this program, then PATH"},
    {.name = "apply", .type = SETTING_FLAG, .offset = offsetof(struct plan_options, apply), .def = "false", .help = "write the best setting into the model's config.json below --models"},
    {.name = "prove", .type = SETTING_FLAG, .offset = offsetof(struct plan_options, prove), .def = "false", .help = "offer the rate for --prove-duration, and tell whether the promise held"},
    {.name = "prove-duration", .type = SETTING_DURATION, .offset = offsetof(struct plan_options, proof_us), .def = "10s", .min = 100000, .max = INT64_C(86400000000), .help = "of the proof"},
    {.name = NULL},
};
/* clang-format on */

static const struct settings_program program = {
    .name = "penstock plan",
    .usage = "penstock plan MODEL --slo p99=20ms --rate 500 [options]",
    .about =
        "Measures how long the pool's workers take by batch size, alone and together, simulates workers, batches "
        "and delays under\nindependent arrivals, and prints the settings that hold the promise, with their margin. "
        "It measures under load: not beside users' jobs.",
    .after =
        "JSON: {model, version, goal, curves, settings: [{workers, slots, threads, backend, batch, delay_us, cores, "
        "p50_us, p99_us,\nat_slo_us, margin, busy, batch_mean, rate_max}], refusal, applied, proof: {held, "
        "at_slo_us, rate, workers, requests, errors,\nthroughput_per_s, seconds}}. The first setting is the best: "
        "the fewest cores. rate_max: it holds up to this rate.\n\nExit codes: 0 there is a setting, and it was "
        "proved where that was asked; 1 none holds, the proof failed, or a job or file\nfailed; 2 wrong usage; 3 no "
        "broker or no capable worker.",
    .table = settings,
};

/* ---- what is asked ---- */

/* "20ms" in microseconds; 0: it is no time. */
static double time_parse(const char *text)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"us", 1.0}, {"ms", 1e3}, {"s", 1e6}, {"min", 6e7}};
    char *end;
    double value = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0.0;
    for (size_t i = 0; value > 0.0 && isfinite(value) && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) == 0) {
            return value * units[i].us;
        }
    }
    return 0.0;
}

static enum pen_status goal_parse(const struct plan_options *o, struct plan_goal *ret_goal, struct pen_error *reterr)
{
    char *end;
    double percent = o->slo[0] == 'p' && o->slo[1] >= '0' && o->slo[1] <= '9' ? strtod(o->slo + 1, &end) : 0.0;
    double limit_us = percent > 0.0 && *end == '=' ? time_parse(end + 1) : 0.0;
    if (!(percent >= 1.0 && percent <= 99.99) || !(limit_us >= 1.0 && limit_us <= 3.6e9)) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--slo %.60s: write a quantile from p1 to p99.99 and a time of at most an hour, such as "
                             "p99=20ms.",
                             *o->slo ? o->slo : "is missing");
    }
    if (!(o->rate > 0.0 && o->rate <= 1e6)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "--rate: how many jobs come per second? Above 0, at most 10^6.");
    }
    if (!(o->margin >= 0.0 && o->margin <= 0.9)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "--margin is a part of the time, 0 to 0.9, such as 0.2.");
    }
    *ret_goal = (struct plan_goal){.share = percent / 100.0,
                                   .limit_us = limit_us,
                                   .rate = o->rate,
                                   .margin = o->margin,
                                   .workers_max = (uint32_t)o->workers_max,
                                   .seed = (uint64_t)o->seed};
    return PEN_OK;
}

/* Which options go together. */
static enum pen_status use_check(const struct plan_options *o, const struct plan_kinds *kinds, struct pen_error *reterr)
{
    if (!*o->model && !*o->curves) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "name a model; penstock models lists the models.");
    }
    if ((o->apply || kinds->count) && !*o->models) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--apply, --try-slots and --try-threads need the folder of models: --models DIR.");
    }
    if (*o->curves && (*o->save || (kinds->count && !o->prove))) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--curves reads what was measured: nothing is measured or saved.");
    }
    return PEN_OK;
}

/* ---- the steps ---- */

struct plan {
    struct plan_options *o;
    struct plan_goal goal;
    struct plan_kinds kinds;
    struct curves curves;
    struct plan_found found;
    struct plan_chart chart;
    struct plan_proof proof;
    char applied[PLAN_PATH_BYTES];
    int code;
};

static enum pen_status curves_get(struct plan *plan, struct pen_error *reterr)
{
    struct plan_options *o = plan->o;
    enum pen_status status;
    if (*o->curves) {
        status = curves_load(o->curves, &plan->curves, reterr);
        if (status == PEN_OK && *o->model && strcmp(o->model, plan->curves.model) != 0) {
            status = pen_error_set(reterr, PEN_ERR_INVALID, "%s: these are curves of \"%s\", not of \"%s\".", o->curves,
                                   plan->curves.model, o->model);
        }
        o->model = plan->curves.model;
    } else {
        status = plan->kinds.count ? plan_measure_own(o, &plan->kinds, &plan->curves, reterr)
                                   : plan_measure_pool(o, &plan->curves, &plan->code, reterr);
    }
    return status == PEN_OK && *o->save ? curves_save(&plan->curves, o->save, reterr) : status;
}

/* The best setting, or what comes nearest to one; NULL: nothing to draw. */
static const struct plan_setting *drawn(const struct plan *plan)
{
    return plan->found.count ? &plan->found.settings[0] : plan->found.has_nearest ? &plan->found.nearest : NULL;
}

static enum pen_status chart_draw(struct plan *plan, struct pen_error *reterr)
{
    const struct plan_setting *setting = drawn(plan);
    enum pen_status status = setting ? plan_chart_make(&plan->goal, setting, &plan->chart, reterr) : PEN_OK;
    if (setting && status == PEN_OK && !plan->o->common.json) {
        printf("\n");
        chart_print(&plan->chart.chart, stdout, chart_columns(), 16);
    }
    return setting && status == PEN_OK && *plan->o->svg ? chart_save(&plan->chart.chart, plan->o->svg, reterr) : status;
}

static enum pen_status apply(struct plan *plan, struct pen_error *reterr)
{
    const struct sim_setting *best = &plan->found.settings[0].setting;
    uint32_t sizes[CURVE_SIZES_MAX];
    struct plan_values values = {.batched = plan->curves.batched,
                                 .batch = best->batch,
                                 .delay_us = best->delay_us,
                                 .slots = best->curve->slots,
                                 .warm = sizes,
                                 .warm_count = curve_rows_up_to(best->curve, best->batch, sizes)};
    enum pen_status status =
        plan_config_apply(plan->o->models, plan->curves.model, plan->curves.version, &values, plan->applied, reterr);
    if (status == PEN_OK && !plan->o->common.json) {
        printf("\nwritten: %s. Workers of this plan: %u times penstock-worker --slots %u --threads %u\n", plan->applied,
               best->workers, best->curve->slots, best->curve->threads);
    }
    return status;
}

static enum pen_status prove(struct plan *plan, struct pen_error *reterr)
{
    const struct plan_setting *best = &plan->found.settings[0];
    enum pen_status status =
        plan->kinds.count ? plan_prove_own(plan->o, &plan->goal, best, plan->curves.batched, &plan->proof, reterr)
                          : plan_prove_pool(plan->o, &plan->goal, best, &plan->proof, &plan->code, reterr);
    if (status == PEN_OK && !plan->o->common.json) {
        printf("\n");
        plan_proof_text(&plan->goal, best, &plan->proof);
        if (!plan->kinds.count && !plan->o->apply) {
            printf("The pool served as its config.json stands; --apply writes the plan's.\n");
        }
    }
    return status;
}

static void print_json(const struct plan *plan)
{
    char text[512];
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", plan->curves.model);
    cJSON_AddNumberToObject(json, "version", (double)plan->curves.version);
    cJSON_AddItemToObject(json, "goal", plan_goal_json(&plan->goal));
    cJSON *curves = curves_json(&plan->curves);
    cJSON_AddItemToObject(json, "curves", cJSON_DetachItemFromObject(curves, "curves"));
    cJSON_Delete(curves);
    cJSON_AddItemToObject(json, "settings", plan_settings_json(&plan->found));
    cJSON_AddStringToObject(json, "refusal", plan_refusal(&plan->goal, &plan->found, text, sizeof text));
    if (*plan->applied) {
        cJSON_AddStringToObject(json, "applied", plan->applied);
    }
    if (plan->proof.requests) {
        cJSON_AddItemToObject(json, "proof", plan_proof_json(&plan->proof));
    }
    command_print(json);
}

static enum pen_status steps(struct plan *plan, struct pen_error *reterr)
{
    enum pen_status status = curves_get(plan, reterr);
    status = status == PEN_OK ? plan_search(&plan->curves, &plan->goal, &plan->found, reterr) : status;
    if (status == PEN_OK && !plan->o->common.json) {
        plan_curves_text(&plan->curves);
        plan_found_text(&plan->goal, &plan->found);
    }
    status = status == PEN_OK ? chart_draw(plan, reterr) : status;
    bool found = status == PEN_OK && plan->found.count > 0;
    status = found && plan->o->apply ? apply(plan, reterr) : status;
    status = found && status == PEN_OK && plan->o->prove ? prove(plan, reterr) : status;
    return status;
}

static int run(struct plan_options *o)
{
    struct plan *plan = calloc(1, sizeof *plan);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (!plan) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for a plan.");
        return command_fail(&o->common, &error);
    }
    plan->o = o;
    int code = EXIT_OK;
    if (goal_parse(o, &plan->goal, &error) != PEN_OK || plan_kinds_parse(o, &plan->kinds, &error) != PEN_OK ||
        use_check(o, &plan->kinds, &error) != PEN_OK) {
        command_fail(&o->common, &error);
        code = EXIT_USAGE;
    } else if (steps(plan, &error) != PEN_OK) {
        code = error.status != PEN_OK ? command_fail(&o->common, &error) : plan->code;
        code = plan->code != EXIT_OK ? plan->code : code;
    } else {
        bool failed = plan->found.count == 0 || (o->prove && !plan->proof.held);
        code = failed ? EXIT_JOB_FAILED : EXIT_OK;
        if (o->common.json) {
            print_json(plan);
        }
    }
    free(plan);
    return code;
}

int command_plan(int argc, char **argv)
{
    struct plan_options options;
    const char *model[1] = {NULL};
    struct command_line line = {.argc = argc, .argv = argv, .words = model, .words_max = 1};
    if (command_settings(&program, &line, &options)) {
        options.model = line.count ? model[0] : options.model;
        line.exit = run(&options);
        settings_free(line.store);
    }
    return line.exit;
}
