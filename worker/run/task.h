/*
 * task.h - a job opened on a slot: its meta unpacked, its model found, its inputs checked against the signature.
 *
 * Everything a task points at lives in the slot's arena or in the dispatch's frames. Threads: one-at-a-time (a slot's).
 */
#ifndef TASK_H
#define TASK_H

#include "catalog.h"
#include "chain.h"
#include "states.h"
#include "inbox.h"
#include "job.pb-c.h"
#include "labels.h"
#include "tensor_codec.h"

#define TASK_LABELS_MAX LABELS_TEXTS_MAX

struct task {
    struct job *job;
    struct served *served;          /* the task holds it: served_release */
    struct pen_tensor *inputs;      /* [served->inputs_count], in the model's order, as they came */
    uint32_t rows;                  /* of dims[0]; 1 when the model is not batched */
    const struct picture_map *maps; /* [rows], where the input came as files of pictures; NULL: it came as numbers */
    uint64_t decode_us;             /* what decoding them took */
    uint64_t outputs;               /* bit i: output i is wanted */
    uint32_t labels;                /* top labels wanted per row as texts, 0 = none */
    uint32_t top_k;                 /* best classes wanted per row, 0 = none */
    bool debug;                     /* it runs alone, in debug mode */
    bool layers;                    /* the times of the layers are wanted */
    const char *traceparent;        /* "" = none */
    bool digested;
    struct digest digest; /* digest of the inputs that are about to run */
    bool taken;           /* part of a batch already */
    struct state *state;  /* of the sequence that the job belongs to; opened for this task */
    struct states *states;
    struct chain *chain;             /* of an ensemble's job; owned */
    bool cut;                        /* served is the task's own: a step with crop alone (task_crop.h) */
    struct task *whole;              /* this task is a step of that ensemble's job; NULL = it is a job itself */
    size_t step;                     /* number of the step, in the plan's order */
    const struct answer_map *places; /* [rows], of a cut-out (slot_crop.c); NULL: maps says where rows lie */
    uint32_t part, parts;            /* which of the step's cut-outs it is; parts 0: the step has none */
};

/*
 * Opens `job` of `dispatch`. On failure the status is the job's typed answer: NOT_FOUND (model, input, output), SHAPE, DTYPE, CORRUPT, TOO_LARGE, NO_MEMORY,
 * INVALID; *ret_task is undefined then. A task that was opened is closed with task_close.
 */
enum pen_status task_open(struct catalog *catalog, struct states *states, struct meta_arena *arena,
                          const struct dispatch *dispatch, struct job *job, struct task *ret_task,
                          struct pen_error *reterr);

/*
 * Replaces files among the tensors by what they become; sets the task's maps and decode_us. What no decoder has made is made here and kept in *own, which the caller frees
 * after the task (pictures_free). The typed answer of the job when the files cannot be used.
 */
enum pen_status task_pictures(struct task *task, struct pen_tensor *tensors, size_t count, struct pictures **own,
                              struct pen_error *reterr);

/* The input tensors of a job as they came; borrowed from the dispatch and the meta. Room for FRAME_MAX_TENSORS. */
enum pen_status task_tensors(const struct dispatch *dispatch, const struct job *job, const Penstock__JobMeta *meta,
                             struct pen_tensor *ret_tensors, struct pen_error *reterr);

void task_close(struct task *task);

/* May both run in one batch? They must have the same model and the same dims apart from the batch dimension. */
bool task_joins(const struct task *a, const struct task *b);

/* Checks `count` named tensors against the signature; fills inputs in the model's order and *ret_rows. */
enum pen_status task_match_inputs(const struct served *served, const struct pen_tensor *tensors, size_t count,
                                  struct pen_tensor *inputs, uint32_t *ret_rows, struct pen_error *reterr);

/* Why a dispatch's arena gave nothing for its `what`: NO_MEMORY, so that the job may run elsewhere, or TOO_LARGE beyond what a slot grants. */
enum pen_status task_lacks(const struct meta_arena *arena, const char *what, struct pen_error *reterr);

#endif
