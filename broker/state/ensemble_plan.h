/*
 * ensemble_plan.h - the steps of an ensemble as a worker has told them, checked and copied, because the offer may go
 * while jobs still use them.
 *
 * Ownership: reference counts; a model keeps the newest plan, an ensemble run the one that it began with. Threads:
 * owner.
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

/* A tensor of the ensemble. The `tensor` of a link is its index in the list of tensors. */
struct ensemble_plan_link {
    const char *port;
    uint32_t tensor;
};

struct ensemble_plan_step {
    uint32_t number; /* as people know it, from 1 */
    const char *model;
    uint64_t version; /* 0 = like a job without a version */
    struct ensemble_plan_link inputs[ENSEMBLE_PLAN_LINKS_MAX], outputs[ENSEMBLE_PLAN_LINKS_MAX];
    size_t inputs_count, outputs_count;
    const Penstock__Crop *crop; /* NULL = none; then the last inputs say where the objects are */
    size_t pictures_count;      /* with crop: inputs that are the model's own, before those */
};

struct ensemble_plan {
    uint32_t references;
    Penstock__ModelOffer *source; /* owns all texts */
    const char *tensors[ENSEMBLE_PLAN_TENSORS_MAX];
    size_t tensors_count;
    uint32_t inputs[ENSEMBLE_PLAN_LINKS_MAX],
        outputs[ENSEMBLE_PLAN_LINKS_MAX]; /* of the whole ensemble, in the order of its signature */
    size_t inputs_count, outputs_count;
    struct ensemble_plan_step steps[];
};

/*
 * Copies and checks the steps of an offer: INVALID, TOO_LARGE with a sentence. Each step must take inputs of the whole
 * or outputs of an earlier step. The plan has one reference.
 */
enum pen_status ensemble_plan_new(const Penstock__ModelOffer *offer, struct ensemble_plan **ret_plan,
                                  struct pen_error *reterr);
struct ensemble_plan *ensemble_plan_retain(struct ensemble_plan *plan);
void ensemble_plan_release(struct ensemble_plan *plan); /* NULL is fine */
size_t ensemble_plan_steps(const struct ensemble_plan *plan);
bool ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor); /* is it an output of the whole? */
bool ensemble_plan_feeds(const struct ensemble_plan *plan, size_t step); /* does another step take what it gives? */

/*
 * The largest error that a step may have where the whole may have `error_max` (0 = not asked). No one measures a whole whose steps run apart. But a step whose
 * inputs are exact has the error that was measured of it: so all steps that feed others must be exact, which the smallest number above 0 asks for.
 */
double ensemble_plan_bound(const struct ensemble_plan *plan, size_t step, double error_max);

/*
 * The digest of the whole, from the digests of its steps' models in their order. A worker that has all models computes
 * the same bytes, so both share results. False without memory.
 */
bool ensemble_plan_digest(const struct ensemble_plan *plan, const struct digest *steps, struct digest *ret_digest);
bool ensemble_plan_cacheable(const struct ensemble_plan *plan); /* its own response_cache setting allows caching */

#endif
