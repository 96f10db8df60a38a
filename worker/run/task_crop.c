/*
 * task_crop.c - a step with crop that comes as a job of its own, because other workers have the ensemble's other models: it runs as an ensemble of that one step.
 *
 * The job has the file of a picture, and the tensors that say where the objects are, in the order of a step's inputs.
 */
#include "task_crop.h"

#include "config.h"
#include "ensemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE_MAX 16.0

static const char *const names[] = {ENSEMBLE_PLAN_CROP_PICTURE, ENSEMBLE_PLAN_CROP_BOXES, ENSEMBLE_PLAN_CROP_COUNT,
                                    ENSEMBLE_PLAN_CROP_POINTS};

static enum pen_status no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a step with crop");
}

static enum pen_status job_check(const struct served *model, const Penstock__Crop *crop,
                                 const struct pen_tensor *tensors, size_t count, struct pen_error *reterr)
{
    size_t wanted = crop->turned ? 4 : 3;
    if (model->files_input < 0 || model->inputs_count != 1 || model->states_count > 0)
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "model '%s' cannot run with crop: it must take pictures (picture in its config.json) as its "
            "only input",
            model->name);
    if (!(crop->scale > 0 && crop->scale <= SCALE_MAX) || crop->from_point > 65535 || crop->to_point > 65535)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "crop: its scale must be above 0, at most %g, its points below 65536", SCALE_MAX);
    bool fits = count == wanted && served_input(model, tensors[0].name) == 0;
    for (size_t i = 1; fits && i < wanted; i++)
        fits = strcmp(tensors[i].name, names[i]) == 0;
    return fits ? PEN_OK
                : pen_error_set(reterr, PEN_ERR_INVALID,
                                "crop: the job's inputs must be the picture '%s', then " ENSEMBLE_PLAN_CROP_BOXES
                                ", " ENSEMBLE_PLAN_CROP_COUNT " and, when it is turned, " ENSEMBLE_PLAN_CROP_POINTS,
                                model->inputs[0].name);
}

static bool link_make(struct ensemble_plan *plan, const char *port, const char *tensor, struct ensemble_plan_link *to)
{
    to->port = strdup(port);
    return to->port && ensemble_plan_tensor(plan, tensor, &to->tensor, NULL) == PEN_OK;
}

/* Inputs as the job has them, under the names above; outputs as the model has them, but for a row for each object. */
static bool declare(struct ensemble_plan *plan, const struct served *model, const struct pen_tensor *tensors,
                    size_t count)
{
    struct ensemble_plan_step *step = &plan->steps[0];
    for (size_t i = 0; i < count; i++) {
        step->inputs_count++;
        if (!link_make(plan, i ? "" : model->inputs[0].name, names[i], &step->inputs[i]))
            return false;
        plan->inputs[i] = tensors[i];
        plan->inputs[i].name = plan->tensors[step->inputs[i].tensor];
    }
    for (size_t i = 0; i < model->outputs_count; i++) {
        step->outputs_count++;
        if (!link_make(plan, model->outputs[i].name, model->outputs[i].name, &step->outputs[i]))
            return false;
        plan->outputs[i] = model->outputs[i];
        plan->outputs[i].name = plan->tensors[step->outputs[i].tensor];
        plan->outputs[i].dims[0] = -1;
    }
    plan->inputs_count = count;
    plan->outputs_count = model->outputs_count;
    return true;
}

static struct ensemble_plan *plan_new(const struct served *model, const Penstock__Crop *crop,
                                      const struct pen_tensor *tensors, size_t count)
{
    struct ensemble_plan *plan = ensemble_plan_new();
    if (!plan)
        return NULL;
    struct ensemble_plan_step *step = &plan->steps[0];
    plan->steps_count = 1;
    *step = (struct ensemble_plan_step){.number = 1,
                                        .version = model->version,
                                        .model = strdup(model->name),
                                        .inputs = calloc(count, sizeof *step->inputs),
                                        .outputs = calloc(model->outputs_count + 1, sizeof *step->outputs),
                                        .crop = {.present = true,
                                                 .turned = crop->turned,
                                                 .first = 1,
                                                 .from = crop->from_point,
                                                 .to = crop->to_point,
                                                 .scale = crop->scale}};
    plan->inputs = calloc(count, sizeof *plan->inputs);
    plan->outputs = calloc(model->outputs_count + 1, sizeof *plan->outputs);
    if (step->model && step->inputs && step->outputs && plan->inputs && plan->outputs &&
        declare(plan, model, tensors, count))
        return plan;
    ensemble_plan_free(plan);
    return NULL;
}

enum pen_status task_crop_open(struct task *task, const Penstock__Crop *crop, struct pen_tensor *tensors, size_t count,
                               struct pen_error *reterr)
{
    struct config config;
    struct served *model = task->served, *whole = NULL;
    enum pen_status status = job_check(model, crop, tensors, count, reterr);
    if (status != PEN_OK)
        return status;
    config_init(&config);
    config.plan = plan_new(model, crop, tensors, count);
    if (!config.plan || !(task->chain = chain_around(model)))
        return config_fini(&config), no_memory(reterr);
    status = ensemble_new(model->name, model->version, model->path ? model->path : "", &config, &whole, reterr);
    if (status != PEN_OK) {
        free(task->chain);
        task->chain = NULL;
        return status;
    }
    for (size_t i = 0; i < count; i++)
        tensors[i].name = whole->inputs[i].name;
    whole->precision = model->precision;
    task->served = whole; /* the chain has the hold of the model now */
    task->cut = true;
    return PEN_OK;
}
