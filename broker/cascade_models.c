#include "cascade_models.h"

#include <stdio.h>

#include "fleet.h"

bool cascade_offered(const struct model *model, const struct demand *demand)
{
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (offer->worker->state == WORKER_READY &&
            (!demand || match_capable(demand, offer->meta->backend, offer->precision, offer->worker->tags)))
            return true;
    }
    return false;
}

const struct model *cascade_step_model(const struct models *models, const struct labels *labels,
                                       const struct script_step *step)
{
    uint64_t stable = labels && step->version == 0 ? label_version(labels, models, step->model, "stable") : 0;
    const struct model *model = stable ? model_find(models, step->model, stable) : NULL;
    return model && model->offers_count > 0 ? model : model_find(models, step->model, step->version);
}

const char *cascade_missing(const struct models *models, const struct model *model, const struct demand *demand,
                            char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < script_steps(model->script); i++) {
        const struct script_step *step = &model->script->steps[i];
        const struct model *own = model_find(models, step->model, step->version);
        if (own && cascade_offered(own, demand))
            continue;
        snprintf(text, bytes, "step %u needs model '%.128s', which no worker %s", step->number, step->model,
                 own && own->offers_count ? "that the job may go to offers" : "offers");
        break;
    }
    return text;
}

bool cascade_served(const struct models *models, const struct model *model)
{
    char text[256];
    return model->script && !*cascade_missing(models, model, NULL, text, sizeof text);
}

bool cascade_digest(const struct models *models, const struct labels *labels, const struct model *model,
                    struct digest *ret_digest)
{
    struct digest steps[SCRIPT_STEPS_MAX];
    if (!script_cacheable(model->script))
        return false;
    for (size_t i = 0; i < script_steps(model->script); i++) {
        const struct model *own = cascade_step_model(models, labels, &model->script->steps[i]);
        if (!own || own->offers_count == 0 || !own->cacheable || own->digest_mixed)
            return false;
        steps[i] = own->digest;
    }
    return script_digest(model->script, steps, ret_digest);
}
