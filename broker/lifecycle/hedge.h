/*
 * hedge.h - a job that takes longer than 95 of 100 of its kind is run a second time, on an idle worker: the hedge. The first answer counts, the other run is cancelled.
 *
 * Off unless --hedge is given. The hedge holds credit of its worker like any dispatch, but is not counted as a second job: the job has one
 * place (its dispatch) and perhaps a second one (its hedge). At most one hedge per job, and hedges are at most 5 % of the dispatches.
 * Threads: owner.
 */
#ifndef HEDGE_H
#define HEDGE_H

#include "broker_state.h"

/* Looks for jobs that are late and sends hedges; broker->hedge_us: when to look again. */
void hedge_tick(struct broker *broker);

/* The job's answer came, or nobody waits for it: the hedge that still runs is told to stop. */
void hedge_drop(struct broker *broker, struct job *job);
/* The job's dispatch is void: the hedge, if there is one, takes its place. True: it did, and the job is where it should be. */
bool hedge_succeed(struct job *job);
/* A slot's worker is gone or sent the hedge back. True: that slot held only the hedge, which is forgotten. */
bool hedge_forget(struct job *job, const struct dispatch *dispatch, uint32_t slot);
/* The hedge answered first: the places change, so that the answer is the dispatch's own. */
void hedge_answered(struct job *job, const struct dispatch *dispatch, uint32_t slot);

#endif
