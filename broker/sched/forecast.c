#include "forecast.h"

#include <inttypes.h>

#include "ensemble_models.h"
#include "warming.h"

#define LOOK_MAX 64u /* workers looked at; more of the same kind would hardly change the result */

/* What the capable workers of a model can do. */
struct capacity {
    uint64_t first_us;       /* when the quickest of them would be done with one row */
    uint64_t run_us;         /* the part of that for the row itself */
    uint64_t rows_per_s;     /* of all of them together, in their largest batches */
    uint32_t looked, offers; /* workers of known speed; all workers */
};

/* A cold offer adds no rate, because nobody knows when its model will be loaded. */
static void add_offer(const struct broker *broker, const struct offer *offer, struct capacity *capacity)
{
    uint64_t load_us = offer->cold ? warming_us(offer, broker->now_us) : 0;
    uint32_t rows = latency_target(&offer->latency, offer->rows_max);
    uint64_t row_us = latency_expect_us(&offer->latency, rows) / rows;
    uint64_t run_us = latency_expect_us(&offer->latency, 1);
    uint64_t done_us = load_us + worker_free_us(offer->worker, broker->now_us) + run_us;
    capacity->rows_per_s += offer->cold ? 0 : 1000000u * (uint64_t)offer->worker->slots / (row_us ? row_us : 1);
    capacity->looked++;
    if (done_us >= capacity->first_us)
        return;
    capacity->first_us = done_us;
    capacity->run_us = run_us;
}

/* False: the speed of one of them is not known well enough. */
static bool measure(const struct broker *broker, const struct model *model, const struct demand *demand,
                    struct capacity *ret_capacity)
{
    const struct offer *offer;
    *ret_capacity = (struct capacity){.first_us = UINT64_MAX};
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (!offer_serves(offer, demand))
            continue;
        if (!latency_known(&offer->latency))
            return false;
        if (ret_capacity->looked < LOOK_MAX)
            add_offer(broker, offer, ret_capacity);
        ret_capacity->offers++;
    }
    if (ret_capacity->looked == 0)
        return false;
    ret_capacity->rows_per_s = ret_capacity->rows_per_s * ret_capacity->offers / ret_capacity->looked;
    return true;
}

static uint64_t wait_us(const struct capacity *capacity, uint64_t rows_ahead)
{
    return capacity->rows_per_s ? rows_ahead * 1000000u / capacity->rows_per_s : 0;
}

/* ---- an ensemble that no worker has whole ---- */

/* The shape of a step's job is unknown until the steps before it have run, so all jobs that wait for its model count
   as ahead of it. */
static uint64_t ahead_of_step(const struct broker *broker, const struct session *session, const struct model *model,
                              const struct admission_place *place)
{
    const struct lane *lane;
    uint64_t rows = 0;
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    {
        struct admission_place there = *place;
        there.demand = &lane->demand;
        there.shape = lane->shape;
        if (lane->model == model)
            rows += queue_ahead(&model->queue, session, &there);
    }
    return rows;
}

/* The longest path through the steps: each begins when its inputs are there and its model's workers have time for
   it. */
static uint64_t steps_us(const struct broker *broker, const struct session *session, const struct admission *admission,
                         const struct admission_place *place)
{
    const struct ensemble_plan *plan = admission->model->plan;
    struct demand demand = admission->demand;
    uint64_t there_us[ENSEMBLE_PLAN_TENSORS_MAX] = {0}, done_us = 0;
    demand.forms = 0; /* those of the whole */
    for (size_t i = 0; i < ensemble_plan_steps(plan); i++) {
        const struct ensemble_plan_step *step = &plan->steps[i];
        const struct model *model = ensemble_step_model(&broker->models, &broker->labels, step);
        struct capacity capacity;
        if (!model || !measure(broker, model, &demand, &capacity))
            return 0;
        uint64_t begin_us =
            capacity.first_us - capacity.run_us + wait_us(&capacity, ahead_of_step(broker, session, model, place));
        for (size_t j = 0; j < step->inputs_count; j++)
            begin_us = there_us[step->inputs[j].tensor] > begin_us ? there_us[step->inputs[j].tensor] : begin_us;
        for (size_t j = 0; j < step->outputs_count; j++)
            there_us[step->outputs[j].tensor] = begin_us + capacity.run_us;
        done_us = begin_us + capacity.run_us > done_us ? begin_us + capacity.run_us : done_us;
    }
    return done_us;
}

/* From now; 0 = not known (no worker, or one whose speed is not known). */
static uint64_t forecast_us(const struct broker *broker, const struct session *session,
                            const struct admission *admission, uint64_t remaining_us)
{
    const struct model *model = admission->model;
    const struct admission_place place = {.demand = &admission->demand,
                                          .shape = admission->shape,
                                          .deadline_us = broker->now_us + remaining_us,
                                          .priority = admission->priority};
    struct capacity capacity;
    if (model->plan && !model_served(model, &admission->demand))
        return steps_us(broker, session, admission, &place);
    if (!measure(broker, model, &admission->demand, &capacity))
        return 0;
    return capacity.first_us + wait_us(&capacity, queue_ahead(&model->queue, session, &place));
}

enum pen_status forecast_check(const struct broker *broker, const struct session *session,
                               const struct admission *admission, uint64_t remaining_us, uint64_t *ret_expect_us,
                               struct pen_error *reterr)
{
    *ret_expect_us = 0;
    if (remaining_us == 0)
        return PEN_OK;
    uint64_t expect_us = forecast_us(broker, session, admission, remaining_us);
    if (expect_us <= remaining_us + remaining_us / 4)
        return PEN_OK;
    *ret_expect_us = expect_us;
    return pen_error_set(reterr, PEN_ERR_DEADLINE,
                         "the job would be done in about %" PRIu64 " us and its deadline is in %" PRIu64
                         " us; give it more time or try again when less is waiting (--[no-]refuse-late)",
                         expect_us, remaining_us);
}

uint64_t forecast_wait_hint_us(const struct model *model)
{
    uint64_t slots = 0, expect_us = 0;
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        slots += offer->worker->slots;
        expect_us += latency_expect_us(&offer->latency, 1) * offer->worker->slots;
    }
    if (slots == 0)
        return 1000000;
    uint64_t hint =
        model->queue.waiting * (expect_us / slots) / slots / 4; /* a quarter of the queue: room for newcomers by then */
    return hint < 5000 ? 5000 : hint > 5000000 ? 5000000 : hint;
}

/* ---- models that sleep ---- */

static enum wake wake_alone(const struct broker *broker, const struct model *model, const struct demand *demand,
                            uint64_t *ret_us)
{
    const struct offer *offer;
    uint32_t looked = 0;
    *ret_us = UINT64_MAX;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (!offer_serves(offer, demand))
            continue;
        uint64_t load_us = offer->cold ? warming_us(offer, broker->now_us) : 0;
        *ret_us = load_us < *ret_us ? load_us : *ret_us;
        if (!offer->cold || ++looked == LOOK_MAX)
            break;
    }
    if (*ret_us != UINT64_MAX)
        return offer && !offer->cold ? WAKE_NONE : WAKE_LOADING;
    *ret_us = model->came_us ? model->came_us : model->load_us;
    return WAKE_NO_WORKER;
}

enum wake forecast_wake(const struct broker *broker, const struct model *model, const struct demand *demand,
                        uint64_t *ret_us)
{
    struct demand steps_demand = *demand;
    enum wake wake = WAKE_NONE;
    if (!model->plan || model_served(model, demand) || model_asleep(model))
        return wake_alone(broker, model, demand, ret_us);
    steps_demand.forms = 0; /* those of the whole */
    *ret_us = 0;
    for (size_t i = 0; i < ensemble_plan_steps(model->plan); i++) {
        uint64_t us = 0;
        const struct model *step = ensemble_step_model(&broker->models, &broker->labels, &model->plan->steps[i]);
        enum wake one = step ? wake_alone(broker, step, &steps_demand, &us) : WAKE_NONE;
        wake = one > wake ? one : wake;
        *ret_us = one != WAKE_NONE && us > *ret_us ? us : *ret_us;
    }
    return wake;
}
