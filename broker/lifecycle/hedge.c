#include "hedge.h"

#include <inttypes.h>

#include "assertion.h"
#include "dispatch.h"
#include "logline.h"
#include "metrics_record.h"
#include "send.h"

#define LOOK_US       2000u
#define SAMPLES_MIN   20u /* with fewer samples nobody knows what is late */
#define SHARE         20u /* one hedge per so many dispatches */
#define LATE_QUANTILE 0.95

static void clear_slot(struct dispatch *dispatch, uint32_t slot)
{
    PEN_ASSERT(slot < dispatch->count && !dispatch->slots[slot].answered, "a hedge's slot is one that is awaited");
    dispatch->slots[slot].job = NULL;
}

void hedge_drop(struct broker *broker, struct job *job)
{
    struct dispatch *dispatch = job->hedge;
    struct envelope env = envelope_make(FRAME_CANCEL);
    PEN_ASSERT(job->state == JOB_DISPATCHED, "only a job that runs has a hedge");
    if (!dispatch)
        return;
    job->hedge = NULL;
    clear_slot(dispatch, job->hedge_slot);
    env.job = dispatch->slots[job->hedge_slot].id;
    broker_send_worker(broker, dispatch->worker, &env, NULL, 0);
}

bool hedge_succeed(struct job *job)
{
    if (!job->hedge)
        return false;
    PEN_ASSERT(job->hedge != job->dispatch && job->hedge->slots[job->hedge_slot].job == job,
               "a hedge is a run of its own, and its slot names the job");
    job->dispatch = job->hedge;
    job->slot = job->hedge_slot;
    job->hedge = NULL;
    return true;
}

bool hedge_forget(struct job *job, const struct dispatch *dispatch, uint32_t slot)
{
    if (!job->hedge || job->hedge != dispatch || job->hedge_slot != slot)
        return false;
    job->hedge = NULL;
    return true;
}

void hedge_answered(struct job *job, const struct dispatch *dispatch, uint32_t slot)
{
    if (!job->hedge || job->hedge != dispatch || job->hedge_slot != slot)
        return;
    PEN_ASSERT(job->hedge != job->dispatch, "a hedge is a run of its own");
    struct dispatch *first = job->dispatch;
    job->hedge_slot = job->slot;
    job->slot = (uint8_t)slot;
    job->dispatch = job->hedge;
    job->hedge = first;
}

static uint64_t late_us(const struct dispatch *dispatch)
{
    if (!dispatch->series || histogram_count(&dispatch->series->compute) < SAMPLES_MIN)
        return UINT64_MAX;
    uint64_t us = histogram_quantile_us(&dispatch->series->compute, LATE_QUANTILE) +
                  histogram_quantile_us(&dispatch->series->transfer, LATE_QUANTILE);
    return us > 2 * dispatch->expect_us ? us : 2 * dispatch->expect_us; /* a batch takes longer than one job */
}

static struct offer *idle_offer(const struct job *job)
{
    struct offer *offer;
    TAILQ_FOREACH(offer, &job->lane->model->offers, in_model)
    {
        const struct worker *worker = offer->worker;
        if (worker != job->dispatch->worker && worker->messages == 0 && !worker->paused && !offer->cold &&
            offer_serves(offer, &job->lane->demand))
            return offer;
    }
    return NULL;
}

static void send_hedge(struct broker *broker, struct job *job)
{
    struct offer *offer = idle_offer(job);
    char id[JOB_ID_TEXT_BYTES];
    if (!offer || !dispatch_hedge(broker, job, offer))
        return;
    broker->stats.jobs_hedged++;
    if (log_enabled(LOG_DEBUG))
        log_event(LOG_DEBUG, "job_hedged", "job=%s worker=%s late_on=%s", job_id_text(job->id, id),
                  offer->worker->hello->name, job->dispatch->worker->hello->name);
}

static void look_at(struct broker *broker, struct dispatch *dispatch)
{
    if (broker->now_us - dispatch->sent_us <= late_us(dispatch))
        return;
    for (uint32_t i = 0; i < dispatch->count; i++) {
        struct job *job = dispatch->slots[i].job;
        if (job && job->dispatch == dispatch && !job->hedge && !job->debug && job->deaths == 0 &&
            job->lane->model->sequence_idle_us == 0 &&
            broker->stats.jobs_hedged * SHARE <= broker->stats.jobs_dispatched)
            send_hedge(broker, job);
    }
}

void hedge_tick(struct broker *broker)
{
    struct worker *worker;
    struct dispatch *dispatch;
    broker->hedge_us = broker->now_us + LOOK_US;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
        look_at(broker, dispatch);
    }
    if (broker->live == 0)
        broker->hedge_us = UINT64_MAX; /* until something is dispatched */
}
