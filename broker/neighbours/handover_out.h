/*
 * handover_out.h - a draining broker gives its waiting jobs to a neighbour under their ids, and sends their clients
 * there.
 *
 * Steps of a job: JOB_QUEUED; SUBMIT with JobMeta.handed to the neighbour: JOB_HANDED; HANDED OK from there: the job ends
 * here without an answer (owner `handed`), and a RESUME sends its client after it. HANDED with another status, silence
 * for --liveness, or a neighbour that was started again: the job waits here again, in its old place, and is not offered a
 * second time. The client is the one that holds a job until its answer has come, and sends it again wherever it goes;
 * so either broker may end at each step, and the job still ends once.
 *
 * Stay here: jobs of clients that do not follow (ClientHello.follows), of sequences, suspects, jobs in debug mode,
 * detached jobs, and all that runs.
 * Threads: owner.
 */
#ifndef HANDOVER_OUT_H
#define HANDOVER_OUT_H

#include "broker_state.h"

/* Due while the broker drains: offers jobs, and tells clients where to go. */
void handover_tick(struct broker *broker);
uint64_t handover_next_us(const struct broker *broker);
/* True while a client has yet to be told where to go. */
bool handover_owes(const struct broker *broker);

/* HANDED came from that neighbour. */
void handover_answered(struct broker *broker, const struct neighbour *from, const struct envelope *env);
/* A client cancels a job that is not here any more: the neighbour that may have it is told. */
void handover_recall(struct broker *broker, const struct envelope *env);
/* That neighbour has lost what it was told: the jobs that it was offered wait here again. */
void handover_lost(struct broker *broker, const struct neighbour *from);

/* The owner of a job that another broker has taken. */
extern const struct job_owner handover_owner;

#endif
