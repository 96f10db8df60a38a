#include "ensemble_models.h"

#include <stdio.h>

#include "fleet.h"

const struct model *ensemble_step_model(const struct models *models, const struct labels *labels,
                                        const struct ensemble_plan_step *step)
{
    uint64_t stable = labels && step->version == 0 ? label_version(labels, models, step->model, "stable") : 0;
    const struct model *model = stable ? model_find(models, step->model, stable) : NULL;
    return model && model->offers_count > 0 ? model : model_find(models, step->model, step->version);
}

/* A step with crop needs workers that know of it: an older one would take the picture as a whole, or refuse the job. */
static bool crops(const struct model *model)
{
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (!offer->meta->crops)
            return false;
    }
    return true;
}

/* The first step that no worker would take; NULL = none. *ret_model: the model that the step uses now. */
static const struct ensemble_plan_step *step_missing(const struct models *models, const struct labels *labels,
                                                     const struct model *model, const struct demand *demand,
                                                     const struct model **ret_model)
{
    struct demand own = demand ? *demand : (struct demand){.worker = 0};
    own.forms = 0; /* those of the whole */
    for (size_t i = 0; i < ensemble_plan_steps(model->plan); i++) {
        const struct ensemble_plan_step *step = &model->plan->steps[i];
        own.error_max = demand ? ensemble_plan_bound(model->plan, i, demand->error_max) : 0.0;
        *ret_model = ensemble_step_model(models, labels, step);
        if (!*ret_model || !model_served(*ret_model, demand ? &own : NULL) || (step->crop && !crops(*ret_model)))
            return step;
    }
    return NULL;
}

bool ensemble_served(const struct models *models, const struct labels *labels, const struct model *model,
                     const struct demand *demand)
{
    const struct model *own;
    return model->plan && !step_missing(models, labels, model, demand, &own);
}

bool ensemble_unkept(const struct models *models, const struct labels *labels, const struct model *model,
                     const struct demand *demand)
{
    struct demand loose = *demand;
    loose.error_max = 0.0;
    loose.exact = false;
    return model->plan && demand->error_max > 0.0 && !ensemble_served(models, labels, model, demand) &&
           ensemble_served(models, labels, model, &loose);
}

const char *ensemble_missing(const struct models *models, const struct labels *labels, const struct model *model,
                             const struct demand *demand, char *text, size_t bytes)
{
    const struct model *own;
    char asked[96];
    const struct ensemble_plan_step *step = step_missing(models, labels, model, demand, &own);
    text[0] = '\0';
    if (!step)
        return text;
    if (ensemble_unkept(models, labels, model, demand)) {
        struct demand kept = *demand;
        kept.error_max = ensemble_plan_bound(model->plan, (size_t)(step - model->plan->steps), demand->error_max);
        snprintf(text, bytes,
                 "step %u needs model '%.128s' with %s, which no worker keeps: nobody has measured the ensemble as a "
                 "whole, so steps that feed others must be exact; a worker with all its models measures it",
                 step->number, step->model, match_contract_text(&kept, asked, sizeof asked));
    } else {
        snprintf(text, bytes, "step %u needs model '%.128s', which no worker %s", step->number, step->model,
                 own && own->offers_count ? "that the job may go to offers" : "offers");
    }
    return text;
}

bool ensemble_digest(const struct models *models, const struct labels *labels, const struct model *model,
                     struct digest *ret_digest)
{
    struct digest steps[ENSEMBLE_PLAN_STEPS_MAX];
    if (!ensemble_plan_cacheable(model->plan))
        return false;
    for (size_t i = 0; i < ensemble_plan_steps(model->plan); i++) {
        const struct model *own = ensemble_step_model(models, labels, &model->plan->steps[i]);
        if (!own || own->offers_count == 0 || !own->cacheable || own->digest_mixed)
            return false;
        steps[i] = own->digest;
    }
    return ensemble_plan_digest(model->plan, steps, ret_digest);
}
