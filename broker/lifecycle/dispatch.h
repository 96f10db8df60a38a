/*
 * dispatch.h - from lanes to workers: batches are composed as late as idle slots and deadlines allow.
 * Threads: owner.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include "broker_state.h"

/* Moves what can move now, the most urgent head first. Sets broker->wake_us. */
void dispatch_all(struct broker *broker);

/* Puts a live job (back) into its lane. */
void dispatch_queue(struct broker *broker, struct job *job);
/* A live job, wherever it is, is at least as urgent as that from now on. */
void dispatch_raise(struct broker *broker, struct job *job, uint8_t priority);
/* Its dispatch is void: the job waits again, before all others; a suspect from now on alone in its batch, until its attempts are spent. */
void dispatch_requeue(struct broker *broker, struct job *job, bool suspect);

/*
 * Takes a live job out of wherever it is. A leader's place goes to its first follower; a worker that runs it for nobody gets a CANCEL. The job
 * stays in its session and has no state until it is answered.
 */
void dispatch_detach(struct broker *broker, struct job *job);

/* A job that waits in its lane, and that this returning worker still runs, becomes its dispatch again. False: it serves it no more, or there is no memory. */
bool dispatch_adopt(struct broker *broker, struct worker *worker, struct job *job);

/* Sends a second copy of a dispatched job to that offer's worker: hedge.h. False: that cannot be. */
bool dispatch_hedge(struct broker *broker, struct job *job, struct offer *offer);

#endif
