/*
 * cascade.h - the job of an ensemble that no single worker has whole: its steps run as jobs of their own, on the workers that suit them.
 *
 * A step is a job in its client's session under an id of ours: it waits, runs, is retried and cancelled like any other. Steps that need nothing from each
 * other run at the same time. What they give is kept until the whole is answered, frames shared and not copied; a step that fails ends the whole and is
 * named. Where some worker has all models the job goes there instead and none of this happens.
 * Identical jobs join such a run, and its result is cached, under the digest that a worker with all of its models would have: the broker computes the
 * request's digest itself (nobody else has seen the whole request) and compares the contents that ran. A run whose own job goes is left to the first that
 * joined.
 * Threads: owner.
 */
#ifndef CASCADE_H
#define CASCADE_H

#include "broker_state.h"
#include "cascade_models.h"

struct cascades;
struct ending;
struct cascades *cascades_new(void);           /* NULL without memory */
void cascades_free(struct cascades *cascades); /* no job is live any more; NULL is fine */

/*
 * A live job that waits, in no lane: when its model has steps, no worker has it whole and all of its steps are served, they begin and it is true (the
 * job may have ended by then). False: it waits like any other.
 */
bool cascade_begin(struct broker *broker, struct job *job);
/* Workers have come or gone: waiting jobs of ensembles may begin now. */
void cascade_look(struct broker *broker);

/* The whole (JOB_STEPS) ends early: its steps are cancelled. Nothing when they have ended. */
void cascade_cancel(struct broker *broker, struct job *job);
/* The whole ends early, and a twin of it, out of all lists, takes over what runs. */
void cascade_pass(struct broker *broker, struct job *from, struct job *to);
/* The whole is as urgent as that. */
void cascade_raise(struct broker *broker, struct job *job, uint8_t priority);
/* The whole (JOB_STEPS) has another client, turn or deadline: its steps have, too. */
void cascade_moved(struct broker *broker, struct job *job);
/* The job (JOB_STEPS) has been answered. */
void cascade_release(struct broker *broker, struct job *job);

/* A step ends, and its record is there still. */
void cascade_step_leaves(struct broker *broker, const struct job *job, const struct ending *ending);
/* A step has ended and its record is gone. Takes the reply (NULL: there was no memory for it). */
void cascade_step_ended(struct broker *broker, struct job_id id, struct parcel *reply, enum pen_status status);
/* The job that it is a step of; the step itself when that has ended. */
const struct job *cascade_whole(const struct broker *broker, const struct job *step);

/* Where its steps are, in a sentence; the job is in JOB_STEPS. */
const char *cascade_text(const struct job *job, char *text, size_t bytes);
/* The same as figures, room for SCRIPT_STEPS_MAX; returns their number. */
size_t cascade_explain(const struct broker *broker, const struct job *job, struct explained_step *ret_steps);

#endif
