/*
 * ensemble_plan.h - what an ensemble's config.json says: which models run as steps, and which of their tensors are which.
 *
 * The words are Triton's: an ensemble tensor has a name of its own; a step's input_map and output_map say which input or output of the step's model it
 * is. Steps stand in an order in which each finds what it takes; `number` is the place in the file, from 1, and what people are told.
 *
 * Ownership: a plan owns its texts. Threads: one-at-a-time while it is read; immutable afterwards.
 */
#ifndef ENSEMBLE_PLAN_H
#define ENSEMBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"
#include "penstock/tensor.h"

#define ENSEMBLE_PLAN_STEPS_MAX   16u
#define ENSEMBLE_PLAN_TENSORS_MAX 256u /* names of ensemble tensors */
#define ENSEMBLE_PLAN_PORTS_MAX   64u  /* inputs or outputs of the whole; the wire's own limit */
#define ENSEMBLE_PLAN_LINKS_MAX   64u  /* of one map */

/* An input or output of a step's model, and the ensemble tensor that it is. */
struct ensemble_plan_link {
    char *port;
    uint32_t tensor; /* index in plan.tensors */
};

struct ensemble_plan_step {
    uint32_t number;
    char *model;
    uint64_t version; /* 0 = the one that a job without a version gets */
    struct ensemble_plan_link *inputs, *outputs;
    size_t inputs_count, outputs_count;
};

struct ensemble_plan {
    struct ensemble_plan_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    size_t steps_count;
    char *tensors[ENSEMBLE_PLAN_TENSORS_MAX];
    size_t tensors_count;
    struct pen_tensor *inputs, *outputs; /* declared, without the batch dimension; names are of `tensors` */
    size_t inputs_count, outputs_count;
};

struct ensemble_plan *ensemble_plan_new(void);       /* empty; NULL without memory */
void ensemble_plan_free(struct ensemble_plan *plan); /* NULL is fine */

/* The tensor of that name, entered when it is new. Copies the name. */
enum pen_status ensemble_plan_tensor(struct ensemble_plan *plan, const char *name, uint32_t *ret_tensor,
                                     struct pen_error *reterr);
/* Index of the declared input or output that is this tensor; -1 = none is. */
int ensemble_plan_input(const struct ensemble_plan *plan, uint32_t tensor);
int ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor);

/*
 * Checks what can be known without the models and puts the steps in order: each tensor is given once and taken; nothing waits for itself (INVALID).
 */
enum pen_status ensemble_plan_order(struct ensemble_plan *plan, struct pen_error *reterr);

#endif
