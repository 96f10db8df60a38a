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

#define SLOT_WORKS 3 /* dispatches that a slot may have on a device at a time: the most that a session takes */

/* What a slot works on: a dispatch, or decoded jobs of several. */
struct work {
    struct dispatch *dispatch; /* the first of a list (queue_next) of one broker; NULL: this place is free */
    struct reply *reply;       /* the message under construction */
    struct meta_arena arena;
    struct task tasks[GATHER_TASKS_MAX];
    size_t count;         /* of tasks that are open */
    struct layers layers; /* of the last run, when a job of it asked */
    char *debug_log;      /* of the last run, when it was one in debug mode; owned */
    uint64_t gather_us;   /* of the present run */
    struct pen_stop *stop;

    const struct batch *running; /* for other threads; under the slot's lock */
    uint64_t started_us, deadline_us;
    const struct dispatch *in_hand; /* set between runs, too */

    struct batch batch;             /* the whole dispatch, while the device has it (slot_flight.c) */
    uint64_t begun_us, gathered_us; /* when its inputs were begun, and when they were written */
    bool again; /* it failed there as a whole, or its outputs cannot be split: run it in the ordinary way */
};

struct slot {
    struct slot_context context;
    uint32_t number;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    uint64_t step_us; /* under the lock: when the slot last took or left a dispatch, or began or ended a run */
    struct work works[SLOT_WORKS];
    struct work *work;                /* the one being worked on */
    struct work *flights[SLOT_WORKS]; /* works that are on the device, the oldest first; written under the lock */
    size_t flying, again;             /* flying: length of `flights`; again: works to run again when nothing flies */
    uint64_t landed_us;               /* when the last flight ended */

    struct task steps[GATHER_TASKS_MAX]; /* the same jobs, as tasks of an ensemble's present step */
    struct label_text labels[TASK_LABELS_MAX];
    struct annotations *annotations; /* NULL: no job has asked yet */
    struct answer_work *answers;     /* memory for what comes after models; NULL: no such model has run yet */
    uint64_t slice_us;               /* asked of the kernel */
};

struct timing {
    uint64_t start_us;              /* of the run */
    uint64_t gather_us, compute_us; /* gather is a part of compute */
    uint64_t end_us;                /* of the run */
};

/* slot_answer.c: writes results and errors into the message under construction */
void slot_reply_open(struct slot *slot, size_t jobs);
void slot_answer_error(struct slot *slot, struct job *job, enum pen_status status, const char *text);
/* The same for a task; when it is a step, the error names the step. */
void slot_task_error(struct slot *slot, const struct task *task, enum pen_status status, const char *text);
/* slot_crop.c: a step that runs once for each object of an earlier step (crop). The task is the whole; it may be answered afterwards. */
void slot_crop_run(struct slot *slot, struct task *whole, size_t index);
/* What a run of the engine gave. */
struct run_outputs {
    const struct pen_tensor *list;
    size_t count;
    uint32_t first_row; /* of the job that is looked at */
};

/* slot_steps.c: what comes after the model (served.answer), for one job of the batch: the tensors that take the place of the model's outputs. They live until the
   slot's next call. Room for SERVED_TENSORS_MAX. */
enum pen_status slot_answer_steps(struct slot *slot, const struct batch *batch, size_t index,
                                  const struct run_outputs *run, struct pen_tensor *ret_tensors, size_t *ret_count,
                                  struct pen_error *reterr);
void slot_answer_result(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                        const struct pen_tensor *outputs, size_t count, struct timing timing);

/* slot.c: takes out jobs that must not start any more; runs the batch, or its jobs one by one, and answers them or
   keeps their outputs */
void slot_batch_prune(struct slot *slot, struct batch *batch, uint64_t now_us);
void slot_batch_run(struct slot *slot, struct batch *batch);
bool slot_batch_wanted(const struct batch *batch); /* true when some job of it was not cancelled */
/* The dispatch, or the list of parts, is on the device when this returns, or it is answered. */
void slot_dispatch_begin(struct slot *slot, struct dispatch *dispatch);
/* slot.c, for slot_flight.c, too: gives each job of a batch its result or error; sets what other threads see (batch
   NULL: nothing runs) */
void slot_batch_answer(struct slot *slot, const struct batch *batch, const struct pen_tensor *outputs, size_t count,
                       struct timing timing);
void slot_batch_fail(struct slot *slot, const struct batch *batch, enum pen_status status, const char *text);
void slot_running_set(struct slot *slot, struct work *work, const struct batch *batch, uint64_t now_us);
bool slot_wants_layers(const struct batch *batch);
struct seat *slot_seat(const struct slot *slot, const struct batch *batch);
/* Says that a batch's device was lost; the batch runs again. */
void slot_device_lost_log(const struct slot *slot, const struct batch *batch);
/* Logs what the engine's checks noted in the run that has just ended (flags check_numerics and f16_range_check). */
void slot_note_log(const struct batch *batch, const struct pen_session *session);
void slot_prepared_count(struct slot *slot, const struct batch *batch, uint64_t before, uint64_t shape);
void slot_work_close(struct slot *slot, struct work *work); /* sends the reply; the dispatch may be gone then */

/* slot_flight.c: gives the batch, which is the work's whole dispatch, to the device and returns. False: run it in
   the ordinary way; jobs that must not start have been answered. */
bool slot_flight_begin(struct slot *slot, struct batch *batch);
bool slot_flight_room(const struct slot *slot); /* true when another dispatch may go to the device */
/* Waits for the oldest flight to end, however long it takes, and answers it. */
void slot_flight_land(struct slot *slot);
/* The same when it ends soon; false: it does not. */
bool slot_flight_look(struct slot *slot);

/* slot_chain.c: runs a batch of an ensemble's jobs step by step; gives the outputs of a step to its task */
void slot_chain_run(struct slot *slot, struct batch *batch);
void slot_chain_keep(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                     const struct pen_tensor *outputs, size_t count, struct timing timing);

#endif
