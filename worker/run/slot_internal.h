/*
 * slot_internal.h - the parts of slot.c: the slot itself, how it answers, what it has on a device, and how it runs the steps of ensembles.
 *
 * Threads: the slot's, but for what its lock guards.
 */
#ifndef SLOT_INTERNAL_H
#define SLOT_INTERNAL_H

#include "annotate.h"
#include "gather.h"
#include "labels.h"
#include "layers.h"
#include "slot.h"

#include <pthread.h>

#define SLOT_WORKS 3 /* dispatches of a slot on a device at a time: the most that a session takes */

/* A dispatch in a slot's hands. */
struct work {
    struct dispatch *dispatch; /* NULL: nothing is here */
    struct reply *reply;       /* the message under construction */
    struct meta_arena arena;
    struct task tasks[GATHER_TASKS_MAX];
    size_t count;         /* of tasks that are open */
    struct layers layers; /* of the last run, when a job of it asked */
    uint64_t gather_us;   /* of the run in hand */
    struct pen_stop *stop;

    const struct batch *running; /* under the slot's lock: what other threads look at */
    uint64_t started_us, deadline_us;
    const struct dispatch *in_hand; /* between runs, too */

    struct batch batch;             /* the whole dispatch, while the device has it (slot_flight.c) */
    uint64_t begun_us, gathered_us; /* when its inputs were begun with, and written */
    bool again;                     /* it failed there as a whole, or cannot be cut: to be run as others are */
};

struct slot {
    struct slot_context context;
    uint32_t number;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    uint64_t step_us; /* under it: when a dispatch was taken or left, or a run began or ended */
    struct work works[SLOT_WORKS];
    struct work *work;                /* being worked on */
    struct work *flights[SLOT_WORKS]; /* those that the device has, the oldest first; written under the lock */
    size_t flying, again;             /* flying: as flights; again: works that are to be run once nothing flies */
    uint64_t landed_us;               /* when the last flight ended */

    struct task steps[GATHER_TASKS_MAX]; /* the same jobs, as tasks of the step in hand of an ensemble */
    struct label_text labels[TASK_LABELS_MAX];
    struct annotations *annotations; /* NULL: no job has asked yet */
    uint64_t slice_us;               /* asked of the kernel */
};

struct timing {
    uint64_t wait_us, gather_us, compute_us; /* gather is a part of compute */
    uint64_t end_us;                         /* of the run */
};

/* slot_answer.c: results and errors into the message under construction */
void slot_reply_open(struct slot *slot, size_t jobs);
uint64_t slot_worker_us(const struct slot *slot, uint64_t now_us); /* since the dispatch came */
void slot_answer_error(struct slot *slot, struct job *job, enum pen_status status, const char *text);
/* The same for a task: the error of a step says which one it was. */
void slot_task_error(struct slot *slot, const struct task *task, enum pen_status status, const char *text);
void slot_answer_result(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                        const struct pen_tensor *outputs, size_t count, struct timing timing);

/* slot.c: takes out what must not start any more; runs the batch, or its jobs one by one, and answers or keeps what it gave */
void slot_batch_prune(struct slot *slot, struct batch *batch, uint64_t now_us);
void slot_batch_run(struct slot *slot, struct batch *batch);
bool slot_batch_wanted(const struct batch *batch); /* a job of it was not cancelled */
/* The dispatch is on the device when this returns, or it is answered. */
void slot_dispatch_begin(struct slot *slot, struct dispatch *dispatch);
/* slot.c, for slot_flight.c too: what a batch gave, or why it failed, to each of its jobs; what other threads see (batch NULL: nothing runs) */
void slot_batch_answer(struct slot *slot, const struct batch *batch, const struct pen_tensor *outputs, size_t count,
                       struct timing timing);
void slot_batch_fail(struct slot *slot, const struct batch *batch, enum pen_status status, const char *text);
void slot_running_set(struct slot *slot, struct work *work, const struct batch *batch, uint64_t now_us);
bool slot_wants_layers(const struct batch *batch);
struct seat *slot_seat(const struct slot *slot, const struct batch *batch);
void slot_prepared_count(struct slot *slot, const struct batch *batch, uint64_t before, uint64_t shape);
void slot_work_close(struct slot *slot, struct work *work); /* sends the reply; the dispatch may be gone then */

/* slot_flight.c: hands the batch, the work's whole dispatch, to the device and returns. False: it is to be run as others are; what must not start has been answered. */
bool slot_flight_begin(struct slot *slot, struct batch *batch);
bool slot_flight_room(const struct slot *slot); /* for another dispatch beside those that fly */
/* The oldest flight's end: answers it, however long it takes. */
void slot_flight_land(struct slot *slot);
/* The same when it is over soon; false: it is not. */
bool slot_flight_look(struct slot *slot);

/* slot_chain.c: a batch of an ensemble's jobs, step by step; keeps what a step gave to the task */
void slot_chain_run(struct slot *slot, struct batch *batch);
void slot_chain_keep(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                     const struct pen_tensor *outputs, size_t count, struct timing timing);

#endif
