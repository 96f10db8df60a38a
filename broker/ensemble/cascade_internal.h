/*
 * cascade_internal.h - what cascade.c, cascade_step.c and cascade_flow.c share: the record of one ensemble's job on its way. Nobody else includes this.
 * Threads: owner.
 */
#ifndef CASCADE_INTERNAL_H
#define CASCADE_INTERNAL_H

#include "cascade.h"
#include "letter.h"

struct cascade_step {
    struct job *job; /* under way */
    struct parcel *reply;
    enum pen_status status;           /* of what came */
    bool came;                        /* it has ended, and what it gave is not looked at yet */
    const Penstock__ResultMeta *meta; /* of it, in the arena */
    struct digest model;              /* of the content that ran */
    struct explained_step told;
};

struct cascade {
    struct table_node by_number;
    uint64_t number;
    struct effect moves;   /* EFFECT_ENSEMBLE_MOVES */
    struct job *job;       /* the whole; a twin of it when its own job has gone; NULL: that was answered */
    struct job_id origin;  /* whose request runs */
    struct parcel *source; /* that request */
    struct script *script;
    const Penstock__JobMeta *request;
    struct meta_arena arena;
    struct letter_tensor inputs[FRAME_MAX_TENSORS]; /* in the order of the request */
    struct letter_tensor flows[SCRIPT_TENSORS_MAX]; /* without a parcel: not there yet */
    struct cascade_step steps[SCRIPT_STEPS_MAX];
    const Penstock__ResultMeta *last; /* of the step that ended last */
    uint64_t bytes, compute_us, worker_us;
    uint8_t precision;            /* the least of all steps */
    const char *backend, *device; /* of all steps, or "several"; NULL: none has ended */
    bool over;                    /* what its steps give is not wanted any more */
};

struct cascades {
    struct table by_number;
    uint64_t uuid, count; /* first halves of the steps' ids; given so far */
};

/* Steps' ids: our uuid, and number and index in one. */
static inline uint64_t cascade_number(struct job_id id)
{
    return (id.sequence - 1) / SCRIPT_STEPS_MAX;
}

static inline size_t cascade_index(struct job_id id)
{
    return (id.sequence - 1) % SCRIPT_STEPS_MAX;
}

struct cascade *cascade_find(const struct cascades *cascades, uint64_t number); /* NULL: there is none any more */

/* Looks at what its steps gave, and starts those that can start; the whole may end. */
void cascade_go_on(struct broker *broker, struct cascade *cascade);
/* Starts what can be started, until the whole is over. */
void cascade_start_ready(struct broker *broker, struct cascade *cascade);
/* A step has failed or cannot begin: the whole ends with that, or runs by itself when it was only left this run. */
void cascade_fail(struct broker *broker, struct cascade *cascade, size_t index, enum pen_status status,
                  const char *text);
/* It is not to go on: its effect cancels the steps. The record lives until its job has been answered, and they have. */
void cascade_stop(struct broker *broker, struct cascade *cascade);
/* Its job, which it was left by another, waits again and runs by itself. */
void cascade_run_again(struct broker *broker, struct cascade *cascade);
bool cascade_is_own(const struct cascade *cascade); /* it runs its job's own request */

#endif
