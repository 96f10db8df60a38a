/* measure_whole.c - an ensemble as a chain of models for the engine to measure. */
#include "measure_whole.h"

#include "logline.h"
#include "measure.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Guards `whole` of all ensembles: a result is a few words. */
static pthread_mutex_t wholes = PTHREAD_MUTEX_INITIALIZER;

/* ---- the chain ----------------------------------------------------------------------------------------------------------------------- */

/* What pen_chain_measure borrows. */
struct links {
    struct pen_measure_chain chain;
    struct pen_measure_inputs inputs;
    struct pen_measure_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    uint32_t takes[ENSEMBLE_PLAN_STEPS_MAX][SERVED_TENSORS_MAX], gives[ENSEMBLE_PLAN_STEPS_MAX][SERVED_TENSORS_MAX];
    uint32_t outputs[ENSEMBLE_PLAN_TENSORS_MAX];
    struct pen_tensor shapes[ENSEMBLE_PLAN_TENSORS_MAX];
    struct pen_range ranges[ENSEMBLE_PLAN_TENSORS_MAX];
};

/* Inputs of the whole come first, in its order; then all others. */
static uint32_t flow_of(const struct ensemble_plan *plan, uint32_t tensor)
{
    int input = ensemble_plan_input(plan, tensor);
    return input >= 0 ? (uint32_t)input : (uint32_t)plan->inputs_count + tensor;
}

static enum pen_status not_plain(const struct ensemble_plan_step *step, const char *what, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "step %u (model '%.64s') %s: it is not measured as a whole",
                         step->number, step->model, what);
}

/* Whether the network alone stands between the step's tensors. */
static enum pen_status step_plain(const struct ensemble_plan *plan, const struct ensemble_plan_step *step,
                                  const struct served *model, struct pen_error *reterr)
{
    if (step->crop.present)
        return not_plain(step, "cuts pictures out", reterr);
    if (model->answer)
        return not_plain(step, "has an answer that is not its network's", reterr);
    if (model->states_count > 0)
        return not_plain(step, "keeps a state", reterr);
    if (model->strings)
        return not_plain(step, "takes texts", reterr);
    for (size_t i = 0; i < step->inputs_count; i++)
        if (served_input(model, step->inputs[i].port) == model->pixels_input && model->pixels_input >= 0 &&
            ensemble_plan_input(plan, step->inputs[i].tensor) < 0)
            return not_plain(step, "takes pixels that another step gives", reterr);
    return PEN_OK;
}

/* An input of the whole is drawn as the network behind it wants it. */
static enum pen_status input_draw(struct links *l, uint32_t flow, const struct warm_shape *shape,
                                  const struct pen_range *ranges, size_t input, const struct ensemble_plan_step *step,
                                  struct pen_error *reterr)
{
    struct pen_tensor *to = &l->shapes[flow];
    const struct pen_tensor *want = &shape->inputs[input];
    if (to->rank > 0 || to->dtype != PEN_DTYPE_NONE) {
        bool same = to->dtype == want->dtype && to->rank == want->rank &&
                    memcmp(to->dims, want->dims, want->rank * sizeof want->dims[0]) == 0;
        return same ? PEN_OK : not_plain(step, "takes an input of the whole in a form of its own", reterr);
    }
    *to = *want;
    l->ranges[flow] = ranges[input];
    return PEN_OK;
}

static enum pen_status step_link(struct links *l, const struct ensemble_plan *plan, size_t index,
                                 struct served *const *steps, struct pen_error *reterr)
{
    const struct ensemble_plan_step *step = &plan->steps[index];
    const struct served *model = steps[index];
    struct warm_shape shape;
    struct pen_range ranges[SERVED_TENSORS_MAX];
    enum pen_status status = step_plain(plan, step, model, reterr);
    bool drawn = false;
    for (size_t i = 0; i < SERVED_TENSORS_MAX; i++)
        l->takes[index][i] = l->gives[index][i] = UINT32_MAX;
    for (size_t i = 0; status == PEN_OK && i < step->inputs_count; i++) {
        int place = served_input(model, step->inputs[i].port);
        uint32_t flow = flow_of(plan, step->inputs[i].tensor);
        if (place < 0)
            return not_plain(step, "has another input now", reterr);
        l->takes[index][place] = flow;
        if (flow >= plan->inputs_count)
            continue;
        if (!drawn)
            status = measure_drawn(model, &shape, ranges, reterr);
        drawn = true;
        if (status == PEN_OK)
            status = input_draw(l, flow, &shape, ranges, (size_t)place, step, reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < step->outputs_count; i++) {
        int place = served_output(model, step->outputs[i].port);
        if (place >= 0)
            l->gives[index][place] = flow_of(plan, step->outputs[i].tensor);
    }
    for (size_t i = 0; status == PEN_OK && i < model->inputs_count; i++)
        if (l->takes[index][i] == UINT32_MAX)
            return not_plain(step, "has an input that nothing gives", reterr);
    l->steps[index] = (struct pen_measure_step){model->model, l->takes[index], l->gives[index]};
    return status;
}

static enum pen_status links_make(struct links *l, const struct served *ensemble, struct served *const *steps,
                                  struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < plan->steps_count; i++)
        status = step_link(l, plan, i, steps, reterr);
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        int output = ensemble_plan_output(plan, i);
        if (output >= 0)
            l->outputs[output] = flow_of(plan, i);
    }
    l->inputs = (struct pen_measure_inputs){.shapes = l->shapes, .ranges = l->ranges};
    l->chain = (struct pen_measure_chain){.steps = l->steps,
                                          .steps_count = plan->steps_count,
                                          .flows = (uint32_t)(plan->inputs_count + plan->tensors_count),
                                          .inputs = (uint32_t)plan->inputs_count,
                                          .outputs = l->outputs,
                                          .outputs_count = plan->outputs_count};
    return status;
}

/* ---- the result ---------------------------------------------------------------------------------------------------------------------- */

static void publish(struct served *ensemble, const struct digest *digest, enum served_measured as,
                    const struct pen_measured *measured)
{
    pthread_mutex_lock(&wholes);
    ensemble->whole = (struct whole_measured){.of = *digest, .as = as, .measured = *measured};
    pthread_mutex_unlock(&wholes);
}

static enum served_measured known(const struct served *ensemble, const struct digest *digest,
                                  struct pen_measured *ret_measured)
{
    pthread_mutex_lock(&wholes);
    struct whole_measured whole = ensemble->whole;
    pthread_mutex_unlock(&wholes);
    *ret_measured = whole.measured;
    return digest_equal(whole.of, *digest) ? whole.as : SERVED_NOT_MEASURED;
}

static void measured_log(const struct served *ensemble, const struct pen_measured *m, bool kept)
{
    log_event(LOG_INFO, "model_measured",
              "model=%s version=%" PRIu64 " steps=%zu largest=%.3g mean=%.3g inputs=%u source=%s repeatable=%s kept=%s",
              ensemble->name, ensemble->version, ensemble->config.plan->steps_count, m->largest, m->mean, m->inputs,
              pen_measured_source_name(m->source), m->repeatable ? "yes" : "no", kept ? "yes" : "no");
}

enum pen_status measure_whole_run(struct served *ensemble, struct served *const *steps, const struct pen_stop *stop,
                                  struct pen_error *reterr)
{
    struct digest digest = ensemble_digest(ensemble, steps);
    struct pen_measured measured = {.largest = 0.0};
    bool kept = true;
    if (known(ensemble, &digest, &measured) == SERVED_MEASURED)
        return PEN_OK;
    struct links *links = calloc(1, sizeof *links);
    if (!links)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure it");
    enum pen_status status = links_make(links, ensemble, steps, reterr);
    if (status == PEN_OK && !pen_chain_measured(&links->chain, &links->inputs, &measured))
        status = pen_chain_measure(&links->chain, &links->inputs, stop, &measured, &kept, reterr);
    free(links);
    if (status == PEN_OK)
        measured_log(ensemble, &measured, kept);
    if (status != PEN_ERR_CANCELLED && status != PEN_ERR_DEADLINE)
        publish(ensemble, &digest, status == PEN_OK ? SERVED_MEASURED : SERVED_UNMEASURABLE, &measured);
    return status;
}

void measure_whole_give_up(struct served *ensemble, struct served *const *steps)
{
    struct digest digest = ensemble_digest(ensemble, steps);
    publish(ensemble, &digest, SERVED_UNMEASURABLE, &(struct pen_measured){.largest = 0.0});
}

/* ---- what follows from the steps ------------------------------------------------------------------------------------------------------ */

static bool feeds(const struct ensemble_plan *plan, size_t index)
{
    const struct ensemble_plan_step *step = &plan->steps[index];
    for (size_t i = 0; i < plan->steps_count; i++)
        for (size_t j = 0; j < plan->steps[i].inputs_count; j++)
            for (size_t k = 0; k < step->outputs_count; k++)
                if (plan->steps[i].inputs[j].tensor == step->outputs[k].tensor)
                    return true;
    return false;
}

static bool from_steps(const struct ensemble_plan *plan, struct served *const *steps, struct pen_measured *ret_measured)
{
    *ret_measured = (struct pen_measured){.source = PEN_MEASURED_STEPS, .repeatable = true};
    for (size_t i = 0; i < plan->steps_count; i++) {
        struct pen_measured step;
        if (!measure_result(steps[i], &step) || (feeds(plan, i) && !(step.largest <= 0.0)))
            return false;
        if (!(step.largest <= ret_measured->largest)) {
            ret_measured->largest = step.largest;
            ret_measured->mean = step.mean;
            ret_measured->inputs = step.inputs;
        }
        ret_measured->repeatable &= step.repeatable;
    }
    return true;
}

bool measure_whole_result(const struct served *ensemble, struct served *const *steps, const struct digest *digest,
                          struct pen_measured *ret_measured, bool *ret_open)
{
    enum served_measured as = known(ensemble, digest, ret_measured);
    *ret_open = as == SERVED_NOT_MEASURED;
    return as == SERVED_MEASURED || from_steps(ensemble->config.plan, steps, ret_measured);
}

/* ---- who is next ---------------------------------------------------------------------------------------------------------------------- */

static bool steps_take(struct catalog *catalog, struct whole_taken *t)
{
    const struct ensemble_plan *plan = t->ensemble->config.plan;
    for (size_t i = 0; i < plan->steps_count; i++)
        if (catalog_take(catalog, plan->steps[i].model, plan->steps[i].version, &t->steps[i]) != PEN_OK)
            return false;
    struct pen_measured measured;
    struct digest digest = ensemble_digest(t->ensemble, t->steps);
    return known(t->ensemble, &digest, &measured) == SERVED_NOT_MEASURED;
}

bool measure_whole_take(struct catalog *catalog, size_t *at, struct whole_taken *ret_taken)
{
    for (;;) {
        *ret_taken = (struct whole_taken){.ensemble = catalog_take_ensemble(catalog, at)};
        if (!ret_taken->ensemble)
            return false;
        if (steps_take(catalog, ret_taken))
            return true;
        measure_whole_release(ret_taken);
    }
}

void measure_whole_release(struct whole_taken *taken)
{
    for (size_t i = 0; i < ENSEMBLE_PLAN_STEPS_MAX; i++)
        if (taken->steps[i])
            served_release(taken->steps[i]);
    served_release(taken->ensemble);
}
