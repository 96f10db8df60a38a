/*
 * dispatch.h - sends jobs from lanes to workers. It composes batches as late as idle slots and deadlines allow.
 * Threads: owner.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include "broker_state.h"

/* Sends all jobs that can start now, the most urgent head of a lane first. Sets broker->wake_us. */
void dispatch_all(struct broker *broker);

/* Puts a live job (back) into its lane. */
void dispatch_queue(struct broker *broker, struct job *job);
/* From now on the job is at least as urgent as that, wherever it is. */
void dispatch_raise(struct broker *broker, struct job *job, uint8_t priority);
/* The dispatch of the job is void: the job waits again, before all others. A suspect is alone in its batches from
   now on, until its attempts are spent. */
void dispatch_requeue(struct broker *broker, struct job *job, enum blame blame);

/*
 * Takes a live job out of its lane, dispatch or single flight. A leader's first follower takes its place; when no job
 * needs the worker's run any more, the worker gets a CANCEL. The job stays in its session and has no state until it is
 * answered.
 */
void dispatch_detach(struct broker *broker, struct job *job);

/* Takes a job (JOB_HANDED) from the list of those that another broker was offered; the caller places it anew. */
void dispatch_unhand(struct broker *broker, struct job *job);
/* The job ends here while another broker may have it (JOB_HANDED): that one is told CANCEL. Does nothing for a job in
   any other state. */
void dispatch_recall(struct broker *broker, const struct job *job);

/* A worker has come back and still runs a job that waits in its lane: makes the run the job's dispatch again. False:
   the worker does not serve the job any more, or there is no memory. */
bool dispatch_adopt(struct broker *broker, struct worker *worker, struct job *job);

/* Sends a second copy of a dispatched job to that offer's worker: hedge.h. False: this is not possible. */
bool dispatch_hedge(struct broker *broker, struct job *job, struct offer *offer);

#endif
