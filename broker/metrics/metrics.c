#include "metrics.h"

#include "assertion.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_AGE_US (600u * 1000000u)
#define BUSY_SHARE  0.7
#define BACKLOG_S   10.0
#define BEAT_US     1000000u
#define OTHER       "other"

const char *finish_name(enum finish how)
{
    static const char *const names[] = {"computed", "coalesced", "cached", "failed", "rejected", "cancelled"};
    return names[how];
}

uint64_t metrics_sum(const uint64_t by_status[PEN_STATUS_COUNT])
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < PEN_STATUS_COUNT; i++)
        sum += by_status[i];
    return sum;
}

struct metrics *metrics_new(uint64_t now_us)
{
    struct metrics *metrics = malloc(sizeof *metrics); /* 1 MB of rows, each cleared when it is made */
    if (!metrics)
        return NULL;
    memset(metrics, 0, offsetof(struct metrics, models));
    metrics->models[0] = (struct model_tally){.version = 0};
    metrics->series[0] = (struct series_tally){.model = NULL};
    metrics->beat_us = now_us;
    metrics->models_count = metrics->series_count = metrics->tenants_count = 1;
    strcpy(metrics->models[0].name, OTHER);
    strcpy(metrics->series[0].backend, OTHER);
    metrics->series[0].model = &metrics->models[0];
    strcpy(metrics->tenants[0].name, OTHER);
    return metrics;
}

void job_traces_fini(struct job_traces *job_traces)
{
    for (unsigned i = 0; i < METRICS_TRACES; i++)
        trace_layers_release(job_traces->rows[i].layers);
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    job_traces_fini(&metrics->recent);
    job_traces_fini(&metrics->errors);
    job_traces_fini(&metrics->slow);
    job_traces_ring_fini(&metrics->kept);
    free(metrics);
}

/* ---- traces ---- */

enum pen_status job_traces_ring_init(struct job_traces_ring *ring, uint32_t room)
{
    *ring = (struct job_traces_ring){.room = room};
    if (room == 0)
        return PEN_OK;
    ring->rows = calloc(room, sizeof ring->rows[0]);
    if (ring->rows)
        return PEN_OK;
    ring->room = 0;
    return PEN_ERR_NO_MEMORY;
}

void job_traces_ring_fini(struct job_traces_ring *ring)
{
    for (uint32_t i = 0; i < ring->room; i++)
        trace_layers_release(ring->rows[i].layers);
    free(ring->rows);
    *ring = (struct job_traces_ring){.room = 0};
}

/* Releases the row's old layers; the new ones get another user. */
static void row_write(struct job_trace *row, const struct job_trace *trace)
{
    struct trace_layers *former = row->layers;
    *row = *trace;
    trace_layers_keep(row->layers);
    trace_layers_release(former);
}

void job_traces_ring_add(struct job_traces_ring *ring, const struct job_trace *trace)
{
    PEN_ASSERT(ring->room == 0 || ring->rows, "a ring of traces that has room has rows");
    if (ring->room)
        row_write(&ring->rows[ring->count++ % ring->room], trace);
}

const struct job_trace *life_find(const struct job_trace *rows, uint32_t count, struct job_id id)
{
    const struct job_trace *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (job_id_equal(rows[i].id, id) && (!found || rows[i].ended_us >= found->ended_us))
            found = &rows[i];
    }
    return found;
}

/* ---- rows ---- */

struct model_tally *metrics_model(struct metrics *metrics, const char *name, uint64_t version)
{
    for (uint32_t i = 1; i < metrics->models_count; i++) {
        if (metrics->models[i].version == version && strcmp(metrics->models[i].name, name) == 0)
            return &metrics->models[i];
    }
    if (metrics->models_count > METRICS_MODELS_MAX || strlen(name) >= METRICS_NAME_BYTES)
        return &metrics->models[0];
    PEN_ASSERT(metrics->models_count >= 1, "the row `other` of models is there from the start");
    struct model_tally *model = &metrics->models[metrics->models_count++];
    *model = (struct model_tally){.version = version};
    strcpy(model->name, name);
    return model;
}

struct series_tally *metrics_series(struct metrics *metrics, struct model_tally *model, const char *backend,
                                    enum precision precision)
{
    char cut[sizeof metrics->series[0].backend];
    PEN_ASSERT(model >= metrics->models && model < metrics->models + metrics->models_count,
               "a series belongs to a row of models that is in use");
    snprintf(cut, sizeof cut, "%s", backend);
    if (model == &metrics->models[0])
        return &metrics->series[0];
    for (uint32_t i = 1; i < metrics->series_count; i++) {
        struct series_tally *series = &metrics->series[i];
        if (series->model == model && series->precision == precision && strcmp(series->backend, cut) == 0)
            return series;
    }
    if (metrics->series_count > METRICS_SERIES_MAX)
        return &metrics->series[0];
    struct series_tally *series = &metrics->series[metrics->series_count++];
    *series =
        (struct series_tally){.model = model, .model_row = (uint32_t)(model - metrics->models), .precision = precision};
    strcpy(series->backend, cut);
    return series;
}

struct tenant_tally *metrics_tenant(struct metrics *metrics, uint32_t number, const char *name)
{
    uint32_t row = number < METRICS_TENANTS_MAX ? number + 1 : 0;
    struct tenant_tally *tenant = &metrics->tenants[row];
    if (tenant->name[0] == '\0')
        snprintf(tenant->name, sizeof tenant->name, "%s", name);
    if (row >= metrics->tenants_count)
        metrics->tenants_count = row + 1;
    PEN_ASSERT(metrics->tenants_count <= METRICS_TENANTS_MAX + 1, "tenants beyond the cap are counted as `other`");
    return tenant;
}

/* ---- recording ---- */

/* The place of a number of jobs: powers of two, rounded up. */
static unsigned size_of(uint32_t jobs)
{
    unsigned size = 0;
    while (size + 1 < METRICS_BATCH_SIZES && (1u << size) < jobs)
        size++;
    return size;
}

void series_batch(struct series_tally *series, uint32_t jobs, enum close_reason reason)
{
    PEN_ASSERT(jobs > 0, "a batch that was sent has jobs");
    PEN_ASSERT(reason >= CLOSE_FIRST && reason <= CLOSE_LAST, "a batch that was sent closed for a reason");
    series->batches[size_of(jobs)]++;
    series->batch_jobs += jobs;
    series->closes[reason - CLOSE_FIRST]++;
}

void series_run(struct series_tally *series, uint32_t jobs, uint64_t expect_us, uint64_t us)
{
    PEN_ASSERT(jobs > 0, "a run has jobs");
    histogram_add(&series->error, expect_us > us ? expect_us - us : us - expect_us);
    series->runs[size_of(jobs)]++;
    series->run_jobs += jobs;
    series->busy_us += us;
    series->measured += jobs;
}

static void count_end(struct model_tally *model, const struct job_trace *trace)
{
    if (trace->how == FINISH_CANCELLED)
        model->cancelled++;
    else if (trace->how == FINISH_REJECTED)
        model->rejected[trace->status]++;
    else if (trace->status != PEN_OK)
        model->failed[trace->status]++;
    else if (trace->how == FINISH_CACHED)
        model->cached++;
    else if (trace->how == FINISH_COALESCED)
        model->coalesced++;
    else
        model->computed++;
}

/* A job that did not run would have cost the mean of those that ran. */
static void count_cost(struct model_tally *model, const struct job_trace *trace)
{
    uint64_t mean_us = model->share_jobs ? model->share_us / model->share_jobs : 0;
    if (trace->how == FINISH_COMPUTED && trace->status == PEN_OK) {
        model->share_us += trace->compute_us / (trace->batch ? trace->batch : 1);
        model->share_jobs++;
    } else if (trace->how == FINISH_CACHED) {
        model->saved_cached_us += mean_us;
    } else if (trace->how == FINISH_COALESCED) {
        model->saved_coalesced_us += mean_us;
    } else if ((trace->status == PEN_ERR_CANCELLED || trace->status == PEN_ERR_DEADLINE) && trace->attempts == 0) {
        model->saved_cancelled_us += mean_us;
    }
}

static void job_traces_add(struct job_traces *job_traces, const struct job_trace *trace)
{
    row_write(&job_traces->rows[job_traces->count++ % METRICS_TRACES], trace);
}

static void find_floor(struct metrics *metrics)
{
    metrics->slow_floor_us = UINT64_MAX;
    for (unsigned i = 0; i < METRICS_TRACES; i++) {
        if (metrics->slow.rows[i].total_us < metrics->slow_floor_us)
            metrics->slow_floor_us = metrics->slow.rows[i].total_us;
    }
}

/* In place of the fastest one; an empty row has 0. */
static void keep_slow(struct metrics *metrics, const struct job_trace *trace)
{
    for (unsigned i = 0; i < METRICS_TRACES; i++) {
        if (metrics->slow.rows[i].total_us == metrics->slow_floor_us) {
            row_write(&metrics->slow.rows[i], trace);
            metrics->slow.count++;
            break;
        }
    }
    find_floor(metrics);
}

void metrics_end(struct metrics *metrics, struct model_tally *model, struct series_tally *series,
                 const struct job_trace *trace, bool keep)
{
    struct job_trace kept = *trace;
    PEN_ASSERT(model >= metrics->models && model < metrics->models + metrics->models_count,
               "an ended job is counted in a row of models that is in use");
    PEN_ASSERT(!series || (series >= metrics->series && series < metrics->series + metrics->series_count),
               "an ended job is counted in a series that is in use, or in none");
    PEN_ASSERT(trace->status < PEN_STATUS_COUNT && (trace->how != FINISH_CACHED || trace->status == PEN_OK),
               "a job ends with a known status, and an answer from memory is never an error");
    kept.model_row = (uint32_t)(model - metrics->models);
    kept.series_row = series ? (uint32_t)(series - metrics->series) : 0;
    count_end(model, trace);
    count_cost(model, trace);
    if (series && (trace->how == FINISH_COMPUTED || trace->how == FINISH_COALESCED) && trace->status == PEN_OK) {
        histogram_add(&series->queue, trace->queue_us);
        histogram_add(&series->transfer, trace->transfer_us);
        if (trace->decode_us)
            histogram_add(&series->decode, trace->decode_us);
        histogram_add(&series->compute, trace->compute_us);
        histogram_add(&series->total, trace->total_us);
    }
    bool failed = trace->status != PEN_OK && trace->how != FINISH_CANCELLED;
    job_traces_add(failed ? &metrics->errors : &metrics->recent, &kept);
    if (trace->total_us > metrics->slow_floor_us)
        keep_slow(metrics, &kept);
    if (keep)
        job_traces_ring_add(&metrics->kept, &kept);
    trace_layers_release(trace->layers);
}

/* ---- timers ---- */

static void move_rates(struct metrics *metrics, double seconds)
{
    double weight = 1 - exp(-seconds / METRICS_RATE_S);
    for (uint32_t i = 0; i < metrics->series_count; i++) {
        struct series_tally *series = &metrics->series[i];
        double rate = (double)(series->busy_us - series->busy_seen_us) / 1e6 / seconds;
        series->busy_seen_us = series->busy_us;
        series->busy_rate += (rate - series->busy_rate) * weight;
    }
}

static void drop_old(struct metrics *metrics, uint64_t now_us)
{
    for (unsigned i = 0; i < METRICS_TRACES; i++) {
        if (metrics->slow.rows[i].total_us && now_us - metrics->slow.rows[i].ended_us > SLOW_AGE_US)
            row_write(&metrics->slow.rows[i], &(struct job_trace){.total_us = 0});
    }
    find_floor(metrics);
}

void metrics_beat(struct metrics *metrics, uint64_t now_us)
{
    if (now_us - metrics->beat_us < BEAT_US)
        return;
    move_rates(metrics, (double)(now_us - metrics->beat_us) / 1e6);
    drop_old(metrics, now_us);
    metrics->beat_us = now_us;
}

uint32_t demand_workers(double busy, uint64_t backlog_us, double slots)
{
    double wanted = busy / BUSY_SHARE + (double)backlog_us / 1e6 / BACKLOG_S;
    if (wanted < 0.001)
        return 0;
    return (uint32_t)ceil(wanted / (slots < 1 ? 1 : slots));
}
