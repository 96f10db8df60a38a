/*
 * ensemble_plan.h - what an ensemble's config.json says: which models run as steps, and which of their tensors are
 * which.
 *
 * The words are Triton's: an ensemble tensor has a name of its own; a step's input_map and output_map say which input
 * or output of the step's model it is. The steps are in an order in which the inputs of each are there when it runs.
 * `number` is a step's place in the file, from 1; messages to people use it.
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

/* Inputs of a step with crop as a broker passes them on, beside the picture. */
#define ENSEMBLE_PLAN_CROP_PICTURE "crop.picture" /* within the worker alone */
#define ENSEMBLE_PLAN_CROP_BOXES   "crop.boxes"
#define ENSEMBLE_PLAN_CROP_COUNT   "crop.count"
#define ENSEMBLE_PLAN_CROP_POINTS  "crop.points"

/* An input or output of a step's model, and the ensemble tensor that it stands for. */
struct ensemble_plan_link {
    char *port;
    uint32_t tensor; /* index in plan.tensors */
};

/*
 * A step that runs once for each object that an earlier step found: its model's picture is a square cut out around the object, turned so that two of the object's
 * points are level. The tensors that say where (boxes, count, points) are the last of the step's inputs; their ports are the names above.
 */
struct ensemble_plan_crop {
    bool present, turned; /* turned: there are points */
    size_t first;         /* index in inputs of boxes; count and points follow */
    uint32_t from, to;    /* of the points: the line between them becomes level */
    double scale;         /* the square's side in longer sides of the box */
};

struct ensemble_plan_step {
    uint32_t number;
    char *model;
    uint64_t version; /* 0 = the version that a job without a version gets */
    struct ensemble_plan_link *inputs, *outputs;
    size_t inputs_count, outputs_count;
    struct ensemble_plan_crop crop;
};

struct ensemble_plan {
    struct ensemble_plan_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    size_t steps_count;
    char *tensors[ENSEMBLE_PLAN_TENSORS_MAX];
    size_t tensors_count;
    struct pen_tensor *inputs, *outputs; /* as declared, without the batch dimension; the names belong to `tensors` */
    size_t inputs_count, outputs_count;
};

struct ensemble_plan *ensemble_plan_new(void);       /* empty; NULL without memory */
void ensemble_plan_free(struct ensemble_plan *plan); /* NULL is fine */

/* The tensor with that name; added when it is new. Copies the name. */
enum pen_status ensemble_plan_tensor(struct ensemble_plan *plan, const char *name, uint32_t *ret_tensor,
                                     struct pen_error *reterr);
/* Index of the declared input or output that is this tensor; -1 = none is. */
int ensemble_plan_input(const struct ensemble_plan *plan, uint32_t tensor);
int ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor);

/*
 * Checks what can be checked without the models, and orders the steps: each tensor has one source and is used, and no
 * step waits for itself (INVALID).
 */
enum pen_status ensemble_plan_order(struct ensemble_plan *plan, struct pen_error *reterr);

#endif
