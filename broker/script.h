/*
 * script.h - the steps of an ensemble as a worker has told them, checked and kept: the offer may go while jobs still follow it.
 *
 * Ownership: counted; a model keeps the newest, a cascade the one that it began with. Threads: owner.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "penstock/status.h"
#include "worker.pb-c.h"

#define SCRIPT_STEPS_MAX   16u
#define SCRIPT_LINKS_MAX   64u
#define SCRIPT_TENSORS_MAX 256u

/* A tensor of the ensemble. A link's `tensor` is an index in the list of them. */
struct script_link {
    const char *port;
    uint32_t tensor;
};

struct script_step {
    uint32_t number; /* as people know it, from 1 */
    const char *model;
    uint64_t version; /* 0 = as a job without one */
    struct script_link inputs[SCRIPT_LINKS_MAX], outputs[SCRIPT_LINKS_MAX];
    size_t inputs_count, outputs_count;
};

struct script {
    uint32_t references;
    Penstock__ModelOffer *source; /* owns all texts */
    const char *tensors[SCRIPT_TENSORS_MAX];
    size_t tensors_count;
    uint32_t inputs[SCRIPT_LINKS_MAX], outputs[SCRIPT_LINKS_MAX]; /* of the whole, in the order of its signature */
    size_t inputs_count, outputs_count;
    struct script_step steps[];
};

/*
 * Copies and checks the steps of an offer: INVALID, TOO_LARGE with a sentence. Each step must take what the whole is given or what an earlier one gives.
 * One reference.
 */
enum pen_status script_new(const Penstock__ModelOffer *offer, struct script **ret_script, struct pen_error *reterr);
struct script *script_retain(struct script *script);
void script_release(struct script *script); /* NULL is fine */
size_t script_steps(const struct script *script);
bool script_output(const struct script *script, uint32_t tensor); /* the whole gives this tensor */

/*
 * The content of the whole, from the contents of its steps' models in their order: what a worker that has them all says of it, byte for byte, so that both
 * share results. False without memory.
 */
bool script_digest(const struct script *script, const struct digest *steps, struct digest *ret_digest);
bool script_cacheable(const struct script *script); /* by its own word: response_cache */

#endif
