/*
 * cascade.h - the job of an ensemble that no single worker has whole: its steps run as jobs of their own, on the workers that suit them.
 *
 * A step is a job in its client's session under an id of ours: it waits, runs, is retried and cancelled like any other. Steps that need nothing from each
 * other run at the same time. What they give is kept until the whole is answered, frames shared and not copied; a step that fails ends the whole and is
 * named. Where some worker has all models the job goes there instead and none of this happens.
 * Threads: owner.
 */
#ifndef CASCADE_H
#define CASCADE_H

#include "broker.h"
#include "script.h"

struct cascades;
struct cascades *cascades_new(void);           /* NULL without memory */
void cascades_free(struct cascades *cascades); /* no job is live any more; NULL is fine */

/*
 * A live job that waits, in no lane: when its model has steps, no worker has it whole and all of its steps are served, they begin and it is true (the
 * job may have ended by then). False: it waits like any other.
 */
bool cascade_begin(struct broker *broker, struct job *job);
/* Workers have come or gone: waiting jobs of ensembles may begin now. */
void cascade_look(struct broker *broker);

/* The whole ends early: its steps are cancelled. */
void cascade_cancel(struct broker *broker, struct job *job);
/* A step has ended and its record is gone. Takes the reply (NULL: there was no memory for it). */
void cascade_step_ended(struct broker *broker, struct job_id id, struct parcel *reply, enum pen_status status);

/* Are all steps served by somebody who may be given work? A model without steps: false. */
bool cascade_served(const struct broker *broker, const struct model *model);
/* "step 2 needs model 'x', which no worker offers"; "" when nothing is missing. */
const char *cascade_missing(const struct broker *broker, const struct model *model, const struct demand *demand,
                            char *text, size_t bytes);
/* Where its steps are, in a sentence; the job is in JOB_STEPS. */
const char *cascade_text(const struct job *job, char *text, size_t bytes);

#endif
