/* recipe.c - the order of an ensemble's steps, and sentences about those that have none. */
#include "recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIVER_NONE  UINT32_MAX
#define GIVER_INPUT (UINT32_MAX - 1) /* an input of the whole */

static void links_free(struct recipe_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(links[i].port);
    free(links);
}

struct recipe *recipe_new(void)
{
    return calloc(1, sizeof(struct recipe));
}

void recipe_free(struct recipe *recipe)
{
    if (!recipe)
        return;
    for (size_t i = 0; i < recipe->steps_count; i++) {
        free(recipe->steps[i].model);
        links_free(recipe->steps[i].inputs, recipe->steps[i].inputs_count);
        links_free(recipe->steps[i].outputs, recipe->steps[i].outputs_count);
    }
    for (size_t i = 0; i < recipe->tensors_count; i++)
        free(recipe->tensors[i]);
    free(recipe->inputs);
    free(recipe->outputs);
    free(recipe);
}

enum pen_status recipe_tensor(struct recipe *recipe, const char *name, uint32_t *ret_tensor, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < recipe->tensors_count; i++) {
        if (strcmp(recipe->tensors[i], name) == 0) {
            *ret_tensor = i;
            return PEN_OK;
        }
    }
    if (recipe->tensors_count == RECIPE_TENSORS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "an ensemble may name at most %u tensors", RECIPE_TENSORS_MAX);
    char *copy = strdup(name);
    if (!copy)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the steps of an ensemble");
    *ret_tensor = (uint32_t)recipe->tensors_count;
    recipe->tensors[recipe->tensors_count++] = copy;
    return PEN_OK;
}

/* Names of declared tensors are those of the list itself, so pointers tell. */
static int declared(const struct recipe *recipe, const struct pen_tensor *list, size_t count, uint32_t tensor)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].name == recipe->tensors[tensor])
            return (int)i;
    return -1;
}

int recipe_input(const struct recipe *recipe, uint32_t tensor)
{
    return declared(recipe, recipe->inputs, recipe->inputs_count, tensor);
}

int recipe_output(const struct recipe *recipe, uint32_t tensor)
{
    return declared(recipe, recipe->outputs, recipe->outputs_count, tensor);
}

/* ---- who gives what ---------------------------------------------------------------------------------------------------------------- */

static enum pen_status givers_find(const struct recipe *recipe, uint32_t givers[RECIPE_TENSORS_MAX],
                                   struct pen_error *reterr)
{
    for (uint32_t i = 0; i < recipe->tensors_count; i++)
        givers[i] = recipe_input(recipe, i) >= 0 ? GIVER_INPUT : GIVER_NONE;
    for (uint32_t i = 0; i < recipe->steps_count; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        for (size_t j = 0; j < step->outputs_count; j++) {
            uint32_t tensor = step->outputs[j].tensor;
            if (givers[tensor] != GIVER_NONE)
                return pen_error_set(reterr, PEN_ERR_INVALID,
                                     "step %u (model '%.64s') gives '%.64s', which %s gives already", step->number,
                                     step->model, recipe->tensors[tensor],
                                     givers[tensor] == GIVER_INPUT ? "the caller" : "another output");
            givers[tensor] = i;
        }
    }
    return PEN_OK;
}

/* Everything that is taken is given by somebody. */
static enum pen_status takers_check(const struct recipe *recipe, const uint32_t *givers, struct pen_error *reterr)
{
    bool taken[RECIPE_TENSORS_MAX] = {false};
    for (size_t i = 0; i < recipe->steps_count; i++) {
        const struct recipe_step *step = &recipe->steps[i];
        for (size_t j = 0; j < step->inputs_count; j++) {
            uint32_t tensor = step->inputs[j].tensor;
            taken[tensor] = true;
            if (givers[tensor] == GIVER_NONE)
                return pen_error_set(reterr, PEN_ERR_INVALID,
                                     "step %u (model '%.64s') takes '%.64s', which no step gives and which is no input",
                                     step->number, step->model, recipe->tensors[tensor]);
        }
    }
    for (uint32_t i = 0; i < recipe->tensors_count; i++) {
        if (recipe_output(recipe, i) >= 0 && (givers[i] == GIVER_NONE || givers[i] == GIVER_INPUT))
            return pen_error_set(reterr, PEN_ERR_INVALID, "output '%.64s' is given by no step", recipe->tensors[i]);
        if (recipe_input(recipe, i) >= 0 && !taken[i])
            return pen_error_set(reterr, PEN_ERR_INVALID, "input '%.64s' is taken by no step", recipe->tensors[i]);
    }
    return PEN_OK;
}

/* ---- their order ------------------------------------------------------------------------------------------------------------------- */

static bool step_ready(const struct recipe_step *step, const uint32_t *givers, const bool *placed)
{
    for (size_t j = 0; j < step->inputs_count; j++) {
        uint32_t giver = givers[step->inputs[j].tensor];
        if (giver != GIVER_INPUT && !placed[giver])
            return false;
    }
    return true;
}

static enum pen_status cycle_told(const struct recipe *recipe, const bool *placed, struct pen_error *reterr)
{
    char text[128] = "";
    for (size_t i = 0; i < recipe->steps_count; i++) {
        if (placed[i])
            continue;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%u", used ? ", " : "", recipe->steps[i].number);
    }
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "steps %s take, directly or through each other, what they give themselves: a cycle", text);
}

enum pen_status recipe_order(struct recipe *recipe, struct pen_error *reterr)
{
    uint32_t givers[RECIPE_TENSORS_MAX];
    bool placed[RECIPE_STEPS_MAX] = {false};
    struct recipe_step ordered[RECIPE_STEPS_MAX];
    enum pen_status status = givers_find(recipe, givers, reterr);
    if (status == PEN_OK)
        status = takers_check(recipe, givers, reterr);
    if (status != PEN_OK)
        return status;
    for (size_t count = 0; count < recipe->steps_count; count++) {
        size_t next = 0;
        while (next < recipe->steps_count && (placed[next] || !step_ready(&recipe->steps[next], givers, placed)))
            next++;
        if (next == recipe->steps_count)
            return cycle_told(recipe, placed, reterr);
        placed[next] = true;
        ordered[count] = recipe->steps[next];
    }
    memcpy(recipe->steps, ordered, recipe->steps_count * sizeof *ordered);
    return PEN_OK;
}
