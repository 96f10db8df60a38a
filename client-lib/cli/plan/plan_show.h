/*
 * plan_show.h - a plan for people and for programs.
 *
 * Threads: owner.
 */
#ifndef PLAN_SHOW_H
#define PLAN_SHOW_H

#include <cjson/cJSON.h>

#include "chart.h"
#include "load_run.h"
#include "plan_search.h"

#define PLAN_SHOWN       10u /* settings in the table */
#define PLAN_CHART_STEPS 14u

/* What a run of load made of the best setting. */
struct plan_proof {
    double rate;      /* that was offered */
    uint32_t workers; /* that the pool had, of the kind of the plan */
    double at_slo_us; /* the latency at the quantile */
    bool held;
    uint64_t requests, errors;
    double seconds, answers_per_s;
};

/* "p99" of 0.99, "p99.9" of 0.999. */
const char *plan_quantile(double share, char text[24]);

void plan_curves_text(const struct curves *curves);
void plan_found_text(const struct plan_goal *goal, const struct plan_found *found);
void plan_proof_text(const struct plan_goal *goal, const struct plan_setting *setting, const struct plan_proof *proof);
/* The sentence when no setting holds; "" when one does. */
const char *plan_refusal(const struct plan_goal *goal, const struct plan_found *found, char *text, size_t bytes);

/* Lists for the one JSON object of the command. */
cJSON *plan_goal_json(const struct plan_goal *goal);
cJSON *plan_settings_json(const struct plan_found *found);
cJSON *plan_proof_json(const struct plan_proof *proof);

/* Latency over the rate, for a setting. The points live in points[2 * PLAN_CHART_STEPS], title and limit in texts. NO_MEMORY. */
struct plan_chart {
    struct chart chart;
    struct chart_point points[2 * PLAN_CHART_STEPS];
    char title[160], limit[32], quantile[24];
};
enum pen_status plan_chart_make(const struct plan_goal *goal, const struct plan_setting *setting,
                                struct plan_chart *ret_chart, struct pen_error *reterr);

#endif
