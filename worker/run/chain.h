/*
 * chain.h - an ensemble's job on its way through the steps, all on this worker: what flows from one to the next.
 *
 * What a step gives is copied once, out of the buffers of its session, and kept until the last step that takes it has run.
 * Threads: one-at-a-time (a slot's).
 */
#ifndef CHAIN_H
#define CHAIN_H

#include "catalog.h"
#include "tensor_codec.h"

#define CHAIN_BYTES_MAX (512u * 1024u * 1024u) /* that flow between the steps of one job at a time */

struct chain {
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX]; /* held: served_release */
    struct pen_tensor flows[ENSEMBLE_PLAN_TENSORS_MAX];
    void *own[ENSEMBLE_PLAN_TENSORS_MAX];    /* the copy behind flows[i]; NULL = the job's own input, or nothing yet */
    size_t bytes;                            /* of the copies */
    struct digest digest;                    /* of what runs */
    uint64_t wait_us, gather_us, compute_us; /* over all steps; wait: until the first began */
    bool started;
};

/* Holds the models of the steps. UNAVAILABLE: one is not here any more, and the sentence names the step. Gives *ret_chain. */
enum pen_status chain_new(struct catalog *catalog, const struct served *ensemble, struct chain **ret_chain,
                          struct pen_error *reterr);
void chain_free(const struct served *ensemble, struct chain *chain); /* NULL is fine */

/* The ensemble's inputs, in its order; borrowed as long as the job. */
void chain_begin(const struct served *ensemble, struct chain *chain, const struct pen_tensor *inputs);

/* What step `index` takes, under its model's names. Room for ENSEMBLE_PLAN_LINKS_MAX. Returns their number. */
size_t chain_take(const struct served *ensemble, const struct chain *chain, size_t index,
                  struct pen_tensor *ret_tensors);

/* Keeps what step `index` gave (`outputs`: all of its model's, in its order) and drops what nobody takes any more. */
enum pen_status chain_keep(const struct served *ensemble, struct chain *chain, size_t index,
                           const struct pen_tensor *outputs, size_t count, struct pen_error *reterr);

#endif
