/*
 * plan_search.h - which settings hold a promise about latency at a rate, by simulation over measured curves.
 *
 * A setting holds when the simulated latency at the quantile stays below the limit by the margin, and its jobs need at most PLAN_BUSY_MAX of its slots' time.
 * Threads: any.
 */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "queue_sim.h"

#define PLAN_BUSY_MAX     0.85
#define PLAN_RATE_MOST    4.0 /* times the rate: a setting that holds more is not looked into */
#define PLAN_SETTINGS_MAX 64u

struct plan_goal {
    double share;    /* 0.99 for p99 */
    double limit_us; /* the latency must be below */
    double rate;     /* jobs per second */
    double margin;   /* of the limit that must stay free, 0..0.9 */
    uint32_t workers_max;
    uint64_t seed;
};

/* A setting that holds. */
struct plan_setting {
    struct sim_setting setting;
    struct sim_result result;
    uint32_t cores;  /* workers x slots x threads */
    double margin;   /* of the limit that stays free */
    double rate_max; /* the largest rate at which it holds, margin included; at most PLAN_RATE_MOST times the goal */
};

struct plan_found {
    size_t count;
    struct plan_setting settings[PLAN_SETTINGS_MAX]; /* the fewest cores first, then the lowest latency */
    /* The best there is when none holds. */
    double alone_us; /* a job that finds an idle worker, at the quantile */
    struct plan_setting nearest;
    bool has_nearest;
};

/* Of each curve and batch size the setting with the fewest workers. NO_MEMORY. */
enum pen_status plan_search(const struct curves *curves, const struct plan_goal *goal, struct plan_found *ret_found,
                            struct pen_error *reterr);
/* Whether a setting holds at that rate. NO_MEMORY. */
enum pen_status plan_judge(const struct sim_setting *setting, const struct plan_goal *goal, double rate,
                           struct sim_result *ret_result, bool *ret_holds, struct pen_error *reterr);
/* A job that finds an idle worker, at the quantile. */
double plan_alone_us(const struct curve *curve, const struct plan_goal *goal);

#endif
