#include "metrics_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "version.h"

/* ---- lines ---- */

static void family(struct writer *w, const char *name, const char *type, const char *help)
{
    writer_format(w, "# HELP penstock_%s %s\n# TYPE penstock_%s %s\n", name, help, name, type);
}

static void open_labels(struct writer *w, const char *name, const char *suffix)
{
    writer_text(w, "penstock_");
    writer_text(w, name);
    writer_text(w, suffix);
    writer_text(w, "{");
}

static void close_labels(struct writer *w)
{
    writer_trim(w, ',');
    writer_text(w, "} ");
}

static void put_value(struct writer *w, uint64_t value)
{
    writer_number(w, value);
    writer_text(w, "\n");
}

static void label_number(struct writer *w, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    writer_label(w, name, text);
}

static void simple(struct writer *w, const char *name, const char *type, const char *help, uint64_t value)
{
    family(w, name, type, help);
    writer_format(w, "penstock_%s ", name);
    put_value(w, value);
}

static void model_labels(struct writer *w, const char *name, uint64_t version)
{
    writer_label(w, "model", name);
    label_number(w, "version", version);
}

static void series_labels(struct writer *w, const struct series_tally *series)
{
    model_labels(w, series->model->name, series->model->version);
    writer_label(w, "backend", series->backend);
    writer_label(w, "precision", precision_name(series->precision));
}

/* "NOT_FOUND" -> "not_found". */
static void status_label(struct writer *w, const char *label, enum pen_status status)
{
    char text[32];
    const char *name = pen_status_name(status);
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof text; i++)
        text[i] = (char)tolower((unsigned char)name[i]);
    text[i] = '\0';
    writer_label(w, label, text);
}

/* ---- of the whole broker ---- */

static void put_build(struct writer *w)
{
    family(w, "build_info", "gauge", "1, with the version of the broker.");
    open_labels(w, "build_info", "");
    writer_label(w, "version", PENSTOCK_VERSION);
    writer_label(w, "build", version_build());
    close_labels(w);
    put_value(w, 1);
}

static void put_cache(const struct snapshot *s, struct writer *w)
{
    const struct cache_report *cache = &s->cache;
    simple(w, "cache_hits_total", "counter", "Jobs answered from the result cache.", s->stats.cache_hits);
    simple(w, "cache_misses_total", "counter", "Lookups in the result cache that found nothing.",
           s->stats.cache_misses);
    simple(w, "cache_bytes", "gauge", "Bytes of cached results; 0 when they are in Redis.", cache->bytes);
    simple(w, "cache_entries", "gauge", "Cached results; 0 when they are in Redis.", cache->entries);
    simple(w, "cache_evicted_total", "counter", "Results that had to leave the cache for others.", cache->evicted);
    simple(w, "cache_breaker_open", "gauge", "1 while Redis is left alone because it failed.",
           strncmp(cache->state, "open", 4) == 0);
    family(w, "cache_info", "gauge", "1, with the kind of the cache: memory, redis, none.");
    open_labels(w, "cache_info", "");
    writer_label(w, "kind", cache->kind);
    close_labels(w);
    put_value(w, 1);
}

static void put_bytes(const struct snapshot *s, struct writer *w)
{
    const struct {
        const char *peer, *direction;
        uint64_t bytes;
    } rows[] = {{"clients", "in", s->clients_in},
                {"clients", "out", s->clients_out},
                {"workers", "in", s->workers_in},
                {"workers", "out", s->workers_out}};
    family(w, "bytes_total", "counter", "Bytes moved, by side and direction as the broker sees it.");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_labels(w, "bytes_total", "");
        writer_label(w, "peer", rows[i].peer);
        writer_label(w, "direction", rows[i].direction);
        close_labels(w);
        put_value(w, rows[i].bytes);
    }
}

static void put_process(const struct snapshot *s, struct writer *w)
{
    struct timespec cpu = {.tv_sec = 0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    writer_text(w, "# HELP process_resident_memory_bytes Resident memory of the broker.\n"
                   "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes ");
    put_value(w, s->rss_bytes);
    writer_format(w,
                  "# HELP process_cpu_seconds_total CPU time of the broker, all threads.\n"
                  "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %lld.%06ld\n",
                  (long long)cpu.tv_sec, cpu.tv_nsec / 1000);
    family(w, "uptime_seconds", "gauge", "Since the broker started.");
    writer_text(w, "penstock_uptime_seconds ");
    writer_seconds(w, s->taken_us - s->started_us);
    writer_text(w, "\n");
}

static void put_broker(const struct snapshot *s, struct writer *w)
{
    const struct stats *stats = &s->stats;
    put_build(w);
    put_process(s, w);
    simple(w, "ready", "gauge", "1 when some worker may be given work and the broker takes it.", s->ready);
    simple(w, "draining", "gauge", "1 when the broker is about to end.", s->draining);
    simple(w, "clients", "gauge", "Connected clients.", s->clients);
    simple(w, "queue_bytes", "gauge", "Bytes of the jobs that wait.", s->queued_bytes);
    simple(w, "replies_kept", "gauge", "Replies kept until they are acknowledged.", s->kept_count);
    simple(w, "replies_kept_bytes", "gauge", "Bytes of these replies.", s->kept_bytes);
    simple(w, "replies_dropped_total", "counter", "Replies forgotten before their client could read them.",
           s->dropped_unsent);
    simple(w, "jobs_coalesced_total", "counter", "Jobs that waited for an identical one instead of running.",
           stats->jobs_coalesced);
    simple(w, "results_duplicate_total", "counter", "Late or repeated results of workers.", stats->results_duplicate);
    simple(w, "digests_wrong_total", "counter", "Results whose digest was not the client's: nothing was shared.",
           stats->digests_wrong);
    simple(w, "workers_lost_total", "counter", "Workers that vanished or fell silent.", stats->workers_lost);
    simple(w, "clients_lost_total", "counter", "Clients that vanished or fell silent.", stats->clients_lost);
    simple(w, "messages_bad_total", "counter", "Messages that were not ours, broken or out of place.",
           stats->messages_bad);
    put_cache(s, w);
    put_bytes(s, w);
}

/* ---- per model ---- */

static void put_tally(const struct snapshot *s, struct writer *w, const char *name, const char *help, size_t offset)
{
    family(w, name, "counter", help);
    for (uint32_t i = 0; i < s->tallies_count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&s->tallies[i] + offset, sizeof value);
        if (i == 0 && value == 0)
            continue;
        open_labels(w, name, "");
        model_labels(w, s->tallies[i].name, s->tallies[i].version);
        close_labels(w);
        put_value(w, value);
    }
}

static void put_outcome(struct writer *w, const struct model_tally *tally, const char *outcome, const char *reason,
                        enum pen_status status, uint64_t value)
{
    open_labels(w, "jobs_total", "");
    model_labels(w, tally->name, tally->version);
    writer_label(w, "outcome", outcome);
    if (reason)
        writer_label(w, "reason", reason);
    else
        status_label(w, "reason", status);
    close_labels(w);
    put_value(w, value);
}

static void put_outcomes(const struct snapshot *s, struct writer *w)
{
    family(w, "jobs_total", "counter",
           "Jobs that ended. done: computed, coalesced or cached; failed and rejected: by the status they were told.");
    for (uint32_t i = 0; i < s->tallies_count; i++) {
        const struct model_tally *tally = &s->tallies[i];
        put_outcome(w, tally, "done", "computed", PEN_OK, tally->computed);
        put_outcome(w, tally, "done", "coalesced", PEN_OK, tally->coalesced);
        put_outcome(w, tally, "done", "cached", PEN_OK, tally->cached);
        for (unsigned status = 1; status < PEN_STATUS_COUNT; status++) {
            if (tally->failed[status])
                put_outcome(w, tally, "failed", NULL, (enum pen_status)status, tally->failed[status]);
            if (tally->rejected[status])
                put_outcome(w, tally, "rejected", NULL, (enum pen_status)status, tally->rejected[status]);
        }
    }
}

static void put_model_gauge(const struct snapshot *s, struct writer *w, const char *name, const char *help,
                            uint64_t (*value)(const struct model_row *row))
{
    uint64_t rest = 0;
    family(w, name, "gauge", help);
    for (uint32_t i = 0; i < s->models_count; i++) {
        if (i >= METRICS_MODELS_MAX) {
            rest += value(&s->models[i]);
            continue;
        }
        open_labels(w, name, "");
        model_labels(w, s->models[i].name, s->models[i].version);
        close_labels(w);
        put_value(w, value(&s->models[i]));
    }
    if (s->models_count > METRICS_MODELS_MAX) {
        open_labels(w, name, "");
        model_labels(w, s->tallies[0].name, 0);
        close_labels(w);
        put_value(w, rest);
    }
}

static uint64_t queued_of(const struct model_row *row)
{
    return row->queued;
}

static uint64_t running_of(const struct model_row *row)
{
    return row->running;
}

static uint64_t ready_of(const struct model_row *row)
{
    return row->ready;
}

static void put_models(const struct snapshot *s, struct writer *w)
{
    put_model_gauge(s, w, "queue_jobs", "Jobs that wait for a worker.", queued_of);
    put_model_gauge(s, w, "running_jobs", "Jobs that a worker has.", running_of);
    put_model_gauge(s, w, "model_workers", "Workers that are ready for the model.", ready_of);
    put_tally(s, w, "jobs_admitted_total", "Jobs that were taken (hits in memory are none).",
              offsetof(struct model_tally, admitted));
    put_tally(s, w, "jobs_requeued_total", "Jobs sent again: their worker was lost or gave them back.",
              offsetof(struct model_tally, requeued));
    put_tally(s, w, "model_cache_hits_total", "Jobs of the model answered from the cache.",
              offsetof(struct model_tally, cache_hits));
    put_tally(s, w, "model_cache_misses_total", "Lookups for the model that found nothing.",
              offsetof(struct model_tally, cache_misses));
    put_outcomes(s, w);
}

/* ---- per series ---- */

static void put_histogram(struct writer *w, const char *name, const struct series_tally *series, const char *stage,
                          const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += histogram->counts[i];
        if (i < HISTOGRAM_BOUNDS && !histogram_bound_published(i))
            continue;
        open_labels(w, name, "_bucket");
        series_labels(w, series);
        if (stage)
            writer_label(w, "stage", stage);
        writer_text(w, "le=\"");
        if (i < HISTOGRAM_BOUNDS)
            writer_seconds(w, histogram_bound_us(i));
        else
            writer_text(w, "+Inf");
        writer_text(w, "\"} ");
        put_value(w, count);
    }
    for (int sum = 1; sum >= 0; sum--) {
        open_labels(w, name, sum ? "_sum" : "_count");
        series_labels(w, series);
        if (stage)
            writer_label(w, "stage", stage);
        close_labels(w);
        if (sum)
            writer_seconds(w, histogram->sum_us);
        else
            writer_number(w, count);
        writer_text(w, "\n");
    }
}

static bool shown(const struct snapshot *s, uint32_t i)
{
    return i > 0 || histogram_count(&s->series[0].total) > 0;
}

static void put_stages(const struct snapshot *s, struct writer *w)
{
    family(w, "stage_seconds", "histogram",
           "Where jobs that a worker answered spent their time: queue, transfer (there and back), compute, total.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        const struct series_tally *series = &s->series[i];
        if (!shown(s, i))
            continue;
        put_histogram(w, "stage_seconds", series, "queue", &series->queue);
        put_histogram(w, "stage_seconds", series, "transfer", &series->transfer);
        put_histogram(w, "stage_seconds", series, "compute", &series->compute);
        put_histogram(w, "stage_seconds", series, "total", &series->total);
    }
    family(w, "prediction_error_seconds", "histogram", "How far a batch's time was from the expected one.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (shown(s, i))
            put_histogram(w, "prediction_error_seconds", &s->series[i], NULL, &s->series[i].error);
    }
}

static void put_batch_sizes(const struct series_tally *series, struct writer *w)
{
    uint64_t count = 0;
    for (unsigned size = 0; size <= METRICS_BATCH_SIZES; size++) {
        count += size < METRICS_BATCH_SIZES ? series->batches[size] : 0;
        open_labels(w, "batch_jobs", "_bucket");
        series_labels(w, series);
        if (size < METRICS_BATCH_SIZES)
            label_number(w, "le", 1u << size);
        else
            writer_label(w, "le", "+Inf");
        close_labels(w);
        put_value(w, count);
    }
    for (int sum = 1; sum >= 0; sum--) {
        open_labels(w, "batch_jobs", sum ? "_sum" : "_count");
        series_labels(w, series);
        close_labels(w);
        put_value(w, sum ? series->batch_jobs : count);
    }
}

static void put_batches(const struct snapshot *s, struct writer *w)
{
    family(w, "batch_jobs", "histogram", "Jobs per batch.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (shown(s, i))
            put_batch_sizes(&s->series[i], w);
    }
    family(w, "batches_total", "counter", "Batches by the reason why they closed.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        for (unsigned reason = 0; shown(s, i) && reason < CLOSE_REASONS; reason++) {
            open_labels(w, "batches_total", "");
            series_labels(w, &s->series[i]);
            writer_label(w, "reason", close_reason_name((enum close_reason)reason));
            close_labels(w);
            put_value(w, s->series[i].closes[reason]);
        }
    }
}

static void put_demand(const struct snapshot *s, struct writer *w)
{
    family(w, "slot_busy_seconds_total", "counter", "Time that slots of workers computed, each batch once.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (!shown(s, i))
            continue;
        open_labels(w, "slot_busy_seconds_total", "");
        series_labels(w, &s->series[i]);
        close_labels(w);
        writer_seconds(w, s->series[i].busy_us);
        writer_text(w, "\n");
    }
    family(w, "desired_workers", "gauge",
           "Workers that would keep slots 70 % busy and work the queue off within 10 s: for an autoscaler.");
    for (uint32_t i = 1; i < s->series_count; i++) {
        open_labels(w, "desired_workers", "");
        series_labels(w, &s->series[i]);
        close_labels(w);
        put_value(w, snapshot_desired(s, i));
    }
}

/* ---- workers, tenants ---- */

static void put_worker_states(const struct snapshot *s, struct writer *w)
{
    static const char *const states[] = {"ready", "suspect", "draining"};
    family(w, "workers", "gauge", "Workers by state.");
    for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < s->workers_count; i++)
            count += strcmp(s->workers[i].state, states[k]) == 0;
        open_labels(w, "workers", "");
        writer_label(w, "state", states[k]);
        close_labels(w);
        put_value(w, count);
    }
}

static uint64_t slots_of(const struct worker_row *row)
{
    return row->slots;
}

static uint64_t jobs_of(const struct worker_row *row)
{
    return row->jobs_running;
}

static uint64_t done_of(const struct worker_row *row)
{
    return row->jobs_done;
}

static uint64_t failed_of(const struct worker_row *row)
{
    return row->jobs_failed;
}

static uint64_t resident_of(const struct worker_row *row)
{
    return row->rss_bytes;
}

static uint64_t backlog_of(const struct worker_row *row)
{
    return row->backlog_us;
}

static const struct worker_metric {
    const char *name, *type, *help;
    uint64_t (*value)(const struct worker_row *row);
    bool seconds; /* the value is in microseconds */
} worker_metrics[] = {
    {"worker_slots", "gauge", "Slots of the worker.", slots_of, false},
    {"worker_jobs_running", "gauge", "Jobs that the worker has.", jobs_of, false},
    {"worker_jobs_done_total", "counter", "Jobs that the worker answered with a result.", done_of, false},
    {"worker_jobs_failed_total", "counter", "Jobs that the worker answered with an error.", failed_of, false},
    {"worker_resident_bytes", "gauge", "Resident memory, by its last heartbeat.", resident_of, false},
    {"worker_backlog_seconds", "gauge", "Expected work that the worker holds, per slot.", backlog_of, true},
};

static void put_worker(const struct worker_row *row, struct writer *w, const struct worker_metric *metric)
{
    open_labels(w, metric->name, "");
    writer_label(w, "worker", row->name);
    writer_format(w, "uuid=\"%016llx\",", (unsigned long long)row->uuid);
    writer_label(w, "backend", row->backend);
    close_labels(w);
    if (metric->seconds)
        writer_seconds(w, metric->value(row));
    else
        writer_number(w, metric->value(row));
    writer_text(w, "\n");
}

static void put_workers(const struct snapshot *s, struct writer *w)
{
    put_worker_states(s, w);
    for (size_t k = 0; k < sizeof worker_metrics / sizeof worker_metrics[0]; k++) {
        family(w, worker_metrics[k].name, worker_metrics[k].type, worker_metrics[k].help);
        for (uint32_t i = 0; i < s->workers_count; i++)
            put_worker(&s->workers[i], w, &worker_metrics[k]);
    }
}

static void put_tenant(const struct snapshot *s, struct writer *w, const char *name, const char *help, size_t offset,
                       bool seconds)
{
    family(w, name, "counter", help);
    for (uint32_t i = 0; i < s->tenants_count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&s->tenants[i] + offset, sizeof value);
        if (s->tenants[i].name[0] == '\0' || (i == 0 && s->tenants[0].jobs == 0))
            continue;
        open_labels(w, name, "");
        writer_label(w, "tenant", s->tenants[i].name);
        close_labels(w);
        if (seconds)
            writer_seconds(w, value);
        else
            writer_number(w, value);
        writer_text(w, "\n");
    }
}

static void put_tenants(const struct snapshot *s, struct writer *w)
{
    put_tenant(s, w, "tenant_jobs_total", "Jobs of the tenant that ended.", offsetof(struct tenant_tally, jobs), false);
    put_tenant(s, w, "tenant_bytes_in_total", "Bytes of the tenant's jobs.", offsetof(struct tenant_tally, bytes_in),
               false);
    put_tenant(s, w, "tenant_bytes_out_total", "Bytes of the tenant's replies.",
               offsetof(struct tenant_tally, bytes_out), false);
    put_tenant(s, w, "tenant_compute_seconds_total", "Time that the tenant's jobs computed.",
               offsetof(struct tenant_tally, compute_us), true);
}

void metrics_text(const struct snapshot *snapshot, struct writer *writer)
{
    put_broker(snapshot, writer);
    put_models(snapshot, writer);
    put_stages(snapshot, writer);
    put_batches(snapshot, writer);
    put_demand(snapshot, writer);
    put_workers(snapshot, writer);
    put_tenants(snapshot, writer);
}
