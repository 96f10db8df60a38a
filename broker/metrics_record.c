#include "metrics_record.h"

#include <string.h>

struct model_tally *record_model(struct broker *broker, struct model *model)
{
    if (!model->tally)
        model->tally = metrics_model(broker->metrics, model->name, model->version);
    return model->tally;
}

static struct tenant_tally *tenant_of(struct broker *broker, const struct session *session)
{
    return metrics_tenant(broker->metrics, session->tenant->number, session->tenant->name);
}

void record_admitted(struct broker *broker, const struct job *job)
{
    record_model(broker, job->lane->model)->admitted++;
    tenant_of(broker, job->session)->bytes_in += parcel_bytes(job->request);
}

void record_dispatch(struct broker *broker, struct dispatch *dispatch)
{
    struct offer *offer = dispatch->offer;
    if (!offer->series)
        offer->series =
            metrics_series(broker->metrics, record_model(broker, offer->model), offer->meta->backend, offer->precision);
    dispatch->series = offer->series;
    series_batch(dispatch->series, dispatch->count, dispatch->reason);
}

void record_measured(const struct dispatch *dispatch, uint64_t compute_us)
{
    if (dispatch->series)
        series_measured(dispatch->series, dispatch->count, dispatch->expect_us, compute_us);
}

void record_requeue(struct broker *broker, struct job *job)
{
    broker->stats.jobs_requeued++;
    record_model(broker, job->lane->model)->requeued++;
}

void record_miss(struct broker *broker, struct model *model)
{
    broker->stats.cache_misses++;
    record_model(broker, model)->cache_misses++;
}

static void copy_bytes(char *to, size_t room, const uint8_t *from, size_t bytes)
{
    size_t count = bytes < room - 1 ? bytes : room - 1;
    if (count)
        memcpy(to, from, count);
    to[count] = '\0';
}

static void copy_text(char *to, size_t room, const char *from)
{
    copy_bytes(to, room, (const uint8_t *)from, strlen(from));
}

/* What a worker had to do with it. */
static void tell_run(const struct broker *broker, const struct job *job, const struct ending *ending,
                     struct job_life *life)
{
    const struct dispatch *dispatch = ending->dispatch;
    uint64_t sent_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us : job->admitted_us;
    life->queue_us = sent_us - job->admitted_us;
    life->batch = dispatch->count;
    life->reason = dispatch->reason;
    copy_text(life->worker, sizeof life->worker, dispatch->worker->hello->name);
    if (!ending->group)
        return;
    const struct result_facts *facts = &ending->group->facts;
    uint64_t there_us = broker->now_us - dispatch->sent_us;
    life->compute_us = facts->compute_us;
    life->worker_us = facts->worker_us;
    life->transfer_us = there_us > facts->worker_us ? there_us - facts->worker_us : 0;
    copy_bytes(life->error, sizeof life->error, facts->error, facts->error_bytes);
}

void record_end(struct broker *broker, const struct job *job, enum pen_status status, size_t reply_bytes,
                const struct ending *ending)
{
    struct tenant_tally *tenant = tenant_of(broker, job->session);
    struct model *model = job->lane->model;
    struct job_life life = {.id = job->id,
                            .how = ending->how,
                            .status = status < PEN_STATUS_COUNT ? status : PEN_ERR_INTERNAL,
                            .attempts = job->attempts,
                            .reason = "",
                            .ended_us = broker->now_us,
                            .total_us = broker->now_us - job->admitted_us};
    if (ending->dispatch)
        tell_run(broker, job, ending, &life);
    else if (status != PEN_OK && job->attempts == 0)
        life.queue_us = life.total_us;
    if (ending->text)
        copy_text(life.error, sizeof life.error, ending->text);
    tenant->jobs++;
    tenant->bytes_out += reply_bytes;
    if (ending->how == FINISH_COMPUTED)
        tenant->compute_us += life.compute_us;
    if (ending->how == FINISH_CACHED)
        record_model(broker, model)->cache_hits++;
    metrics_end(broker->metrics, record_model(broker, model), ending->dispatch ? ending->dispatch->series : NULL,
                &life);
}

void record_hit(struct broker *broker, const struct session *session, struct job_id id, struct model *model,
                uint64_t total_us, size_t reply_bytes)
{
    struct tenant_tally *tenant = tenant_of(broker, session);
    struct job_life life = {
        .id = id, .how = FINISH_CACHED, .reason = "", .ended_us = broker->now_us, .total_us = total_us};
    tenant->jobs++;
    tenant->bytes_out += reply_bytes;
    record_model(broker, model)->cache_hits++;
    metrics_end(broker->metrics, record_model(broker, model), NULL, &life);
}

/* A name that no worker offers counts as "other": names that clients make up are no labels. */
void record_refusal(struct broker *broker, struct job_id id, const char *model, const struct pen_error *error)
{
    struct model *known = *model ? model_find(&broker->models, model, 0) : NULL;
    struct job_life life = {.id = id,
                            .how = FINISH_REJECTED,
                            .status = error->status < PEN_STATUS_COUNT ? error->status : PEN_ERR_INTERNAL,
                            .reason = "",
                            .ended_us = broker->now_us};
    copy_text(life.error, sizeof life.error, error->text);
    metrics_end(broker->metrics, known ? record_model(broker, known) : &broker->metrics->models[0], NULL, &life);
}
