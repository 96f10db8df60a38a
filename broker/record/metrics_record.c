#include "metrics_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assertion.h"
#include "explain.h"

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

static struct usage_counts *usage_row(struct broker *broker, const struct tenant_tally *tenant, struct model *model)
{
    const struct metrics *metrics = broker->metrics;
    return usage_of(broker->usage, (uint32_t)(tenant - metrics->tenants),
                    (uint32_t)(record_model(broker, model) - metrics->models));
}

void record_admitted(struct broker *broker, const struct job *job)
{
    PEN_ASSERT(job->lane && job->request, "an admitted job has a lane and its request");
    if (!job_is_part(broker, job))
        usage_row(broker, tenant_of(broker, job->session), job->lane->model)->bytes_in +=
            shared_message_bytes(job->request);
    record_model(broker, job->lane->model)->admitted++;
    tenant_of(broker, job->session)->bytes_in += shared_message_bytes(job->request);
}

void record_dispatch(struct broker *broker, struct dispatch *dispatch)
{
    struct offer *offer = dispatch->offer;
    PEN_ASSERT(offer->worker == dispatch->worker, "a dispatch goes to the worker whose offer it takes");
    PEN_ASSERT(!dispatch->series, "a dispatch is counted once");
    if (!offer->series)
        offer->series =
            metrics_series(broker->metrics, record_model(broker, offer->model), offer->meta->backend, offer->precision);
    dispatch->series = offer->series;
    series_batch(dispatch->series, dispatch->count, dispatch->reason);
}

void record_run(const struct dispatch *dispatch, struct shared_run run, uint64_t compute_us)
{
    bool own = run.rows == dispatch->rows || !dispatch->offer;
    uint64_t expect_us = own ? dispatch->expect_us : latency_expect_us(&dispatch->offer->latency, run.rows);
    if (dispatch->series)
        series_run(dispatch->series, run.jobs, expect_us, compute_us);
}

void record_saved(struct broker *broker, struct model *model, uint64_t us)
{
    record_model(broker, model)->saved_cancelled_us += us;
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

void record_clock(struct broker *broker)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    broker->metrics->unix_offset_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)broker->clock();
}

void record_heartbeat(const struct broker *broker, struct worker *worker, const Penstock__Heartbeat *beat)
{
    uint64_t past_us = broker->now_us - worker->busy_at_us;
    PEN_ASSERT(broker->now_us >= worker->busy_at_us, "the time of the last heartbeat is not in the future");
    worker->beat = (struct worker_beat){.rss_bytes = beat->rss_bytes,
                                        .oldest_running_us = beat->oldest_running_us,
                                        .cpu_us = beat->cpu_us,
                                        .compute_us = beat->compute_us,
                                        .memory_bytes = beat->device_memory_bytes,
                                        .memory_used_bytes = beat->device_memory_used_bytes,
                                        .slots_busy = beat->slots_busy,
                                        .queued = beat->queued,
                                        .models_warm = beat->models_warm,
                                        .models_cold = beat->models_cold,
                                        .models_loaded = beat->models_loaded,
                                        .models_evicted = beat->models_evicted};
    if (worker->busy_at_us && past_us > 0 && beat->compute_us >= worker->busy_seen_us) {
        double slots = worker->slots ? worker->slots : 1;
        double share = (double)(beat->compute_us - worker->busy_seen_us) / (double)past_us / slots;
        double weight = 1 - exp(-(double)past_us / 1e6 / METRICS_RATE_S);
        worker->busy_share += (fmin(share, 1) - worker->busy_share) * weight;
    }
    PEN_ASSERT(worker->busy_share >= 0 && worker->busy_share <= 1, "a worker is busy for a part of its time");
    worker->busy_seen_us = beat->compute_us;
    worker->busy_at_us = broker->now_us;
}

void record_origin(struct broker *broker, struct job *job, const Penstock__JobMeta *meta)
{
    int64_t now_unix_us = (int64_t)broker->now_us + broker->metrics->unix_offset_us;
    uint64_t age_us = (uint64_t)now_unix_us - meta->submit_unix_us; /* a clock ahead of ours wraps to a huge age */
    struct trace_context context;
    if (meta->submit_unix_us && age_us < TRACE_CLIENT_US_MAX)
        job->client_us = (uint32_t)age_us;
    bool traced = *meta->traceparent && trace_context_parse(meta->traceparent, &context);
    struct trace_note *note = traced || meta->trace ? jobs_note(&broker->jobs, job) : NULL;
    if (!note)
        return;
    note->wish = meta->trace > 1 ? 2 : (uint8_t)meta->trace;
    if (traced)
        note->context = context;
}

void record_lookup(struct broker *broker, struct job *job)
{
    struct trace_note *note = jobs_note(&broker->jobs, job);
    PEN_ASSERT(broker->now_us >= job->admitted_us, "a job is looked up after it was admitted");
    if (note)
        note->lookup_us = broker->now_us - job->admitted_us;
}

void record_attempt_lost(struct broker *broker, struct job *job, const struct dispatch *dispatch)
{
    struct trace_note *note = jobs_note(&broker->jobs, job);
    if (note)
        trace_note_attempt(note, dispatch->worker->hello->name,
                           dispatch->sent_us > job->admitted_us ? dispatch->sent_us - job->admitted_us : 0,
                           broker->now_us - job->admitted_us);
}

static void copy_bytes(char *to, size_t room, const uint8_t *from, size_t bytes)
{
    size_t count = bytes < room - 1 ? bytes : room - 1;
    if (count)
        memcpy(to, from, count);
    to[count] = '\0';
}

/* Writes the worker's part of the trace. */
static void tell_run(const struct broker *broker, const struct job *job, const struct ending *ending,
                     struct job_trace *trace)
{
    const struct dispatch *dispatch = ending->dispatch;
    const struct trace_note *note = jobs_noted(&broker->jobs, job);
    uint64_t sent_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us : job->admitted_us;
    trace->queue_us = sent_us - job->admitted_us;
    trace->batch = dispatch->count;
    trace->reason = dispatch->reason;
    explain_text(trace->worker, sizeof trace->worker, dispatch->worker->hello->name);
    if (!ending->group)
        return;
    const struct result_facts *facts = &ending->group->facts;
    trace->batch = dispatch_run(dispatch, facts).jobs;
    uint64_t there_us = broker->now_us - dispatch->sent_us;
    trace->compute_us = facts->compute_us;
    trace->worker_us = facts->worker_us;
    trace->wait_us = facts->wait_us;
    trace->decode_us = facts->decode_us;
    trace->gather_us = facts->gather_us;
    trace->split_us = facts->split_us;
    if (facts->layers && note && note->wish > 1)
        trace->layers = trace_layers_read(ending->group->meta, ending->group->env.meta_bytes);
    trace->transfer_us = there_us > facts->worker_us ? there_us - facts->worker_us : 0;
    copy_bytes(trace->error, sizeof trace->error, facts->error, facts->error_bytes);
}

static void tell_origin(const struct broker *broker, const struct job *job, struct job_trace *trace)
{
    const struct trace_note *note = jobs_noted(&broker->jobs, job);
    trace->client_us = job->client_us;
    if (job->state == JOB_LOOKUP)
        trace->lookup_us = trace->total_us;
    else if (note)
        trace->lookup_us = note->lookup_us;
    if (note)
        trace->note = *note;
}

/* Sampled, asked for by the client, or slower than --trace-slow: kept in the ring, and given to the exporter. */
static bool wanted(struct broker *broker, const struct job_trace *trace)
{
    const struct options *options = broker->options;
    const struct trace_note *note = &trace->note;
    if (note->wish || (note->context.valid && (note->context.flags & TRACE_CONTEXT_SAMPLED)))
        return true;
    if (options->trace_slow_us && trace->total_us >= (uint64_t)options->trace_slow_us)
        return true;
    return options->trace_sample && ++broker->trace_turn % (uint64_t)options->trace_sample == 0;
}

static void finish_life(struct broker *broker, struct model_tally *model, struct series_tally *series,
                        struct job_trace *trace)
{
    bool keep = wanted(broker, trace);
    if (keep && broker->otlp)
        broker->trace_push(broker->otlp, trace, model, series, broker->metrics->unix_offset_us);
    metrics_end(broker->metrics, model, series, trace, keep);
}

/* The job's share of the time of its run. */
static uint64_t own_compute_us(const struct job *job, const struct ending *ending, uint64_t compute_us)
{
    if (!ending->dispatch)
        return compute_us;
    uint32_t rows = ending->group ? dispatch_run(ending->dispatch, &ending->group->facts).rows : ending->dispatch->rows;
    return rows > job->rows ? compute_us * job->rows / rows : compute_us;
}

/* What a tenant is billed for: whole jobs by how they ended, and the time of devices for parts, too. */
static void count_usage(struct usage_counts *usage, const struct job_trace *trace, bool part, size_t reply_bytes,
                        uint64_t device_us)
{
    usage->device_us += device_us;
    if (part)
        return;
    bool ok = trace->status == PEN_OK;
    usage->jobs++;
    usage->ok += ok;
    usage->cancelled += trace->status == PEN_ERR_CANCELLED;
    usage->failed += !ok && trace->status != PEN_ERR_CANCELLED;
    usage->computed += ok && trace->how == FINISH_COMPUTED;
    usage->cached += ok && trace->how == FINISH_CACHED;
    usage->coalesced += ok && trace->how == FINISH_COALESCED;
    usage->bytes_out += reply_bytes;
}

void record_end(struct broker *broker, const struct job *job, enum pen_status status, size_t reply_bytes,
                const struct ending *ending)
{
    struct tenant_tally *tenant = tenant_of(broker, job->session);
    struct model *model = job->lane->model;
    PEN_ASSERT(broker->now_us >= job->admitted_us, "a job ends after it was admitted");
    struct job_trace trace = {.id = job->id,
                              .how = status == PEN_ERR_CANCELLED ? FINISH_CANCELLED : ending->how,
                              .status = status < PEN_STATUS_COUNT ? status : PEN_ERR_INTERNAL,
                              .attempts = job->attempts,
                              .ended_us = broker->now_us,
                              .total_us = broker->now_us - job->admitted_us};
    if (ending->dispatch)
        tell_run(broker, job, ending, &trace);
    else if (status != PEN_OK && job->attempts == 0)
        trace.queue_us = trace.total_us;
    if (ending->text)
        explain_text(trace.error, sizeof trace.error, ending->text);
    tell_origin(broker, job, &trace);
    bool part = job_is_part(broker, job);
    uint64_t device_us = ending->how == FINISH_COMPUTED ? own_compute_us(job, ending, trace.compute_us) : 0;
    tenant->jobs += !part; /* only the whole job is counted */
    tenant->bytes_out += part ? 0 : reply_bytes;
    tenant->compute_us += device_us;
    count_usage(usage_row(broker, tenant, model), &trace, part, reply_bytes, device_us);
    if (ending->how == FINISH_CACHED)
        record_model(broker, model)->cache_hits++;
    finish_life(broker, record_model(broker, model), ending->dispatch ? ending->dispatch->series : NULL, &trace);
}

void record_hit(struct broker *broker, const struct session *session, struct job_id id, struct model *model,
                uint64_t total_us, size_t reply_bytes)
{
    struct tenant_tally *tenant = tenant_of(broker, session);
    struct job_trace trace = {.id = id, .how = FINISH_CACHED, .ended_us = broker->now_us, .total_us = total_us};
    tenant->jobs++;
    tenant->bytes_out += reply_bytes;
    count_usage(usage_row(broker, tenant, model), &trace, false, reply_bytes, 0);
    record_model(broker, model)->cache_hits++;
    finish_life(broker, record_model(broker, model), NULL, &trace);
}

/* A model name that no worker offers is counted as "other": names that clients invent must not become labels. */
void record_refusal(struct broker *broker, struct job_id id, const char *model, const struct pen_error *error)
{
    struct model *known = *model ? model_find(&broker->models, model, 0) : NULL;
    struct job_trace trace = {.id = id,
                              .how = error->status == PEN_ERR_CANCELLED ? FINISH_CANCELLED : FINISH_REJECTED,
                              .status = error->status < PEN_STATUS_COUNT ? error->status : PEN_ERR_INTERNAL,
                              .ended_us = broker->now_us};
    explain_text(trace.error, sizeof trace.error, error->text);
    finish_life(broker, known ? record_model(broker, known) : &broker->metrics->models[0], NULL, &trace);
}
