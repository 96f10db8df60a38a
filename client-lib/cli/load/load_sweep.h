/*
 * load_sweep.h - the same load at several concurrencies or rates, and the curve of latency over throughput.
 *
 * Threads: owner.
 */
#ifndef LOAD_SWEEP_H
#define LOAD_SWEEP_H

#include "chart.h"
#include "load_run.h"

#define SWEEP_STEPS_MAX 64u

struct load_sweep {
    bool rates; /* open loop: values are jobs per second; else jobs in flight */
    size_t count;
    double values[SWEEP_STEPS_MAX];
};

/*
 * "concurrency=FROM..TO", "rate=FROM..TO", each with ":STEP" or not. Without a step each value is twice the one before; the last value is always TO.
 * INVALID: the sentence says what is wrong.
 */
enum pen_status sweep_parse(const char *text, struct load_sweep *ret_sweep, struct pen_error *reterr);

/* One run. */
struct sweep_step {
    double value;
    struct load_report *report;
};

/* Runs them all, one after another, and tells each to `each` as soon as it is done. NO_MEMORY. Free the steps. */
enum pen_status sweep_run(const struct load_sweep *sweep, const struct load_plan *plan,
                          void (*each)(const struct load_sweep *sweep, const struct sweep_step *step),
                          struct sweep_step ret_steps[SWEEP_STEPS_MAX], struct pen_error *reterr);
void sweep_free(struct sweep_step *steps, size_t count);

/* p50 and p99 in ms over answers per second. The points live in points[2 * count]. */
void sweep_chart(const char *model, const struct sweep_step *steps, size_t count, struct chart_point *points,
                 struct chart *ret_chart);

#endif
