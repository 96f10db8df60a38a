/*
 * plan_run.h - the steps of `penstock plan` that need a pool: measuring it, or one of its own, and the proof.
 *
 * Threads: owner - the main thread.
 */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include "command.h"
#include "plan_measure.h"
#include "plan_pool.h"
#include "plan_search.h"
#include "plan_show.h"
#include "request.h"

struct plan_options {
    struct common common;
    struct request_settings request;
    const char *model, *slo, *image, *curves, *save, *svg, *models, *bin, *slots, *threads;
    int64_t workers_max, batch_max, point_us, proof_us, seed;
    double rate, margin;
    bool apply, prove;
    struct setting_list worker_options;
};

/* The kinds of workers that are tried on a pool of plan's own: every slots with every threads. */
struct plan_kinds {
    size_t count;
    struct {
        uint32_t slots, threads;
    } kinds[CURVES_MAX];
};

/* None without --try-slots and --try-threads. INVALID. */
enum pen_status plan_kinds_parse(const struct plan_options *o, struct plan_kinds *ret_kinds, struct pen_error *reterr);

/* Measures the kinds of workers that the pool has, or those of `kinds` on workers of its own. *ret_code: what to exit with after a failure. */
enum pen_status plan_measure_pool(const struct plan_options *o, struct curves *ret_curves, int *ret_code,
                                  struct pen_error *reterr);
enum pen_status plan_measure_own(const struct plan_options *o, const struct plan_kinds *kinds,
                                 struct curves *ret_curves, struct pen_error *reterr);

/* Offers the rate (its part, when the workers are not as many as planned) and looks at the latency. The pool: as it is; own: workers like those of the plan, as many as this machine has processors for. */
enum pen_status plan_prove_pool(const struct plan_options *o, const struct plan_goal *goal,
                                const struct plan_setting *setting, struct plan_proof *ret_proof, int *ret_code,
                                struct pen_error *reterr);
enum pen_status plan_prove_own(const struct plan_options *o, const struct plan_goal *goal,
                               const struct plan_setting *setting, bool batched, struct plan_proof *ret_proof,
                               struct pen_error *reterr);

#endif
