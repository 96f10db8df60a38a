/*
 * ensemble_internal.h - what ensemble_run.c, ensemble_step.c and ensemble_flow.c share: the record of one ensemble's job on its way. Nobody else includes this.
 * Threads: owner.
 */
#ifndef ENSEMBLE_INTERNAL_H
#define ENSEMBLE_INTERNAL_H

#include "ensemble_run.h"
#include "group_builder.h"

struct ensemble_step {
    struct job *job; /* under way */
    struct shared_message *reply;
    enum pen_status status;           /* of what came */
    bool came;                        /* it has ended, and what it gave is not looked at yet */
    const Penstock__ResultMeta *meta; /* of it, in the arena */
    struct digest model;              /* of the content that ran */
    struct explained_step told;
};

struct ensemble_run {
    struct table_node by_number;
    uint64_t number;
    struct effect moves;           /* EFFECT_ENSEMBLE_MOVES */
    struct job *job;               /* the whole; an identical one when its own job has gone; NULL: that was answered */
    struct job_id origin;          /* whose request runs */
    struct shared_message *source; /* that request */
    struct ensemble_plan *plan;
    const Penstock__JobMeta *request;
    struct meta_arena arena;
    struct group_tensor inputs[FRAME_MAX_TENSORS];        /* in the order of the request */
    struct group_tensor flows[ENSEMBLE_PLAN_TENSORS_MAX]; /* without a message: not there yet */
    struct ensemble_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    const Penstock__ResultMeta *last; /* of the step that ended last */
    uint64_t bytes, compute_us, worker_us;
    uint8_t precision;            /* the least of all steps */
    const char *backend, *device; /* of all steps, or "several"; NULL: none has ended */
    bool over;                    /* what its steps give is not wanted any more */
};

struct ensembles {
    struct table by_number;
    uint64_t uuid, count; /* first halves of the steps' ids; given so far */
};

/* Steps' ids: our uuid, and number and index in one. */
static inline uint64_t ensemble_number(struct job_id id)
{
    return (id.sequence - 1) / ENSEMBLE_PLAN_STEPS_MAX;
}

static inline size_t ensemble_index(struct job_id id)
{
    return (id.sequence - 1) % ENSEMBLE_PLAN_STEPS_MAX;
}

struct ensemble_run *ensemble_find(const struct ensembles *ensembles,
                                   uint64_t number); /* NULL: there is none any more */

/* Looks at what its steps gave, and starts those that can start; the whole may end. */
void ensemble_go_on(struct broker *broker, struct ensemble_run *ensemble);
/* Starts what can be started, until the whole is over. */
void ensemble_start_ready(struct broker *broker, struct ensemble_run *ensemble);
/* A step has failed or cannot begin: the whole ends with that, or runs by itself when it was only left this run. */
void ensemble_fail(struct broker *broker, struct ensemble_run *ensemble, size_t index, enum pen_status status,
                   const char *text);
/* It is not to go on: its effect cancels the steps. The record lives until its job has been answered, and they have. */
void ensemble_stop(struct broker *broker, struct ensemble_run *ensemble);
/* Its job, which it was left by another, waits again and runs by itself. */
void ensemble_run_again(struct broker *broker, struct ensemble_run *ensemble);
bool ensemble_is_own(const struct ensemble_run *ensemble); /* it runs its job's own request */

#endif
