/*
 * slot_internal.h - the parts of slot.c: the slot itself, how it answers, and how it runs the steps of ensembles.
 *
 * Threads: the slot's, but for what its lock guards.
 */
#ifndef SLOT_INTERNAL_H
#define SLOT_INTERNAL_H

#include "gather.h"
#include "labels.h"
#include "layers.h"
#include "slot.h"

#include <pthread.h>

struct slot {
    struct slot_context context;
    uint32_t number;
    struct pen_stop *stop;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards what other threads look at: */
    const struct batch *running;
    uint64_t started_us, deadline_us;
    const struct dispatch *in_hand; /* between runs, too */
    uint64_t step_us;               /* when it was taken, or a run of it began or ended */

    struct meta_arena arena;
    struct task tasks[GATHER_TASKS_MAX];
    struct task steps[GATHER_TASKS_MAX]; /* the same jobs, as tasks of the step in hand of an ensemble */
    struct label_text labels[TASK_LABELS_MAX];
    struct layers layers;      /* of the last run, when a job of it asked */
    uint64_t slice_us;         /* asked of the kernel */
    uint64_t gather_us;        /* of the run in hand */
    struct reply *reply;       /* the message under construction */
    struct dispatch *dispatch; /* being worked on */
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

/* slot_chain.c: a batch of an ensemble's jobs, step by step; keeps what a step gave to the task */
void slot_chain_run(struct slot *slot, struct batch *batch);
void slot_chain_keep(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                     const struct pen_tensor *outputs, size_t count, struct timing timing);

#endif
