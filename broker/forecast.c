#include "forecast.h"

#include <inttypes.h>

#include "warming.h"

#define LOOK_MAX 64u /* workers looked at; more of a kind would not change the picture */

/* What the capable workers of a model can do. */
struct capacity {
    uint64_t first_us;       /* when the quickest of them would be done with one row */
    uint64_t rows_per_s;     /* of all of them, in their largest batches */
    uint32_t looked, offers; /* known ones, and all */
};

/* One that must be loaded first adds no rate: what it will do once it is there is nobody's promise. */
static void add_offer(const struct broker *broker, const struct offer *offer, struct capacity *capacity)
{
    uint64_t load_us = offer->cold ? warming_us(offer, broker->now_us) : 0;
    uint32_t rows = offer->rows_max ? offer->rows_max : 1;
    uint64_t row_us = speed_expect_us(&offer->speed, rows) / rows;
    uint64_t done_us = load_us + worker_free_us(offer->worker, broker->now_us) + speed_expect_us(&offer->speed, 1);
    capacity->rows_per_s += offer->cold ? 0 : 1000000u * (uint64_t)offer->worker->slots / (row_us ? row_us : 1);
    capacity->first_us = done_us < capacity->first_us ? done_us : capacity->first_us;
    capacity->looked++;
}

/* False: one of them is not known well enough. */
static bool measure(const struct broker *broker, const struct admission *admission, struct capacity *ret_capacity)
{
    const struct offer *offer;
    *ret_capacity = (struct capacity){.first_us = UINT64_MAX};
    TAILQ_FOREACH(offer, &admission->model->offers, in_model)
    {
        if (offer->worker->state != WORKER_READY ||
            !match_capable(&admission->demand, offer->meta->backend, offer->precision, offer->worker->tags))
            continue;
        if (!(offer->speed.seeded | offer->speed.measured))
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

uint64_t forecast_us(const struct broker *broker, const struct session *session, const struct admission *admission,
                     uint64_t remaining_us)
{
    const struct admission_place place = {.demand = &admission->demand,
                                          .shape = admission->shape,
                                          .deadline_us = broker->now_us + remaining_us,
                                          .priority = admission->priority};
    struct capacity capacity;
    if (!measure(broker, admission, &capacity))
        return 0;
    uint64_t ahead = queue_ahead(&admission->model->queue, session, &place);
    uint64_t wait_us = capacity.rows_per_s ? ahead * 1000000u / capacity.rows_per_s : 0;
    return capacity.first_us + wait_us;
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
