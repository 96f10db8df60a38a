/*
 * ensemble_run.h - the job of an ensemble that no single worker has whole: its steps run as jobs of their own, on the workers that suit them.
 *
 * A step is a job in its client's session under an id of ours: it waits, runs, is retried and cancelled like any other. Steps that need nothing from each
 * other run at the same time. What they give is kept until the whole is answered, frames shared and not copied; a step that fails ends the whole and is
 * named. Where some worker has all models the job goes there instead and none of this happens.
 * Identical jobs join such a run, and its result is cached, under the digest that a worker with all of its models would have: the broker computes the
 * request's digest itself (nobody else has seen the whole request) and compares the contents that ran. A run whose own job goes is left to the first that
 * joined.
 * Threads: owner.
 */
#ifndef ENSEMBLE_RUN_H
#define ENSEMBLE_RUN_H

#include "broker_state.h"
#include "ensemble_models.h"

struct ensembles;
struct ending;
struct ensembles *ensembles_new(void);            /* NULL without memory */
void ensembles_free(struct ensembles *ensembles); /* no job is live any more; NULL is fine */

/* How jobs of an ensemble that no worker has whole run: their steps are jobs of their own. */
extern const struct job_course ensemble_course;
/* Who is told the end of those. */
extern const struct job_owner ensemble_step_owner;
/* Workers have come or gone: waiting jobs of ensembles may begin now. */
void ensemble_look(struct broker *broker);
/* EFFECT_ENSEMBLE_MOVES */
void ensemble_moves(struct broker *broker, struct effect *effect);

#endif
