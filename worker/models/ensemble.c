/* ensemble.c - checks whether the steps' models fit together. */
#include "ensemble.h"

#include "logline.h"
#include "pictures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- made of its config -------------------------------------------------------------------------------------------------------------- */

/* Declared dims are those of one row; with batches a free dimension goes in front. */
static void batch_prefix(struct pen_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memmove(tensors[i].dims + 1, tensors[i].dims, tensors[i].rank * sizeof tensors[i].dims[0]);
        tensors[i].dims[0] = -1;
        tensors[i].rank++;
    }
}

enum pen_status ensemble_new(const char *name, uint64_t version, const char *path, struct config *config,
                             struct served **ret_served, struct pen_error *reterr)
{
    struct served *served = calloc(1, sizeof *served);
    if (!served) {
        config_fini(config);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for ensemble '%s'", name);
    }
    struct ensemble_plan *plan = config->plan;
    snprintf(served->name, sizeof served->name, "%s", name);
    served->version = version;
    served->config = *config;
    config_init(config);
    served->pixels_input = served->files_input = served->labels_output = -1;
    served->max_batch_size = served->config.max_batch_size;
    served->path = strdup(path);
    served->inputs = calloc(plan->inputs_count, sizeof *served->inputs);
    if (!served->path || !served->inputs) {
        served_free(served);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for ensemble '%s'", name);
    }
    if (served->max_batch_size > 0) {
        batch_prefix(plan->inputs, plan->inputs_count);
        batch_prefix(plan->outputs, plan->outputs_count);
    }
    memcpy(served->inputs, plan->inputs, plan->inputs_count * sizeof *served->inputs);
    served->network_inputs = plan->inputs;
    served->inputs_count = plan->inputs_count;
    served->outputs = served->network_outputs = plan->outputs;
    served->outputs_count = served->network_outputs_count = plan->outputs_count;
    for (size_t i = 0; i < served->inputs_count; i++)
        served->strings |= served->inputs[i].dtype == PEN_DTYPE_STRING;
    served->cacheable = served->config.cache_enable;
    served->warmed = true; /* its steps are warmed up by themselves */
    *ret_served = served;
    return PEN_OK;
}

/* ---- against the models -------------------------------------------------------------------------------------------------------------- */

static bool dims_agree(const struct pen_tensor *a, const struct pen_tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* `have` is the tensor that flows as `name`, `want` the step's input or output for it. */
static enum pen_status flow_check(const struct ensemble_plan_step *step, const char *port, const char *name,
                                  const struct pen_tensor *have, const struct pen_tensor *want,
                                  struct pen_error *reterr)
{
    char got[128], wanted[128];
    if (have->dtype != want->dtype)
        return pen_error_set(reterr, PEN_ERR_INVALID, "step %u (model '%.64s'): '%.64s' is %s, but '%.64s' is %s",
                             step->number, step->model, port, pen_dtype_name(want->dtype), name,
                             pen_dtype_name(have->dtype));
    if (!dims_agree(have, want))
        return pen_error_set(reterr, PEN_ERR_INVALID, "step %u (model '%.64s'): '%.64s' is %s, but '%.64s' is %s",
                             step->number, step->model, port,
                             pen_shape_text(want->dims, want->rank, wanted, sizeof wanted), name,
                             pen_shape_text(have->dims, have->rank, got, sizeof got));
    return PEN_OK;
}

/* A step with crop: its model takes pictures and nothing else, and they are files. */
static enum pen_status crop_check(const struct served *ensemble, const struct ensemble_plan_step *step,
                                  const struct served *model, const struct pen_tensor **flows, struct pen_error *reterr)
{
    if (!step->crop.present)
        return PEN_OK;
    if (ensemble->max_batch_size > 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "step %u (model '%.64s') has crop: an ensemble with crop takes one picture a job, so say "
                             "max_batch_size 0",
                             step->number, step->model);
    if (model->files_input < 0 || model->inputs_count != 1 || step->crop.first != 1 ||
        !pictures_carried(model, model->files_input, flows[step->inputs[0].tensor]))
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "step %u (model '%.64s') has crop: its model must take pictures (picture in its "
            "config.json) as its only input, and input_map must give it a picture's file (TYPE_STRING)",
            step->number, step->model);
    return PEN_OK;
}

static enum pen_status all_mapped(const struct ensemble_plan_step *step, const struct served *model,
                                  struct pen_error *reterr)
{
    for (size_t i = 0; i < model->inputs_count; i++) {
        size_t j = 0;
        while (j < step->inputs_count && strcmp(step->inputs[j].port, model->inputs[i].name) != 0)
            j++;
        if (j == step->inputs_count)
            return pen_error_set(reterr, PEN_ERR_INVALID, "step %u (model '%.64s'): input '%.64s' is not mapped",
                                 step->number, step->model, model->inputs[i].name);
    }
    return PEN_OK;
}

/* Checks the inputs and outputs of the step; `flows` has what is known of each ensemble tensor. */
static enum pen_status step_check(const struct served *ensemble, const struct ensemble_plan_step *step,
                                  const struct served *model, const struct pen_tensor **flows, struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    if (model->config.plan)
        return pen_error_set(reterr, PEN_ERR_INVALID, "step %u: '%.64s' is an ensemble itself; name its steps instead",
                             step->number, step->model);
    if (model->states_count > 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "step %u: model '%.64s' keeps state, so it cannot be a step",
                             step->number, step->model);
    if (ensemble->max_batch_size > model->max_batch_size)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "step %u (model '%.64s') takes batches of at most %u, the ensemble says max_batch_size %u",
                             step->number, step->model, model->max_batch_size, ensemble->max_batch_size);
    enum pen_status cropped = crop_check(ensemble, step, model, flows, reterr);
    if (cropped != PEN_OK)
        return cropped;
    size_t mapped = step->crop.present ? step->crop.first : step->inputs_count;
    for (size_t i = 0; i < mapped; i++) {
        const struct ensemble_plan_link *link = &step->inputs[i];
        int index = served_input(model, link->port);
        if (index < 0)
            return pen_error_set(reterr, PEN_ERR_INVALID, "step %u (model '%.64s') has no input '%.64s'", step->number,
                                 step->model, link->port);
        bool files = flows[link->tensor] && pictures_carried(model, index, flows[link->tensor]);
        enum pen_status status = files ? PEN_OK
                                       : flow_check(step, link->port, plan->tensors[link->tensor], flows[link->tensor],
                                                    &model->inputs[index], reterr);
        if (status != PEN_OK)
            return status;
    }
    for (size_t i = 0; i < step->outputs_count; i++) {
        const struct ensemble_plan_link *link = &step->outputs[i];
        int index = served_output(model, link->port), declared = ensemble_plan_output(plan, link->tensor);
        if (index < 0)
            return pen_error_set(reterr, PEN_ERR_INVALID, "step %u (model '%.64s') has no output '%.64s'", step->number,
                                 step->model, link->port);
        flows[link->tensor] = &model->outputs[index];
        struct pen_tensor output = model->outputs[index];
        if (step->crop.present && output.rank > 0)
            output.dims[0] = -1; /* as many rows as objects */
        enum pen_status status = declared < 0 ? PEN_OK
                                              : flow_check(step, link->port, plan->tensors[link->tensor],
                                                           &plan->outputs[declared], &output, reterr);
        if (status != PEN_OK)
            return status;
    }
    return all_mapped(step, model, reterr);
}

enum pen_status ensemble_resolve(const struct catalog *catalog, const struct served *ensemble,
                                 struct served *ret_steps[ENSEMBLE_PLAN_STEPS_MAX], struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    const struct pen_tensor *flows[ENSEMBLE_PLAN_TENSORS_MAX] = {NULL};
    const struct ensemble_plan_step *missing = NULL;
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        int index = ensemble_plan_input(plan, i);
        flows[i] = index >= 0 ? &plan->inputs[index] : NULL;
    }
    for (size_t i = 0; i < plan->steps_count && !missing; i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        struct served *model = catalog_find(catalog, step->model, step->version);
        if (!model || model->withdrawn || model->residence.cold || model->residence.leaving) {
            missing = step; /* the tensors of later steps are unknown, too */
            break;
        }
        enum pen_status status = step_check(ensemble, step, model, flows, reterr);
        if (status != PEN_OK)
            return status;
        ret_steps[i] = model;
    }
    if (missing)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "step %u needs model '%.64s', which this worker does not serve",
                             missing->number, missing->model);
    return PEN_OK;
}

bool ensemble_takes_picture(const struct served *ensemble, size_t index)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    for (size_t i = 0; plan && i < plan->steps_count; i++)
        if (plan->steps[i].crop.present && ensemble_plan_input(plan, plan->steps[i].inputs[0].tensor) == (int)index)
            return true;
    return false;
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
static void crop_digest(struct digest_stream *stream, const struct ensemble_plan_crop *crop)
{
    if (!crop->present)
        return;
    digest_update_text(stream, "crop");
    digest_update_u64(stream, (uint64_t)crop->from << 32 | crop->to);
    digest_update(stream, &crop->scale, sizeof crop->scale);
}

struct digest ensemble_digest(const struct served *ensemble, struct served *const *steps)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return (struct digest){{0}}; /* equals no offered digest, so nothing is stored */
    digest_update_text(stream, "penstock-ensemble-1");
    for (size_t i = 0; i < plan->steps_count; i++) {
        digest_update(stream, steps[i]->digest.bytes, sizeof steps[i]->digest.bytes);
        links_digest(stream, plan, plan->steps[i].inputs, plan->steps[i].inputs_count);
        links_digest(stream, plan, plan->steps[i].outputs, plan->steps[i].outputs_count);
        crop_digest(stream, &plan->steps[i].crop);
    }
    digest_update_u64(stream, plan->outputs_count);
    for (size_t i = 0; i < plan->outputs_count; i++)
        digest_update_text(stream, plan->outputs[i].name);
    struct digest digest = digest_final(stream);
    digest_free(stream);
    return digest;
}

/* ---- what is told -------------------------------------------------------------------------------------------------------------------- */

static void state_log(const struct served *ensemble, enum pen_status status, const char *text)
{
    size_t steps = ensemble->config.plan->steps_count;
    if (status == PEN_OK)
        log_event(LOG_INFO, "ensemble_ready", "model=%s version=%" PRIu64 " steps=%zu", ensemble->name,
                  ensemble->version, steps);
    else if (status == PEN_ERR_NOT_FOUND)
        log_event(LOG_INFO, "ensemble_waits", "model=%s version=%" PRIu64 " steps=%zu reason=%s", ensemble->name,
                  ensemble->version, steps, text);
    else
        log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", ensemble->name,
                  ensemble->version, pen_status_name(status), text);
}

void ensembles_check(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i], *steps[ENSEMBLE_PLAN_STEPS_MAX];
        struct pen_error error = {0};
        if (!served->config.plan || served->withdrawn)
            continue;
        enum pen_status status = ensemble_resolve(catalog, served, steps, &error);
        if (!served->resolved || served->resolved_as != status)
            state_log(served, status, error.text);
        served->resolved = true;
        served->resolved_as = status;
        if (status == PEN_ERR_INVALID)
            failures_add(catalog->failures, served->name, served->version, served->stamp, &error);
        else
            failures_drop(catalog->failures, served->name, served->version, served->stamp);
    }
}
