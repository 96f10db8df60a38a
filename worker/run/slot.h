/*
 * slot.h - a compute slot: one thread with a seat at every model, that takes dispatches, runs them in batches and pushes results.
 *
 * A batch that fails as a whole is run again job by job, so that one bad job does not fail its neighbours.
 *
 * Threads: slot_new and slot_free one-at-a-time (slots must be stopped); slot_cancel, slot_running any.
 */
#ifndef SLOT_H
#define SLOT_H

#include "catalog.h"
#include "debugger.h"
#include "handoff.h"
#include "outbox.h"
#include "states.h"
#include "stats.h"

struct slot;

/* What a slot works with. Borrowed for its life. */
struct slot_context {
    struct states *states; /* of sequences; NULL: models with state are not run */
    struct catalog *catalog;
    struct handoff *handoff;
    struct outbox *outbox;
    struct stats *stats;
    const struct identity *identity;
    struct debugger *debugger; /* runs jobs in debug mode; NULL: they are refused */
    uint64_t wake_slice_us;    /* slice of a slot that waits or has little to do; 0: the kernel's default */
};

/* `number`: the index of its seat at every model of the catalog. */
enum pen_status slot_new(const struct slot_context *context, uint32_t number, struct slot **ret_slot,
                         struct pen_error *reterr);
enum pen_status slot_start(struct slot *slot,
                           struct pen_error *reterr); /* starts its thread, which ends when the handoff is closed */
/* Runs a dispatch as the slot's thread does, but on the caller's thread: for a slot that was never started. */
void slot_run(struct slot *slot, struct dispatch *dispatch);
void slot_join(struct slot *slot); /* waits for the thread; a slot never started is fine */
void slot_free(struct slot *slot); /* NULL is fine */

/* The job is not wanted: the run stops between layers when no job of the slot's batch is wanted any more. */
void slot_cancel(struct slot *slot, struct job *job);

struct slot_running {
    bool busy;           /* in a run */
    uint64_t outside_us; /* not in a run, but with a dispatch: when it last made progress; 0 = it has no dispatch */
    uint64_t started_us;
    uint64_t deadline_us; /* latest of the batch, DEADLINE_NONE when one has none */
    struct job_id job;    /* first of the batch, or of the dispatch */
    char model[64];
};
void slot_running(struct slot *slot, struct slot_running *ret_running);

/*
 * There is no memory for an answer, for the `attempt`-th time (from 0) in a row: waits a moment for others to give some
 * back. After about half a second the process ends, because the broker runs the jobs of a dead worker elsewhere, while
 * a job without an answer would hang for ever. Threads: any.
 */
void slot_memory_wait(unsigned attempt);

#endif
