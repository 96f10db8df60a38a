/*
 * plan_run_internal.h - what measuring and proving share, on the pool (plan_theirs.c) and on workers of plan's own (plan_own.c).
 *
 * Threads: owner - the main thread.
 */
#ifndef PLAN_RUN_INTERNAL_H
#define PLAN_RUN_INTERNAL_H

#include "plan_run.h"

#define PLAN_NEEDS_MAX (SETTING_LIST_MAX + 1)

/* What jobs of a measurement or a proof are. */
struct plan_jobs {
    struct request request;
    const char *needs[PLAN_NEEDS_MAX];
    char threads[32];
};

/* Jobs as the options say, but never from the cache: a run is what is measured. */
enum pen_status plan_jobs_make(const struct plan_options *o, const char *model, struct plan_jobs *jobs,
                               struct pen_error *reterr);
/* Only on workers of this kind. */
void plan_jobs_pin(struct plan_jobs *jobs, const struct curve *curve);
bool plan_is_batched(const struct pen_model *model);
/* Empty curves of the model. */
void plan_head_make(const struct pen_model *model, struct curves *curves);
enum pen_status plan_measure_kind(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                                  const struct pen_job_options *job, uint32_t rows_max, struct curve *curve,
                                  struct pen_error *reterr);
/* Offers proof->rate at random times and fills the rest of the proof. */
enum pen_status plan_prove_with(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                                const struct plan_goal *goal, const struct pen_job_options *job,
                                struct plan_proof *proof, struct pen_error *reterr);

#endif
