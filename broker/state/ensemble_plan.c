#include "ensemble_plan.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

bool ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor)
{
    for (size_t i = 0; i < plan->outputs_count; i++) {
        if (plan->outputs[i] == tensor)
            return true;
    }
    return false;
}

size_t ensemble_plan_steps(const struct ensemble_plan *plan)
{
    return plan->source->n_steps;
}

struct ensemble_plan *ensemble_plan_retain(struct ensemble_plan *plan)
{
    plan->references++;
    return plan;
}

void ensemble_plan_release(struct ensemble_plan *plan)
{
    if (!plan || --plan->references > 0)
        return;
    if (plan->source)
        penstock__model_offer__free_unpacked(plan->source, NULL);
    free(plan);
}

/* The steps and the signature alone, as a message of its own. NULL without memory. */
static Penstock__ModelOffer *copy_source(const Penstock__ModelOffer *offer)
{
    Penstock__ModelOffer part = PENSTOCK__MODEL_OFFER__INIT;
    part.name = offer->name;
    part.version = offer->version;
    part.steps = offer->steps;
    part.n_steps = offer->n_steps;
    part.inputs = offer->inputs;
    part.n_inputs = offer->n_inputs;
    part.outputs = offer->outputs;
    part.n_outputs = offer->n_outputs;
    part.cacheable = offer->cacheable;
    size_t bytes = penstock__model_offer__get_packed_size(&part);
    uint8_t *packed = malloc(bytes ? bytes : 1);
    if (!packed)
        return NULL;
    penstock__model_offer__pack(&part, packed);
    Penstock__ModelOffer *copy = penstock__model_offer__unpack(NULL, bytes, packed);
    free(packed);
    return copy;
}

static bool tensor_enter(struct ensemble_plan *plan, const char *name, uint32_t *ret_tensor)
{
    uint32_t i = 0;
    while (i < plan->tensors_count && strcmp(plan->tensors[i], name) != 0)
        i++;
    if (i == ENSEMBLE_PLAN_TENSORS_MAX)
        return false;
    if (i == plan->tensors_count)
        plan->tensors[plan->tensors_count++] = name;
    *ret_tensor = i;
    return true;
}

static enum pen_status too_many(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "an ensemble may have %u steps with %u tensors each way and %u names of tensors in all",
                         ENSEMBLE_PLAN_STEPS_MAX, ENSEMBLE_PLAN_LINKS_MAX, ENSEMBLE_PLAN_TENSORS_MAX);
}

static enum pen_status read_ports(struct ensemble_plan *plan, Penstock__TensorSig *const *sigs, size_t count,
                                  uint32_t *ret_tensors, size_t *ret_count, struct pen_error *reterr)
{
    if (count > ENSEMBLE_PLAN_LINKS_MAX)
        return too_many(reterr);
    for (size_t i = 0; i < count; i++) {
        if (!tensor_enter(plan, sigs[i]->name, &ret_tensors[i]))
            return too_many(reterr);
    }
    *ret_count = count;
    return PEN_OK;
}

static enum pen_status read_links(struct ensemble_plan *plan, Penstock__TensorLink *const *from, size_t count,
                                  struct ensemble_plan_link *links, size_t *ret_count, struct pen_error *reterr)
{
    if (count == 0 || count > ENSEMBLE_PLAN_LINKS_MAX)
        return too_many(reterr);
    for (size_t i = 0; i < count; i++) {
        links[i].port = from[i]->port;
        if (!tensor_enter(plan, from[i]->tensor, &links[i].tensor))
            return too_many(reterr);
    }
    *ret_count = count;
    return PEN_OK;
}

/* One input is the picture; where the objects are follows it under fixed names. */
static enum pen_status read_crop(const Penstock__EnsembleStep *from, struct ensemble_plan_step *step,
                                 struct pen_error *reterr)
{
    static const char *const ports[] = {"crop.boxes", "crop.count", "crop.points"};
    size_t places = from->crop->turned ? 3 : 2;
    bool fits = step->inputs_count == 1 + places && from->crop->scale > 0;
    for (size_t i = 0; fits && i < places; i++)
        fits = strcmp(step->inputs[1 + i].port, ports[i]) == 0;
    step->crop = from->crop;
    step->pictures_count = 1;
    return fits ? PEN_OK
                : pen_error_set(reterr, PEN_ERR_INVALID,
                                "step %u has crop: it needs one picture, then crop.boxes, crop.count and, when it is "
                                "turned, crop.points",
                                step->number);
}

static enum pen_status read_step(struct ensemble_plan *plan, size_t index, struct pen_error *reterr)
{
    const Penstock__EnsembleStep *from = plan->source->steps[index];
    struct ensemble_plan_step *step = &plan->steps[index];
    step->number = from->number;
    step->model = from->model;
    step->version = from->version;
    enum pen_status status = read_links(plan, from->inputs, from->n_inputs, step->inputs, &step->inputs_count, reterr);
    if (status == PEN_OK)
        status = read_links(plan, from->outputs, from->n_outputs, step->outputs, &step->outputs_count, reterr);
    return status == PEN_OK && from->crop ? read_crop(from, step, reterr) : status;
}

/* Every tensor is there when it is taken, and given once. */
static enum pen_status check_flow(const struct ensemble_plan *plan, struct pen_error *reterr)
{
    bool there[ENSEMBLE_PLAN_TENSORS_MAX] = {false};
    for (size_t i = 0; i < plan->inputs_count; i++)
        there[plan->inputs[i]] = true;
    for (size_t i = 0; i < ensemble_plan_steps(plan); i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        for (size_t j = 0; j < step->inputs_count; j++) {
            if (!there[step->inputs[j].tensor])
                return pen_error_set(reterr, PEN_ERR_INVALID, "step %u takes '%.64s' before anybody gives it",
                                     step->number, plan->tensors[step->inputs[j].tensor]);
        }
        for (size_t j = 0; j < step->outputs_count; j++) {
            if (there[step->outputs[j].tensor])
                return pen_error_set(reterr, PEN_ERR_INVALID, "step %u gives '%.64s', which is there already",
                                     step->number, plan->tensors[step->outputs[j].tensor]);
            there[step->outputs[j].tensor] = true;
        }
    }
    for (size_t i = 0; i < plan->outputs_count; i++) {
        if (!there[plan->outputs[i]])
            return pen_error_set(reterr, PEN_ERR_INVALID, "no step gives output '%.64s'",
                                 plan->tensors[plan->outputs[i]]);
    }
    return PEN_OK;
}

enum pen_status ensemble_plan_new(const Penstock__ModelOffer *offer, struct ensemble_plan **ret_plan,
                                  struct pen_error *reterr)
{
    if (offer->n_steps == 0 || offer->n_steps > ENSEMBLE_PLAN_STEPS_MAX)
        return too_many(reterr);
    struct ensemble_plan *plan = calloc(1, sizeof *plan + offer->n_steps * sizeof plan->steps[0]);
    if (plan)
        plan->source = copy_source(offer);
    if (!plan || !plan->source) {
        free(plan);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps of '%.64s'", offer->name);
    }
    plan->references = 1;
    const Penstock__ModelOffer *own = plan->source;
    enum pen_status status = read_ports(plan, own->inputs, own->n_inputs, plan->inputs, &plan->inputs_count, reterr);
    if (status == PEN_OK)
        status = read_ports(plan, own->outputs, own->n_outputs, plan->outputs, &plan->outputs_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < own->n_steps; i++)
        status = read_step(plan, i, reterr);
    if (status == PEN_OK)
        status = check_flow(plan, reterr);
    if (status != PEN_OK) {
        ensemble_plan_release(plan);
        return status;
    }
    *ret_plan = plan;
    return PEN_OK;
}

/* ---- its content -------------------------------------------------------------------------------------------------------------------- */

bool ensemble_plan_cacheable(const struct ensemble_plan *plan)
{
    return plan->source->cacheable;
}

static void links_digest(struct digest_stream *stream, const struct ensemble_plan *plan,
                         const struct ensemble_plan_link *links, size_t count)
{
    digest_update_u64(stream, count);
    for (size_t i = 0; i < count; i++) {
        digest_update_text(stream, links[i].port);
        digest_update_text(stream, plan->tensors[links[i].tensor]);
    }
}

/* Nothing for a step without one: digests of other ensembles stay what they are. */
static void crop_digest(struct digest_stream *stream, const Penstock__Crop *crop)
{
    if (!crop)
        return;
    digest_update_text(stream, "crop");
    digest_update_u64(stream, (uint64_t)crop->from_point << 32 | crop->to_point);
    digest_update(stream, &crop->scale, sizeof crop->scale);
}

bool ensemble_plan_digest(const struct ensemble_plan *plan, const struct digest *steps, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return false;
    digest_update_text(stream, "penstock-ensemble-1");
    for (size_t i = 0; i < ensemble_plan_steps(plan); i++) {
        digest_update(stream, steps[i].bytes, sizeof steps[i].bytes);
        links_digest(stream, plan, plan->steps[i].inputs, plan->steps[i].inputs_count);
        links_digest(stream, plan, plan->steps[i].outputs, plan->steps[i].outputs_count);
        crop_digest(stream, plan->steps[i].crop);
    }
    digest_update_u64(stream, plan->outputs_count);
    for (size_t i = 0; i < plan->outputs_count; i++)
        digest_update_text(stream, plan->tensors[plan->outputs[i]]);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}

bool ensemble_plan_feeds(const struct ensemble_plan *plan, size_t step)
{
    const struct ensemble_plan_step *giver = &plan->steps[step];
    for (size_t i = 0; i < ensemble_plan_steps(plan); i++)
        for (size_t j = 0; j < plan->steps[i].inputs_count; j++)
            for (size_t k = 0; k < giver->outputs_count; k++)
                if (plan->steps[i].inputs[j].tensor == giver->outputs[k].tensor)
                    return true;
    return false;
}

double ensemble_plan_bound(const struct ensemble_plan *plan, size_t step, double error_max)
{
    return error_max > 0.0 && ensemble_plan_feeds(plan, step) ? DBL_TRUE_MIN : error_max;
}
