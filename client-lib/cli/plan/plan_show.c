#include "plan_show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

const char *plan_quantile(double share, char text[24])
{
    snprintf(text, 24, "p%.6g", round(share * 1e6) / 1e4);
    return text;
}

static const char *duration(double us, char text[AMOUNT_BYTES])
{
    if (!isfinite(us)) {
        snprintf(text, AMOUNT_BYTES, "without end");
    } else {
        snprintf(text, AMOUNT_BYTES, us < 10000.0 ? "%.2f ms" : us < 1e6 ? "%.1f ms" : "%.0f ms", us / 1e3);
    }
    return text;
}

void plan_curves_text(const struct curves *curves)
{
    char a[AMOUNT_BYTES], b[AMOUNT_BYTES];
    for (size_t c = 0; c < curves->count; c++) {
        const struct curve *curve = &curves->curves[c];
        printf("%s: %s%s, %" PRIu32 " x (%" PRIu32 " slots x %" PRIu32 " threads), %.1f jobs/s at most\n",
               curves->model, curve->own ? "workers of plan's own, " : "",
               *curve->backend ? curve->backend : "any backend", curve->workers, curve->slots, curve->threads,
               curve->jobs_per_s);
        printf("%8s %12s %12s %12s %12s\n", "rows", "alone", "all slots", "their p99", "rows/s");
        for (size_t i = 0; i < curve->sizes_count; i++) {
            const struct curve_size *size = &curve->sizes[i];
            char p99[AMOUNT_BYTES];
            printf("%8" PRIu32 " %12s %12s %12s %12.1f\n", size->rows, duration(size->alone.mean_us, a),
                   duration(size->all.mean_us, b), duration(spread_at(&size->all, 0.99), p99),
                   size->rows * 1e6 * curve->slots * curve->workers / size->all.mean_us);
        }
        printf("beside the run: %s there and back, %s of a slot's time for each job\n",
               duration(curve->way_alone.mean_us, a), duration(curve->gap_us, b));
        if (curve_is_noisy(curve)) {
            printf(
                "The machine was not quiet: one time in a hundred is many times the middle one. Plans from these times "
                "hold as long as it is no busier.\n");
        }
        printf("\n");
    }
}

static void setting_line(const struct plan_goal *goal, const struct plan_setting *s)
{
    bool more = s->rate_max > 0.99 * PLAN_RATE_MOST * goal->rate;
    const struct curve *curve = s->setting.curve;
    char delay[AMOUNT_BYTES], p50[AMOUNT_BYTES], at[AMOUNT_BYTES];
    printf("%7" PRIu32 " %5" PRIu32 " %7" PRIu32 " %-10.10s %5" PRIu32 " %9s %5" PRIu32
           " %10s %10s %6.0f %% %4.0f %% %8.1f %2s%7.0f/s\n",
           s->setting.workers, curve->slots, curve->threads, curve->backend, s->setting.batch,
           s->setting.delay_us ? duration((double)s->setting.delay_us, delay) : "0", s->cores,
           duration(s->result.p50_us, p50), duration(s->result.at_slo_us, at), 100.0 * s->margin,
           100.0 * s->result.busy, s->result.batch_mean, more ? ">" : "", s->rate_max);
}

void plan_found_text(const struct plan_goal *goal, const struct plan_found *found)
{
    char quantile[24], limit[AMOUNT_BYTES];
    printf("%s below %s at %.6g jobs/s, with %.0f %% of it kept free:\n", plan_quantile(goal->share, quantile),
           duration(goal->limit_us, limit), goal->rate, 100.0 * goal->margin);
    if (found->count == 0) {
        char text[512];
        printf("%s\n", plan_refusal(goal, found, text, sizeof text));
        return;
    }
    printf("%7s %5s %7s %-10s %5s %9s %5s %10s %10s %8s %6s %8s %11s\n", "workers", "slots", "threads", "backend",
           "batch", "delay", "cores", "p50", quantile, "margin", "busy", "in a run", "holds up to");
    for (size_t i = 0; i < found->count && i < PLAN_SHOWN; i++) {
        setting_line(goal, &found->settings[i]);
    }
}

const char *plan_refusal(const struct plan_goal *goal, const struct plan_found *found, char *text, size_t bytes)
{
    char quantile[24], limit[AMOUNT_BYTES], took[AMOUNT_BYTES];
    plan_quantile(goal->share, quantile);
    duration(goal->limit_us, limit);
    *text = '\0';
    if (found->count) {
        return text;
    }
    if (!found->has_nearest) {
        snprintf(text, bytes, "no number of workers holds %s below %s: one job alone takes %s at %s.", quantile, limit,
                 duration(found->alone_us, took), quantile);
        return text;
    }
    const struct plan_setting *near = &found->nearest;
    bool overload = near->result.busy > PLAN_BUSY_MAX || !isfinite(near->result.at_slo_us);
    snprintf(text, bytes,
             "no setting with at most %" PRIu32
             " workers holds %s below %s at %.6g jobs/s with %.0f %% kept free: %s%s; "
             "allow more workers (--workers-max), a longer time, or less margin (--margin).",
             goal->workers_max, quantile, limit, goal->rate, 100.0 * goal->margin,
             overload ? "their slots would be busy for more than 85 % of the time" : "the best comes to ",
             overload ? "" : duration(near->result.at_slo_us, took));
    return text;
}

void plan_proof_text(const struct plan_goal *goal, const struct plan_setting *setting, const struct plan_proof *proof)
{
    char quantile[24], limit[AMOUNT_BYTES], at[AMOUNT_BYTES];
    plan_quantile(goal->share, quantile);
    printf("proof: %" PRIu64 " jobs at %.6g/s over %.1f s on %" PRIu32 " %s: %s %s, %" PRIu64
           " errors: the promise of %s %s.\n",
           proof->requests, proof->rate, proof->seconds, proof->workers, proof->workers == 1 ? "worker" : "workers",
           quantile, duration(proof->at_slo_us, at), proof->errors, duration(goal->limit_us, limit),
           proof->held ? "held" : "DID NOT HOLD");
    if (proof->workers != setting->setting.workers) {
        printf(
            "The plan is of %" PRIu32 " workers and the pool has %" PRIu32
            ": it was offered its part of the rate. Fewer workers make jobs wait rather longer, more rather shorter.\n",
            setting->setting.workers, proof->workers);
    }
}

/* ---- JSON ---- */

cJSON *plan_goal_json(const struct plan_goal *goal)
{
    char quantile[24];
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "quantile", plan_quantile(goal->share, quantile));
    cJSON_AddNumberToObject(json, "limit_us", goal->limit_us);
    cJSON_AddNumberToObject(json, "rate", goal->rate);
    cJSON_AddNumberToObject(json, "margin", goal->margin);
    return json;
}

static cJSON *setting_json(const struct plan_setting *s)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "workers", s->setting.workers);
    cJSON_AddNumberToObject(json, "slots", s->setting.curve->slots);
    cJSON_AddNumberToObject(json, "threads", s->setting.curve->threads);
    cJSON_AddStringToObject(json, "backend", s->setting.curve->backend);
    cJSON_AddNumberToObject(json, "batch", s->setting.batch);
    cJSON_AddNumberToObject(json, "delay_us", (double)s->setting.delay_us);
    cJSON_AddNumberToObject(json, "cores", s->cores);
    cJSON_AddNumberToObject(json, "p50_us", s->result.p50_us);
    cJSON_AddNumberToObject(json, "p99_us", s->result.p99_us);
    cJSON_AddNumberToObject(json, "at_slo_us", s->result.at_slo_us);
    cJSON_AddNumberToObject(json, "margin", s->margin);
    cJSON_AddNumberToObject(json, "busy", s->result.busy);
    cJSON_AddNumberToObject(json, "batch_mean", s->result.batch_mean);
    cJSON_AddNumberToObject(json, "rate_max", s->rate_max);
    return json;
}

cJSON *plan_settings_json(const struct plan_found *found)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < found->count && i < PLAN_SHOWN; i++) {
        cJSON_AddItemToArray(list, setting_json(&found->settings[i]));
    }
    return list;
}

cJSON *plan_proof_json(const struct plan_proof *proof)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "held", proof->held);
    cJSON_AddNumberToObject(json, "at_slo_us", proof->at_slo_us);
    cJSON_AddNumberToObject(json, "rate", proof->rate);
    cJSON_AddNumberToObject(json, "workers", proof->workers);
    cJSON_AddNumberToObject(json, "requests", (double)proof->requests);
    cJSON_AddNumberToObject(json, "errors", (double)proof->errors);
    cJSON_AddNumberToObject(json, "throughput_per_s", proof->answers_per_s);
    cJSON_AddNumberToObject(json, "seconds", proof->seconds);
    return json;
}

/* ---- the chart ---- */

enum pen_status plan_chart_make(const struct plan_goal *goal, const struct plan_setting *setting,
                                struct plan_chart *ret_chart, struct pen_error *reterr)
{
    double most = setting->rate_max > goal->rate ? setting->rate_max : goal->rate;
    struct plan_chart *c = ret_chart;
    enum pen_status status = PEN_OK;
    for (unsigned i = 0; i < PLAN_CHART_STEPS && status == PEN_OK; i++) {
        double rate = 1.25 * most * (double)(i + 1) / PLAN_CHART_STEPS;
        struct sim_result result = {.p50_us = 0.0};
        bool holds;
        status = plan_judge(&setting->setting, goal, rate, &result, &holds, reterr);
        bool steady = result.busy < 0.98 && result.at_slo_us < 10.0 * goal->limit_us;
        c->points[i] = (struct chart_point){rate, steady ? result.p50_us / 1e3 : INFINITY};
        c->points[PLAN_CHART_STEPS + i] = (struct chart_point){rate, steady ? result.at_slo_us / 1e3 : INFINITY};
    }
    snprintf(c->title, sizeof c->title,
             "%" PRIu32 " workers x %" PRIu32 " slots x %" PRIu32 " threads, batch %" PRIu32 ", delay %.2f ms",
             setting->setting.workers, setting->setting.curve->slots, setting->setting.curve->threads,
             setting->setting.batch, (double)setting->setting.delay_us / 1e3);
    snprintf(c->limit, sizeof c->limit, "limit %.6g ms", goal->limit_us / 1e3);
    plan_quantile(goal->share, c->quantile);
    c->chart = (struct chart){
        .title = c->title,
        .x_label = "jobs per second",
        .y_label = "latency in ms",
        .series = {{"p50", c->points, PLAN_CHART_STEPS}, {c->quantile, c->points + PLAN_CHART_STEPS, PLAN_CHART_STEPS}},
        .series_count = 2,
        .limit = goal->limit_us / 1e3,
        .limit_name = c->limit};
    return status;
}
