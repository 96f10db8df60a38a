/*
 * chain.h - runs an ensemble's job through its steps, all on this worker: the tensors that go from one step to the
 * next.
 *
 * A step's outputs are copied once, out of the buffers of its session, and kept until the last step that needs them has
 * run.
 * Threads: one-at-a-time (a slot's).
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "catalog.h"
#include "pictures.h"
#include "tensor_codec.h"

#define CHAIN_BYTES_MAX (512u * 1024u * 1024u) /* limit for the tensors between the steps of one job at a time */

struct chain {
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX]; /* held: served_release */
    struct pen_tensor flows[ENSEMBLE_PLAN_TENSORS_MAX];
    void *own[ENSEMBLE_PLAN_TENSORS_MAX]; /* the copy behind flows[i]; NULL = the job's own input, or nothing yet */
    struct pictures *pictures[ENSEMBLE_PLAN_STEPS_MAX]; /* files that a step decoded itself; owned */
    size_t bytes;                                       /* of the copies */
    struct digest digest;                               /* of the models that run */
    uint64_t start_us;                                  /* when the first step began to run */
    uint64_t gather_us, compute_us;                     /* sums over all steps */
    uint32_t batch_jobs, batch_rows, batch_place;       /* of the jobs that go through the steps together */
    bool started;
};

/* Holds the models of the steps. UNAVAILABLE: one is not here any more; the sentence names the step. Gives
   *ret_chain. */
enum pen_status chain_new(struct catalog *catalog, const struct served *ensemble, struct chain **ret_chain,
                          struct pen_error *reterr);
/* For one step, which runs `model`; takes over its hold. NULL without memory. */
struct chain *chain_around(struct served *model);
void chain_free(const struct served *ensemble, struct chain *chain); /* NULL is fine */

/* The ensemble's inputs, in its order; borrowed as long as the job. */
void chain_begin(const struct served *ensemble, struct chain *chain, const struct pen_tensor *inputs);

/* The inputs of step `index`, under the names of its model. Room for ENSEMBLE_PLAN_LINKS_MAX. Returns their number. */
size_t chain_take(const struct served *ensemble, const struct chain *chain, size_t index,
                  struct pen_tensor *ret_tensors);

/* Keeps the outputs of step `index` (`outputs`: all of its model's, in its order) and frees tensors that no later
   step needs. */
enum pen_status chain_keep(const struct served *ensemble, struct chain *chain, size_t index,
                           const struct pen_tensor *outputs, size_t count, struct pen_error *reterr);

/* As chain_keep, for part `part` of `parts`: a step that ran once for each of its cut-outs. An output of [1, ...] becomes one of [parts, ...]. parts 0: there was
   nothing to cut out; outputs may be NULL then. */
enum pen_status chain_keep_part(const struct served *ensemble, struct chain *chain, size_t index, uint32_t part,
                                uint32_t parts, const struct pen_tensor *outputs, size_t count,
                                struct pen_error *reterr);

#endif
