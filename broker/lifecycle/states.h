/*
 * states.h - the only writer of a job's state and of the counts that follow from it: jobs that live, wait and run, the bytes that wait.
 *
 * The edges between states are a table (states.c; broker/README.md, "States of a job"); one that is not in it is a mistake of ours and ends the program.
 * Threads: owner.
 */
#ifndef STATES_H
#define STATES_H

#include "broker_state.h"

/* Into another state; the caller has moved it from one list to the other. */
void states_set(struct job *job, enum job_state state);

/* A new job counts as live and as waiting from here on. Its queue has counted it: queue_enter, or queue_add beyond the limit. */
void states_admit(struct broker *broker, struct job *job);
/* Among those that wait again, beyond the limit if need be: it was admitted once. */
void states_wait(struct broker *broker, struct job *job);
/* It waits no more; its state is the caller's next word. */
void states_wait_no_more(struct broker *broker, struct job *job);
/* It waited under another priority. */
void states_reorder(struct job *job, uint8_t priority);

/* JOB_DISPATCHED or JOB_STEPS: it counts as running. */
void states_run(struct job *job, enum job_state state);
void states_run_no_more(const struct job *job);

/* The end: it is neither live nor a user of its model any more. */
void states_done(struct broker *broker, struct job *job);
/* To another model, while it is in no state but waiting (reroute). */
void states_change_model(struct job *job, struct lane *to);

/* Bytes that count as waiting and belong to no job that waits: payloads on their way, what the steps of ensembles gave. */
void states_hold_bytes(struct broker *broker, uint64_t bytes);
void states_give_bytes(struct broker *broker, uint64_t bytes);

#endif
