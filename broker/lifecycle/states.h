/*
 * states.h - the only file that writes a job's state and the counts that follow from it: live, waiting and running
 * jobs, and waiting bytes.
 *
 * A table lists the allowed changes of state (states.c; broker/README.md, "States of a job"). Any other change is a bug
 * and ends the program.
 * Threads: owner.
 */
#ifndef STATES_H
#define STATES_H

#include "broker_state.h"

/* Changes the state; the caller has already moved the job from one list to the other. */
void states_set(struct job *job, enum job_state state);

/* A new job counts as live and waiting from here on. Its queue has counted it already (queue_enter, or queue_add
   beyond the limit). */
void states_admit(struct broker *broker, struct job *job);
/* The job waits again, even beyond the limit, because it was admitted before. */
void states_wait(struct broker *broker, struct job *job);
/* The job waits no more; the caller sets its next state. */
void states_wait_no_more(struct broker *broker, struct job *job);
/* Gives the job, which waits and is in no lane, another priority. */
void states_reorder(struct job *job, uint8_t priority);

/* The job's new state is JOB_DISPATCHED or JOB_STEPS: it counts as running. */
void states_run(struct job *job, enum job_state state);
void states_run_no_more(const struct job *job);

/* The job ends: it does not count as live any more, and its model loses a user. */
void states_done(struct broker *broker, struct job *job);
/* Moves a job to another model (reroute). The job may be in no state but waiting. */
void states_change_model(struct job *job, struct lane *to);

/* Counts bytes as waiting that belong to no waiting job: payloads that are still coming, and the outputs of
   ensembles' steps. */
void states_hold_bytes(struct broker *broker, uint64_t bytes);
void states_give_bytes(struct broker *broker, uint64_t bytes);

#endif
