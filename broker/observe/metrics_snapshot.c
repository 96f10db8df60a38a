#include "metrics_snapshot.h"

#include "cluster.h"

#include "ensemble_run.h"
#include "usage_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "broker_state.h"

/* ---- rows of what is there now ---- */

static bool worker_usable(const struct broker *broker, const struct worker *worker)
{
    return worker->state == WORKER_READY &&
           broker->now_us - worker->link.heard_us < (uint64_t)broker->options->heartbeat_us * 3 / 2;
}

static const char *state_of(const struct broker *broker, const struct worker *worker)
{
    if (worker->state == WORKER_DRAINING)
        return "draining";
    return worker_usable(broker, worker) && !link_probing(&worker->link) ? "ready" : "suspect";
}

static void fill_model(const struct broker *broker, struct model *model, uint32_t row, struct model_row *to)
{
    const struct offer *offer;
    snprintf(to->name, sizeof to->name, "%s", model->name);
    to->version = model->version;
    to->queued = model->queue.waiting;
    to->queued_bytes = model->queue.bytes;
    to->running = model->running;
    to->offers = model->offers_count;
    to->rows_max = model_rows_max(model);
    to->forms = forms_offered(&model->forms);
    to->tally = model->tally ? (uint32_t)(model->tally - broker->metrics->models) : SNAPSHOT_NONE;
    model->row = row;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    to->ready += worker_usable(broker, offer->worker);
    to->ready += to->ready == 0 && ensemble_served(&broker->models, &broker->labels, model, NULL);
}

static void fill_worker(const struct broker *broker, const struct worker *worker, struct worker_row *to)
{
    const Penstock__WorkerHello *hello = worker->hello;
    snprintf(to->name, sizeof to->name, "%s", hello->name);
    snprintf(to->host, sizeof to->host, "%s", hello->host);
    snprintf(to->backend, sizeof to->backend, "%s", hello->backend);
    snprintf(to->device, sizeof to->device, "%s", hello->device);
    snprintf(to->software, sizeof to->software, "%s", hello->software);
    to->state = state_of(broker, worker);
    to->uuid = worker->uuid;
    to->slots = worker->slots;
    to->threads = hello->threads;
    to->jobs_running = worker->jobs;
    to->offers = (uint32_t)worker->offers_count;
    to->jobs_done = worker->jobs_done;
    to->jobs_failed = worker->jobs_failed;
    to->jobs_cancelled = worker->jobs_cancelled;
    to->results_bad = worker->results_bad;
    to->beat = worker->beat;
    to->busy_share = worker->busy_share;
    to->backlog_us = worker_backlog_us(worker, broker->now_us);
    to->failures_count = worker->failures_count;
    to->age_us = broker->now_us - worker->since_us;
    to->last_seen_us = broker->now_us - worker->link.heard_us;
}

static void fill_error(const Penstock__ModelOffer *offer, struct offer_row *to)
{
    const Penstock__MeasuredError *measured = offer->measured;
    to->measured = measured != NULL;
    to->measures = offer->measures;
    to->error_source[0] = '\0';
    if (!measured)
        return;
    to->error = measured->largest;
    to->error_mean = measured->mean;
    to->error_inputs = measured->inputs;
    snprintf(to->error_source, sizeof to->error_source, "%s", measured->source);
}

static void fill_offers(const struct broker *broker, const struct worker *worker, uint32_t row, struct offer_row *to)
{
    for (size_t i = 0; i < worker->offers_count; i++) {
        const struct offer *offer = worker->offers[i];
        PEN_ASSERT(offer->worker == worker, "an offer in a worker's list is that worker's");
        uint64_t expect_us = latency_expect_us(&offer->latency, 1), when_us;
        to[i] = (struct offer_row){
            .worker = row,
            .model = offer->model->row,
            .expect_us = expect_us > UINT32_MAX ? UINT32_MAX : (uint32_t)expect_us,
            .precision = offer->precision,
            .busy = !worker_credit(worker, broker->now_us, expect_us, offer->prepare_us, 0, false, &when_us)};
        fill_error(offer->meta, &to[i]);
    }
}

static void fill_failures(const struct worker *worker, uint32_t row, struct snapshot *to)
{
    for (uint32_t i = 0; i < worker->failures_listed && to->failures_count < FAILURES_LISTED; i++) {
        const Penstock__ModelFailure *from = worker->failures[i];
        struct failure_row *failure = &to->failures[to->failures_count++];
        *failure = (struct failure_row){.worker = row,
                                        .status = (enum pen_status)from->status,
                                        .serving = from->serving,
                                        .version = from->version,
                                        .since_unix_us = from->since_unix_us};
        snprintf(failure->name, sizeof failure->name, "%s", from->name);
        snprintf(failure->text, sizeof failure->text, "%s", from->error);
    }
}

static void fill_now(const struct broker *broker, struct snapshot *to)
{
    struct model *model;
    const struct worker *worker;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        uint32_t row = to->models_count++;
        PEN_ASSERT(row < broker->models.count, "a snapshot has room for each model");
        fill_model(broker, model, row, &to->models[row]);
        to->queued += to->models[row].queued;
        to->running += to->models[row].running;
        to->ready |= to->models[row].ready > 0;
    }
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        uint32_t row = to->workers_count++;
        fill_worker(broker, worker, &to->workers[row]);
        PEN_ASSERT(row < broker->fleet.count, "a snapshot has room for each worker");
        fill_offers(broker, worker, row, &to->offers[to->offers_count]);
        fill_failures(worker, row, to);
        to->offers_count += (uint32_t)worker->offers_count;
    }
    to->ready &= !broker->draining;
    to->labels_mismatched = cluster_mismatched(broker->cluster);
    to->usage_failures = usage_file_failures(broker->usage_file);
}

/* ---- the rest ---- */

static void fill_totals(const struct broker *broker, struct snapshot *to)
{
    const struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    to->clients += session->connected;
    to->stats = broker->stats;
    to->live = broker->live;
    to->queued_bytes = broker->queued_bytes;
    to->kept_count = broker->sessions.kept_count;
    to->kept_bytes = broker->sessions.kept_bytes;
    to->dropped_unsent = broker->sessions.dropped_unsent;
    to->clients_in = broker->clients->bytes_in;
    to->clients_out = broker->clients->bytes_out;
    to->workers_in = broker->workers->bytes_in;
    to->workers_out = broker->workers->bytes_out;
    to->rss_bytes = stats_rss_bytes();
    to->taken_us = broker->now_us;
    to->started_us = broker->started_us;
    to->uuid = broker->uuid;
    to->draining = broker->draining;
    to->previews = broker->previews != NULL;
    to->keys_bad = broker->keys_bad;
    cache_report(broker->cache, &to->cache);
    if (broker->otlp)
        otlp_report(broker->otlp, &to->otlp);
}

static void copy_traces(const struct job_traces *from, struct job_traces *to)
{
    *to = *from;
    for (unsigned i = 0; i < METRICS_TRACES; i++)
        trace_layers_keep(to->rows[i].layers);
}

static void copy_metrics(const struct metrics *from, struct snapshot *to)
{
    to->tallies_count = from->models_count;
    to->series_count = from->series_count;
    to->tenants_count = from->tenants_count;
    memcpy(to->tallies, from->models, from->models_count * sizeof to->tallies[0]);
    memcpy(to->series, from->series, from->series_count * sizeof to->series[0]);
    memcpy(to->tenants, from->tenants, from->tenants_count * sizeof to->tenants[0]);
    for (uint32_t i = 0; i < to->series_count; i++)
        PEN_ASSERT(to->series[i].model_row < to->tallies_count, "a series' model is in the same snapshot");
    for (uint32_t i = 0; i < to->series_count; i++)
        to->series[i].model = &to->tallies[to->series[i].model_row];
    to->unix_offset_us = from->unix_offset_us;
    copy_traces(&from->recent, &to->recent);
    copy_traces(&from->errors, &to->errors);
    copy_traces(&from->slow, &to->slow);
    to->kept.count = from->kept.count;
    memcpy(to->kept.rows, from->kept.rows, from->kept.room * sizeof to->kept.rows[0]);
    for (uint32_t i = 0; i < to->kept.room; i++)
        trace_layers_keep(to->kept.rows[i].layers);
}

static bool make_room(const struct broker *broker, struct snapshot *to)
{
    const struct worker *worker;
    size_t offers = 0, failures = 0;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        offers += worker->offers_count;
        failures += worker->failures_listed;
    }
    to->models = calloc(broker->models.count + 1u, sizeof to->models[0]);
    to->workers = calloc(broker->fleet.count + 1u, sizeof to->workers[0]);
    to->offers = malloc((offers + 1) * sizeof to->offers[0]);
    to->failures = malloc(((failures < FAILURES_LISTED ? failures : FAILURES_LISTED) + 1) * sizeof to->failures[0]);
    to->tallies = malloc(broker->metrics->models_count * sizeof to->tallies[0]);
    to->series = malloc(broker->metrics->series_count * sizeof to->series[0]);
    to->tenants = malloc(broker->metrics->tenants_count * sizeof to->tenants[0]);
    to->kept.room = broker->metrics->kept.room;
    to->kept.rows = calloc(to->kept.room + 1u, sizeof to->kept.rows[0]);
    return to->models && to->workers && to->offers && to->failures && to->tallies && to->series && to->tenants &&
           to->kept.rows;
}

struct snapshot *snapshot_take(const struct broker *broker)
{
    struct snapshot *to = calloc(1, sizeof *to);
    if (!to || !make_room(broker, to)) {
        snapshot_free(to);
        return NULL;
    }
    fill_totals(broker, to);
    fill_now(broker, to);
    copy_metrics(broker->metrics, to);
    return to;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    job_traces_fini(&snapshot->recent);
    job_traces_fini(&snapshot->errors);
    job_traces_fini(&snapshot->slow);
    if (snapshot->kept.rows)
        job_traces_ring_fini(&snapshot->kept);
    free(snapshot->models);
    free(snapshot->workers);
    free(snapshot->offers);
    free(snapshot->failures);
    free(snapshot->tallies);
    free(snapshot->series);
    free(snapshot->tenants);
    free(snapshot);
}

/* ---- questions to it ---- */

const struct model_row *snapshot_model(const struct snapshot *snapshot, const char *name, uint64_t version)
{
    const struct model_row *best = NULL;
    for (uint32_t i = 0; i < snapshot->models_count; i++) {
        const struct model_row *row = &snapshot->models[i];
        if (strcmp(row->name, name) != 0 || (version && row->version != version))
            continue;
        if (!best || (row->ready > 0) > (best->ready > 0) ||
            ((row->ready > 0) == (best->ready > 0) && row->version > best->version))
            best = row;
    }
    return best;
}

const struct failure_row *snapshot_failure(const struct snapshot *snapshot, const char *name, uint64_t version)
{
    const struct failure_row *best = NULL;
    for (uint32_t i = 0; i < snapshot->failures_count; i++) {
        const struct failure_row *row = &snapshot->failures[i];
        bool meant = strcmp(row->name, name) == 0 && (version == 0 || row->version == 0 || row->version == version);
        if (meant && (!best || (best->serving && !row->serving)))
            best = row;
    }
    return best;
}

const struct job_trace *snapshot_life(const struct snapshot *snapshot, struct job_id id)
{
    const struct job_traces *all[] = {&snapshot->slow, &snapshot->errors, &snapshot->recent};
    const struct job_trace *found = life_find(snapshot->kept.rows, snapshot->kept.room, id);
    for (size_t i = 0; !found && i < sizeof all / sizeof all[0]; i++)
        found = life_find(all[i]->rows, METRICS_TRACES, id);
    return found;
}

static uint64_t queued_for(const struct snapshot *snapshot, uint32_t tally)
{
    for (uint32_t i = 0; i < snapshot->models_count; i++) {
        if (snapshot->models[i].tally == tally)
            return snapshot->models[i].queued;
    }
    return 0;
}

static double slots_per_worker(const struct snapshot *snapshot, const char *backend)
{
    double slots = 0, workers = 0;
    for (uint32_t i = 0; i < snapshot->workers_count; i++) {
        if (strcmp(snapshot->workers[i].backend, backend) == 0) {
            slots += snapshot->workers[i].slots;
            workers++;
        }
    }
    return workers > 0 ? slots / workers : 1;
}

/* The series' part of all busy slots of its model; when the model was idle, its series share the queue evenly. */
static double share_of(const struct snapshot *snapshot, const struct series_tally *series)
{
    double all = 0, count = 0;
    for (uint32_t i = 1; i < snapshot->series_count; i++) {
        if (snapshot->series[i].model_row != series->model_row)
            continue;
        all += snapshot->series[i].busy_rate;
        count++;
    }
    return all > 0 ? series->busy_rate / all : 1 / count;
}

uint32_t snapshot_desired(const struct snapshot *snapshot, uint32_t index)
{
    const struct series_tally *series = &snapshot->series[index];
    if (index == 0 || series->measured == 0)
        return 0;
    double job_us = (double)series->busy_us / (double)series->measured;
    double backlog_us = (double)queued_for(snapshot, series->model_row) * job_us * share_of(snapshot, series);
    return demand_workers(series->busy_rate, (uint64_t)backlog_us, slots_per_worker(snapshot, series->backend));
}
