/*
 * ensemble_models.h - the models that the steps of an ensemble mean now: who serves them, and what the whole of them is.
 * Threads: owner. Changes nothing.
 */
#ifndef ENSEMBLE_MODELS_H
#define ENSEMBLE_MODELS_H

#include <stdbool.h>

#include "label.h"
#include "model.h"

/* What a job without a version would get, unless a label with a share has its turn. NULL = unknown. */
const struct model *ensemble_step_model(const struct models *models, const struct labels *labels,
                                        const struct ensemble_plan_step *step);

/* Are all steps served by somebody who may be given such work (demand NULL: any)? A model without steps: false. */
bool ensemble_served(const struct models *models, const struct labels *labels, const struct model *model,
                     const struct demand *demand);
/* "step 2 needs model 'x', which no worker offers"; "" when nothing is missing. */
const char *ensemble_missing(const struct models *models, const struct labels *labels, const struct model *model,
                             const struct demand *demand, char *text, size_t bytes);

/* The digest of the whole. False: something of it is not here, is not the same on all workers, or must not be kept. */
bool ensemble_digest(const struct models *models, const struct labels *labels, const struct model *model,
                     struct digest *ret_digest);

#endif
