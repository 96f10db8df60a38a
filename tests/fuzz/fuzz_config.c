/* Any bytes as a model's config.json: read, or refused with a sentence; what was read is in itself consistent. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The steps of an ensemble that was read take what is there, and give what was not. */
static void ensemble_plan_check(const struct ensemble_plan *plan)
{
    bool there[ENSEMBLE_PLAN_TENSORS_MAX] = {false};
    for (uint32_t i = 0; i < plan->tensors_count; i++)
        there[i] = ensemble_plan_input(plan, i) >= 0;
    for (size_t i = 0; i < plan->steps_count; i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        for (size_t j = 0; j < step->inputs_count; j++)
            if (!there[step->inputs[j].tensor])
                abort();
        for (size_t j = 0; j < step->outputs_count; j++) {
            if (there[step->outputs[j].tensor])
                abort();
            there[step->outputs[j].tensor] = true;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct pen_error error = {.status = PEN_OK};
    char *text = malloc(size ? size : 1); /* exact, so that a byte too far is seen */
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    config_init(&config);
    enum pen_status status = config_parse(text, size, &config, &error);
    if (status != PEN_OK && !error.text[0])
        abort();
    if (status == PEN_OK && config.plan)
        ensemble_plan_check(config.plan);
    if (status == PEN_OK && config.sequence.present && config.sequence.states_count == 0)
        abort();
    config_fini(&config);
    free(text);
    return 0;
}
