/*
 * hedge.h - runs a job a second time, on an idle worker, when it takes longer than 95 of 100 jobs of its kind. The
 * second run is the hedge. The first answer counts; the broker cancels the other run.
 *
 * Off unless --hedge is given. A hedge uses its worker's credit like any dispatch, but it does not count as a second
 * job: the job has its dispatch and perhaps a hedge. At most one hedge per job, and hedges are at most 5 % of the
 * dispatches.
 * Threads: owner.
 */
#ifndef HEDGE_H
#define HEDGE_H

#include "broker_state.h"

/* Looks for jobs that are late and sends hedges; broker->hedge_us: when to look again. */
void hedge_tick(struct broker *broker);

/* The job has been answered, or nobody waits for it: tells the hedge that still runs to stop. */
void hedge_drop(struct broker *broker, struct job *job);
/* The job's dispatch is void: the hedge, if there is one, becomes the dispatch. True: there was one, and the job is
   still running. */
bool hedge_succeed(struct job *job);
/* A worker is lost or sent a run back. True: this slot held only the job's hedge, which is forgotten; the dispatch
   still runs. */
bool hedge_forget(struct job *job, const struct dispatch *dispatch, uint32_t slot);
/* The hedge answered first: swaps hedge and dispatch, so that the answer is that of the dispatch. */
void hedge_answered(struct job *job, const struct dispatch *dispatch, uint32_t slot);

#endif
