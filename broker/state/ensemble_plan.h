/*
 * ensemble_plan.h - the steps of an ensemble as a worker has told them, checked and kept: the offer may go while jobs still follow it.
 *
 * Ownership: counted; a model keeps the newest, a ensemble run the one that it began with. Threads: owner.
 */
#ifndef ENSEMBLE_PLAN_H
#define ENSEMBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "penstock/status.h"
#include "worker.pb-c.h"

#define ENSEMBLE_PLAN_STEPS_MAX   16u
#define ENSEMBLE_PLAN_LINKS_MAX   64u
#define ENSEMBLE_PLAN_TENSORS_MAX 256u

/* A tensor of the ensemble. A link's `tensor` is an index in the list of them. */
struct ensemble_plan_link {
    const char *port;
    uint32_t tensor;
};

struct ensemble_plan_step {
    uint32_t number; /* as people know it, from 1 */
    const char *model;
    uint64_t version; /* 0 = as a job without one */
    struct ensemble_plan_link inputs[ENSEMBLE_PLAN_LINKS_MAX], outputs[ENSEMBLE_PLAN_LINKS_MAX];
    size_t inputs_count, outputs_count;
};

struct ensemble_plan {
    uint32_t references;
    Penstock__ModelOffer *source; /* owns all texts */
    const char *tensors[ENSEMBLE_PLAN_TENSORS_MAX];
    size_t tensors_count;
    uint32_t inputs[ENSEMBLE_PLAN_LINKS_MAX],
        outputs[ENSEMBLE_PLAN_LINKS_MAX]; /* of the whole, in the order of its signature */
    size_t inputs_count, outputs_count;
    struct ensemble_plan_step steps[];
};

/*
 * Copies and checks the steps of an offer: INVALID, TOO_LARGE with a sentence. Each step must take what the whole is given or what an earlier one gives.
 * One reference.
 */
enum pen_status ensemble_plan_new(const Penstock__ModelOffer *offer, struct ensemble_plan **ret_plan,
                                  struct pen_error *reterr);
struct ensemble_plan *ensemble_plan_retain(struct ensemble_plan *plan);
void ensemble_plan_release(struct ensemble_plan *plan); /* NULL is fine */
size_t ensemble_plan_steps(const struct ensemble_plan *plan);
bool ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor); /* the whole gives this tensor */

/*
 * The content of the whole, from the contents of its steps' models in their order: what a worker that has them all says of it, byte for byte, so that both
 * share results. False without memory.
 */
bool ensemble_plan_digest(const struct ensemble_plan *plan, const struct digest *steps, struct digest *ret_digest);
bool ensemble_plan_cacheable(const struct ensemble_plan *plan); /* by its own word: response_cache */

#endif
