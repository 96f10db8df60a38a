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

/* How jobs of an ensemble that no worker has whole run: their steps are jobs of their own. */
extern const struct job_course cascade_course;
/* Who is told the end of those. */
extern const struct job_owner cascade_step_owner;
/* Workers have come or gone: waiting jobs of ensembles may begin now. */
void cascade_look(struct broker *broker);
/* EFFECT_ENSEMBLE_MOVES */
void cascade_moves(struct broker *broker, struct effect *effect);

#endif
