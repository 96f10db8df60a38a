/* ensemble_plan.c - orders an ensemble's steps, and says what is wrong when there is no order. */
#include "ensemble_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIVER_NONE  UINT32_MAX
#define GIVER_INPUT (UINT32_MAX - 1) /* an input of the whole */

static void links_free(struct ensemble_plan_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(links[i].port);
    free(links);
}

struct ensemble_plan *ensemble_plan_new(void)
{
    return calloc(1, sizeof(struct ensemble_plan));
}

void ensemble_plan_free(struct ensemble_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->steps_count; i++) {
        free(plan->steps[i].model);
        links_free(plan->steps[i].inputs, plan->steps[i].inputs_count);
        links_free(plan->steps[i].outputs, plan->steps[i].outputs_count);
    }
    for (size_t i = 0; i < plan->tensors_count; i++)
        free(plan->tensors[i]);
    free(plan->inputs);
    free(plan->outputs);
    free(plan);
}

enum pen_status ensemble_plan_tensor(struct ensemble_plan *plan, const char *name, uint32_t *ret_tensor,
                                     struct pen_error *reterr)
{
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        if (strcmp(plan->tensors[i], name) == 0) {
            *ret_tensor = i;
            return PEN_OK;
        }
    }
    if (plan->tensors_count == ENSEMBLE_PLAN_TENSORS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "an ensemble may name at most %u tensors",
                             ENSEMBLE_PLAN_TENSORS_MAX);
    char *copy = strdup(name);
    if (!copy)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps of an ensemble");
    *ret_tensor = (uint32_t)plan->tensors_count;
    plan->tensors[plan->tensors_count++] = copy;
    return PEN_OK;
}

/* The names of declared tensors point into the list itself, so comparing pointers is enough. */
static int declared(const struct ensemble_plan *plan, const struct pen_tensor *list, size_t count, uint32_t tensor)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].name == plan->tensors[tensor])
            return (int)i;
    return -1;
}

int ensemble_plan_input(const struct ensemble_plan *plan, uint32_t tensor)
{
    return declared(plan, plan->inputs, plan->inputs_count, tensor);
}

int ensemble_plan_output(const struct ensemble_plan *plan, uint32_t tensor)
{
    return declared(plan, plan->outputs, plan->outputs_count, tensor);
}

/* ---- who gives what ---------------------------------------------------------------------------------------------------------------- */

static enum pen_status givers_find(const struct ensemble_plan *plan, uint32_t givers[ENSEMBLE_PLAN_TENSORS_MAX],
                                   struct pen_error *reterr)
{
    for (uint32_t i = 0; i < plan->tensors_count; i++)
        givers[i] = ensemble_plan_input(plan, i) >= 0 ? GIVER_INPUT : GIVER_NONE;
    for (uint32_t i = 0; i < plan->steps_count; i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        for (size_t j = 0; j < step->outputs_count; j++) {
            uint32_t tensor = step->outputs[j].tensor;
            if (givers[tensor] != GIVER_NONE)
                return pen_error_set(reterr, PEN_ERR_INVALID,
                                     "step %u (model '%.64s') gives '%.64s', which %s gives already", step->number,
                                     step->model, plan->tensors[tensor],
                                     givers[tensor] == GIVER_INPUT ? "the caller" : "another output");
            givers[tensor] = i;
        }
    }
    return PEN_OK;
}

/* Every tensor that a step takes must have a source. */
static enum pen_status takers_check(const struct ensemble_plan *plan, const uint32_t *givers, struct pen_error *reterr)
{
    bool taken[ENSEMBLE_PLAN_TENSORS_MAX] = {false};
    for (size_t i = 0; i < plan->steps_count; i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        for (size_t j = 0; j < step->inputs_count; j++) {
            uint32_t tensor = step->inputs[j].tensor;
            taken[tensor] = true;
            if (givers[tensor] == GIVER_NONE)
                return pen_error_set(reterr, PEN_ERR_INVALID,
                                     "step %u (model '%.64s') takes '%.64s', which no step gives and which is no input",
                                     step->number, step->model, plan->tensors[tensor]);
        }
    }
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        if (ensemble_plan_output(plan, i) >= 0 && (givers[i] == GIVER_NONE || givers[i] == GIVER_INPUT))
            return pen_error_set(reterr, PEN_ERR_INVALID, "output '%.64s' is given by no step", plan->tensors[i]);
        if (ensemble_plan_input(plan, i) >= 0 && !taken[i])
            return pen_error_set(reterr, PEN_ERR_INVALID, "input '%.64s' is taken by no step", plan->tensors[i]);
    }
    return PEN_OK;
}

/* ---- their order ------------------------------------------------------------------------------------------------------------------- */

static bool step_ready(const struct ensemble_plan_step *step, const uint32_t *givers, const bool *placed)
{
    for (size_t j = 0; j < step->inputs_count; j++) {
        uint32_t giver = givers[step->inputs[j].tensor];
        if (giver != GIVER_INPUT && !placed[giver])
            return false;
    }
    return true;
}

static enum pen_status cycle_told(const struct ensemble_plan *plan, const bool *placed, struct pen_error *reterr)
{
    char text[128] = "";
    for (size_t i = 0; i < plan->steps_count; i++) {
        if (placed[i])
            continue;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%u", used ? ", " : "", plan->steps[i].number);
    }
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "steps %s take, directly or through each other, what they give themselves: a cycle", text);
}

enum pen_status ensemble_plan_order(struct ensemble_plan *plan, struct pen_error *reterr)
{
    uint32_t givers[ENSEMBLE_PLAN_TENSORS_MAX];
    bool placed[ENSEMBLE_PLAN_STEPS_MAX] = {false};
    struct ensemble_plan_step ordered[ENSEMBLE_PLAN_STEPS_MAX];
    enum pen_status status = givers_find(plan, givers, reterr);
    if (status == PEN_OK)
        status = takers_check(plan, givers, reterr);
    if (status != PEN_OK)
        return status;
    for (size_t count = 0; count < plan->steps_count; count++) {
        size_t next = 0;
        while (next < plan->steps_count && (placed[next] || !step_ready(&plan->steps[next], givers, placed)))
            next++;
        if (next == plan->steps_count)
            return cycle_told(plan, placed, reterr);
        placed[next] = true;
        ordered[count] = plan->steps[next];
    }
    memcpy(plan->steps, ordered, plan->steps_count * sizeof *ordered);
    return PEN_OK;
}
