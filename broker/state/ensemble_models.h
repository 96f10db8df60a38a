/*
 * ensemble_models.h - the models that the steps of an ensemble use now: whether workers serve them, and the digest of
 * them all.
 * Threads: owner. Changes nothing.
 */
#ifndef ENSEMBLE_MODELS_H
#define ENSEMBLE_MODELS_H

#include <stdbool.h>

#include "label.h"
#include "model.h"

/* The model that a job without a version would get, except that labels with a share are not used. NULL = unknown. */
const struct model *ensemble_step_model(const struct models *models, const struct labels *labels,
                                        const struct ensemble_plan_step *step);

/* True when each step has a worker that may run such a job (demand NULL: any job). False for a model without steps. */
bool ensemble_served(const struct models *models, const struct labels *labels, const struct model *model,
                     const struct demand *demand);
/* True when they would run it but for the bound on its error. */
bool ensemble_unkept(const struct models *models, const struct labels *labels, const struct model *model,
                     const struct demand *demand);
/* "step 2 needs model 'x', which no worker offers"; "" when nothing is missing. */
const char *ensemble_missing(const struct models *models, const struct labels *labels, const struct model *model,
                             const struct demand *demand, char *text, size_t bytes);

/* The digest of the whole ensemble. False: a step's model has no worker, is not the same on all workers, or must not
   be cached. */
bool ensemble_digest(const struct models *models, const struct labels *labels, const struct model *model,
                     struct digest *ret_digest);

#endif
