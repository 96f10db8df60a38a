/*
 * ensemble_run.h - runs an ensemble's job in steps, where no single worker has all of its models: each step is a job of
 * its own, on the worker that suits it.
 *
 * A step is a job in its client's session under an id that the broker makes; it waits, runs, is retried and cancelled
 * like any other. Steps that do not need each other's outputs run at the same time. The broker keeps the steps' outputs
 * until the whole is answered, and shares their frames without copying. When a step fails, the whole ends with an error
 * that names the step. When a worker has all models, the job goes to that worker and this file is not used.
 * Identical jobs join such a run, and its result is cached, under the same digest that a worker with all models would
 * give. The broker computes the request's digest itself, because no worker has seen the whole request, and compares the
 * digests of the models that ran. When the run's own job is cancelled, the first job that joined takes the run over.
 * Threads: owner.
 */
#ifndef ENSEMBLE_RUN_H
#define ENSEMBLE_RUN_H

#include "broker_state.h"
#include "ensemble_models.h"

struct ensembles;
struct ending;
struct ensembles *ensembles_new(void);            /* NULL without memory */
void ensembles_free(struct ensembles *ensembles); /* call it when no job is live any more; NULL is fine */

/* The course of an ensemble's jobs that no worker has whole: their steps are jobs of their own. */
extern const struct job_course ensemble_course;
/* Called at the end of each step's job. */
extern const struct job_owner ensemble_step_owner;
/* EFFECT_LANE_LOOK: begins waiting jobs in steps when no worker has the whole ensemble any more and each step has a
   worker. */
bool ensemble_lane(struct broker *broker, struct effect *effect);
/* EFFECT_ENSEMBLE_MOVES */
bool ensemble_moves(struct broker *broker, struct effect *effect);

#endif
