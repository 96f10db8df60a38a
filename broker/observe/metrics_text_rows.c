#include "metrics_text.h"

#include <string.h>

#include "metrics_lines.h"

/* ---- per series ---- */

static void put_histogram(struct writer *w, const char *name, const struct series_tally *series, const char *stage,
                          const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count += histogram->counts[i];
        if (i < HISTOGRAM_BOUNDS && !histogram_bound_published(i))
            continue;
        line_open(w, name, "_bucket");
        line_series(w, series);
        if (stage)
            writer_label(w, "stage", stage);
        writer_text(w, "le=\"");
        if (i < HISTOGRAM_BOUNDS)
            writer_seconds(w, histogram_bound_us(i));
        else
            writer_text(w, "+Inf");
        writer_text(w, "\"} ");
        line_value(w, count);
    }
    for (int sum = 1; sum >= 0; sum--) {
        line_open(w, name, sum ? "_sum" : "_count");
        line_series(w, series);
        if (stage)
            writer_label(w, "stage", stage);
        line_close(w);
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
    line_family(w, "stage_seconds", "histogram",
                "Where jobs that a worker answered spent their time: queue, transfer (there and back), decode (of "
                "pictures; only "
                "jobs that brought some), compute, total.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        const struct series_tally *series = &s->series[i];
        if (!shown(s, i))
            continue;
        put_histogram(w, "stage_seconds", series, "queue", &series->queue);
        put_histogram(w, "stage_seconds", series, "transfer", &series->transfer);
        if (histogram_count(&series->decode) > 0)
            put_histogram(w, "stage_seconds", series, "decode", &series->decode);
        put_histogram(w, "stage_seconds", series, "compute", &series->compute);
        put_histogram(w, "stage_seconds", series, "total", &series->total);
    }
    line_family(w, "prediction_error_seconds", "histogram", "How far a batch's time was from the expected one.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (shown(s, i))
            put_histogram(w, "prediction_error_seconds", &s->series[i], NULL, &s->series[i].error);
    }
}

/* sizes: [METRICS_BATCH_SIZES], with `jobs` in all. */
static void put_sizes(const struct series_tally *series, const char *name, const uint64_t *sizes, uint64_t jobs,
                      struct writer *w)
{
    uint64_t count = 0;
    for (unsigned size = 0; size <= METRICS_BATCH_SIZES; size++) {
        count += size < METRICS_BATCH_SIZES ? sizes[size] : 0;
        line_open(w, name, "_bucket");
        line_series(w, series);
        if (size < METRICS_BATCH_SIZES)
            line_number(w, "le", 1u << size);
        else
            writer_label(w, "le", "+Inf");
        line_close(w);
        line_value(w, count);
    }
    for (int sum = 1; sum >= 0; sum--) {
        line_open(w, name, sum ? "_sum" : "_count");
        line_series(w, series);
        line_close(w);
        line_value(w, sum ? jobs : count);
    }
}

static void put_batches(const struct snapshot *s, struct writer *w)
{
    line_family(w, "batch_jobs", "histogram", "Jobs per batch.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (shown(s, i))
            put_sizes(&s->series[i], "batch_jobs", s->series[i].batches, s->series[i].batch_jobs, w);
    }
    line_family(w, "run_jobs", "histogram", "Jobs that ran together on a worker.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (shown(s, i))
            put_sizes(&s->series[i], "run_jobs", s->series[i].runs, s->series[i].run_jobs, w);
    }
    line_family(w, "batches_total", "counter", "Batches by the reason why they closed.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        for (unsigned reason = CLOSE_FIRST; shown(s, i) && reason <= CLOSE_LAST; reason++) {
            line_open(w, "batches_total", "");
            line_series(w, &s->series[i]);
            writer_label(w, "reason", close_reason_name((enum close_reason)reason));
            line_close(w);
            line_value(w, s->series[i].closes[reason - CLOSE_FIRST]);
        }
    }
}

static void put_demand(const struct snapshot *s, struct writer *w)
{
    line_family(w, "slot_busy_seconds_total", "counter", "Time that slots of workers computed, each batch once.");
    for (uint32_t i = 0; i < s->series_count; i++) {
        if (!shown(s, i))
            continue;
        line_open(w, "slot_busy_seconds_total", "");
        line_series(w, &s->series[i]);
        line_close(w);
        writer_seconds(w, s->series[i].busy_us);
        writer_text(w, "\n");
    }
}

/* A worker of whatever kind: it is not known yet who runs the model. */
static void put_desired_any(struct writer *w, const char *model, uint64_t version)
{
    line_open(w, "desired_workers", "");
    line_model(w, model, version);
    writer_label(w, "backend", "any");
    writer_label(w, "precision", "any");
    line_close(w);
    line_value(w, 1);
}

static void put_desired(const struct snapshot *s, struct writer *w)
{
    line_family(w, "desired_workers", "gauge",
                "Workers that would keep slots 70 % busy and work the queue off within 10 s, and one while jobs wait "
                "for the first: for an autoscaler.");
    for (uint32_t i = 1; i < s->series_count; i++) {
        line_open(w, "desired_workers", "");
        line_series(w, &s->series[i]);
        line_close(w);
        line_value(w, snapshot_desired(s, i));
    }
    for (uint32_t i = 0; i < s->models_count; i++) {
        if (snapshot_waits_unmeasured(s, &s->models[i]))
            put_desired_any(w, s->models[i].name, s->models[i].version);
    }
    if (s->parked > 0)
        put_desired_any(w, "unknown", 0);
}

/* ---- workers, tenants ---- */

static void put_worker_states(const struct snapshot *s, struct writer *w)
{
    static const char *const states[] = {"ready", "suspect", "draining"};
    line_family(w, "workers", "gauge", "Workers by state.");
    for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < s->workers_count; i++)
            count += strcmp(s->workers[i].state, states[k]) == 0;
        line_open(w, "workers", "");
        writer_label(w, "state", states[k]);
        line_close(w);
        line_value(w, count);
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

static uint64_t cancelled_of(const struct worker_row *row)
{
    return row->jobs_cancelled;
}

static uint64_t bad_of(const struct worker_row *row)
{
    return row->results_bad;
}

static uint64_t resident_of(const struct worker_row *row)
{
    return row->beat.rss_bytes;
}

static uint64_t memory_of(const struct worker_row *row)
{
    return row->beat.memory_bytes;
}

static uint64_t memory_used_of(const struct worker_row *row)
{
    return row->beat.memory_used_bytes;
}

static uint64_t cpu_of(const struct worker_row *row)
{
    return row->beat.cpu_us;
}

static uint64_t compute_of(const struct worker_row *row)
{
    return row->beat.compute_us;
}

static uint64_t oldest_of(const struct worker_row *row)
{
    return row->beat.oldest_running_us;
}

static uint64_t warm_of(const struct worker_row *row)
{
    return row->beat.models_warm;
}

static uint64_t cold_of(const struct worker_row *row)
{
    return row->beat.models_cold;
}

static uint64_t unserved_of(const struct worker_row *row)
{
    return row->failures_count;
}

static uint64_t loaded_of(const struct worker_row *row)
{
    return row->beat.models_loaded;
}

static uint64_t evicted_of(const struct worker_row *row)
{
    return row->beat.models_evicted;
}

/* Printed as seconds: a share of 0.25 comes out as 0.25. */
static uint64_t busy_of(const struct worker_row *row)
{
    return (uint64_t)(row->busy_share * 1e6);
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
    {"worker_jobs_cancelled_total", "counter", "Jobs that the worker gave up because nobody wanted them any more.",
     cancelled_of, false},
    {"worker_results_bad_total", "counter", "Results of the worker that were against the contract.", bad_of, false},
    {"worker_resident_bytes", "gauge", "Resident memory, by its last heartbeat.", resident_of, false},
    {"worker_utilisation_ratio", "gauge", "Share of its slots' time that the worker computes, a mean over 15 s.",
     busy_of, true},
    {"worker_device_memory_bytes", "gauge", "Memory of its device that the worker may use.", memory_of, false},
    {"worker_device_memory_used_bytes", "gauge", "Of it, what models and their buffers hold.", memory_used_of, false},
    {"worker_cpu_seconds_total", "counter", "Processor time of the worker.", cpu_of, true},
    {"worker_compute_seconds_total", "counter", "Time that its slots computed.", compute_of, true},
    {"worker_oldest_running_seconds", "gauge", "Age of its oldest run: a wedged kernel shows here.", oldest_of, true},
    {"worker_models_warm", "gauge", "Models whose declared batch sizes have all been run.", warm_of, false},
    {"worker_models_cold", "gauge", "Models that are loaded when a job comes for them.", cold_of, false},
    {"worker_models_failed", "gauge", "Models that it has and does not serve as they are now.", unserved_of, false},
    {"worker_model_loads_total", "counter", "Models loaded because a job came.", loaded_of, false},
    {"worker_model_evictions_total", "counter", "Models that made room for another.", evicted_of, false},
    {"worker_backlog_seconds", "gauge", "Expected work that the worker holds, per slot.", backlog_of, true},
};

static void put_worker(const struct worker_row *row, struct writer *w, const struct worker_metric *metric)
{
    line_open(w, metric->name, "");
    writer_label(w, "worker", row->name);
    writer_format(w, "uuid=\"%016llx\",", (unsigned long long)row->uuid);
    writer_label(w, "backend", row->backend);
    line_close(w);
    if (metric->seconds)
        writer_seconds(w, metric->value(row));
    else
        writer_number(w, metric->value(row));
    writer_text(w, "\n");
}

/* The sentences are in `penstock models`: they would make a series of their own each. */
static void put_failures(const struct snapshot *s, struct writer *w)
{
    line_family(w, "worker_model_failed", "gauge",
                "1 for each model that a worker has and does not serve as it is now; serving: an older form of it is.");
    for (uint32_t i = 0; i < s->failures_count; i++) {
        const struct failure_row *row = &s->failures[i];
        line_open(w, "worker_model_failed", "");
        line_model(w, row->name, row->version);
        writer_label(w, "worker", s->workers[row->worker].name);
        writer_format(w, "uuid=\"%016llx\",", (unsigned long long)s->workers[row->worker].uuid);
        writer_label(w, "serving", row->serving ? "true" : "false");
        line_close(w);
        line_value(w, 1);
    }
}

static void put_workers(const struct snapshot *s, struct writer *w)
{
    put_worker_states(s, w);
    for (size_t k = 0; k < sizeof worker_metrics / sizeof worker_metrics[0]; k++) {
        line_family(w, worker_metrics[k].name, worker_metrics[k].type, worker_metrics[k].help);
        for (uint32_t i = 0; i < s->workers_count; i++)
            put_worker(&s->workers[i], w, &worker_metrics[k]);
    }
}

static void put_tenant(const struct snapshot *s, struct writer *w, const char *name, const char *help, size_t offset,
                       bool seconds)
{
    line_family(w, name, "counter", help);
    for (uint32_t i = 0; i < s->tenants_count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&s->tenants[i] + offset, sizeof value);
        if (s->tenants[i].name[0] == '\0' || (i == 0 && s->tenants[0].jobs == 0))
            continue;
        line_open(w, name, "");
        writer_label(w, "tenant", s->tenants[i].name);
        line_close(w);
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

void metrics_text_rows(const struct snapshot *snapshot, struct writer *writer)
{
    put_stages(snapshot, writer);
    put_batches(snapshot, writer);
    put_demand(snapshot, writer);
    put_desired(snapshot, writer);
    put_workers(snapshot, writer);
    put_failures(snapshot, writer);
    lines_errors(snapshot, writer);
    lines_shadows(snapshot, writer);
    put_tenants(snapshot, writer);
}
