/*
 * ensemble_internal.h - what ensemble_run.c, ensemble_step.c and ensemble_flow.c share: the record of an ensemble's job
 * while its steps run. Nobody else includes this.
 * Threads: owner.
 */
#ifndef ENSEMBLE_INTERNAL_H
#define ENSEMBLE_INTERNAL_H

#include "ensemble_run.h"
#include "group_builder.h"

struct ensemble_step {
    struct job *job; /* the step's job while it runs */
    struct shared_message *reply;
    enum pen_status status;           /* how the step ended */
    bool came;                        /* the step has ended, and its outputs have not been looked at yet */
    const Penstock__ResultMeta *meta; /* of the step's result, in the arena */
    struct digest model;              /* digest of the model that ran */
    struct explained_step told;
};

struct ensemble_run {
    struct table_node by_number;
    uint64_t number;
    struct effect moves;           /* EFFECT_ENSEMBLE_MOVES */
    struct job *job;               /* the whole; an identical one when that was cancelled; NULL: answered */
    struct job_id origin;          /* id of the job whose request runs */
    struct shared_message *source; /* the request of `origin` */
    struct ensemble_plan *plan;
    const Penstock__JobMeta *request;
    struct meta_arena arena;
    struct group_tensor inputs[FRAME_MAX_TENSORS];        /* in the order of the request */
    struct group_tensor flows[ENSEMBLE_PLAN_TENSORS_MAX]; /* no message: does not exist yet */
    struct ensemble_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    const Penstock__ResultMeta *last; /* of the step that ended last */
    uint64_t bytes, compute_us, worker_us;
    uint8_t precision;                /* the lowest of all steps */
    const char *backend, *device;     /* of all steps; "several" when they differ; NULL: no step has ended */
    Penstock__MeasuredError measured; /* of the whole, as its steps tell it: the worst of those that may err */
    bool unmeasured; /* nothing follows: a step says nothing of its error, or one that feeds another is not exact */
    bool over;       /* nobody wants the outputs of its steps any more */
};

struct ensembles {
    struct table by_number;
    uint64_t uuid, count; /* uuid: first half of the steps' ids; count: ids given so far */
};

/* A step's id has our uuid as its first half; the second half holds the run's number and the step's index. */
static inline uint64_t ensemble_number(struct job_id id)
{
    return (id.sequence - 1) / ENSEMBLE_PLAN_STEPS_MAX;
}

static inline size_t ensemble_index(struct job_id id)
{
    return (id.sequence - 1) % ENSEMBLE_PLAN_STEPS_MAX;
}

struct ensemble_run *ensemble_find(const struct ensembles *ensembles, uint64_t number); /* NULL: that run has ended */

/* Looks at the outputs of steps that have ended, and starts the steps that can start now. The whole may end. */
void ensemble_go_on(struct broker *broker, struct ensemble_run *ensemble);
/* Starts all steps that can start, unless the whole is over. */
void ensemble_start_ready(struct broker *broker, struct ensemble_run *ensemble);
/* A step has failed or cannot begin: the whole ends with that error. Where the run began for another job, this job
   runs again by itself. */
void ensemble_fail(struct broker *broker, struct ensemble_run *ensemble, size_t index, enum pen_status status,
                   const char *text);
/* Ends the run: its effect cancels the steps. The record lives until the job and all steps have been answered. */
void ensemble_stop(struct broker *broker, struct ensemble_run *ensemble);
/* Its job took this run over from another job; it waits again and runs by itself. */
void ensemble_run_again(struct broker *broker, struct ensemble_run *ensemble);
bool ensemble_is_own(const struct ensemble_run *ensemble); /* it runs its job's own request */

#endif
