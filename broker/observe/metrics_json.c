#include "metrics_json.h"

#include <math.h>

#include "version.h"

/* ---- pairs ---- */

static void comma(struct writer *w, bool first)
{
    if (!first)
        writer_text(w, ",");
}

/* "key": with a comma in front unless an object has just been opened. */
static void key(struct writer *w, const char *name)
{
    char last = w->used ? w->text[w->used - 1] : '{';
    comma(w, last == '{');
    writer_text(w, "\"");
    writer_text(w, name);
    writer_text(w, "\":");
}

static void number(struct writer *w, const char *name, uint64_t value)
{
    key(w, name);
    writer_number(w, value);
}

static void string(struct writer *w, const char *name, const char *value)
{
    key(w, name);
    writer_string(w, value);
}

static void flag(struct writer *w, const char *name, bool value)
{
    key(w, name);
    writer_text(w, value ? "true" : "false");
}

static void counts(struct writer *w, const char *name, const uint64_t *values, size_t count)
{
    while (count > 0 && values[count - 1] == 0)
        count--; /* a reader takes a missing entry for 0 */
    key(w, name);
    writer_text(w, "[");
    for (size_t i = 0; i < count; i++) {
        comma(w, i == 0);
        writer_number(w, values[i]);
    }
    writer_text(w, "]");
}

/* ---- the whole ---- */

static void put_totals(const struct snapshot *s, struct writer *w)
{
    const struct stats *stats = &s->stats;
    string(w, "software", PENSTOCK_SOFTWARE);
    writer_format(w, ",\"broker\":\"%016llx\"", (unsigned long long)s->uuid);
    number(w, "now_us", s->taken_us);
    number(w, "uptime_us", s->taken_us - s->started_us);
    flag(w, "ready", s->ready);
    flag(w, "draining", s->draining);
    number(w, "queued", s->queued);
    number(w, "running", s->running);
    number(w, "clients", s->clients);
    number(w, "admitted", stats->jobs_admitted);
    number(w, "done", stats->jobs_done);
    number(w, "failed", stats->jobs_failed);
    number(w, "rejected", stats->jobs_rejected);
    number(w, "expired", stats->jobs_expired);
    number(w, "cancelled", stats->jobs_cancelled);
    number(w, "requeued", stats->jobs_requeued);
    number(w, "coalesced", stats->jobs_coalesced);
    number(w, "workers_lost", stats->workers_lost);
    number(w, "replies_kept", s->kept_count);
    number(w, "bytes_in", s->clients_in + s->workers_in);
    number(w, "bytes_out", s->clients_out + s->workers_out);
    number(w, "rss_bytes", s->rss_bytes);
    flag(w, "preview", s->previews);
}

static void put_cache(const struct snapshot *s, struct writer *w)
{
    key(w, "cache");
    writer_text(w, "{");
    string(w, "kind", s->cache.kind);
    string(w, "state", s->cache.state);
    number(w, "hits", s->stats.cache_hits);
    number(w, "misses", s->stats.cache_misses);
    number(w, "bytes", s->cache.bytes);
    number(w, "entries", s->cache.entries);
    number(w, "evicted", s->cache.evicted);
    number(w, "mismatched", s->cache.mismatched);
    writer_text(w, "}");
}

static void put_bounds(struct writer *w)
{
    key(w, "bounds_us");
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        writer_text(w, i ? "," : "[");
        writer_number(w, histogram_bound_us(i));
    }
    writer_text(w, "]");
}

static void put_model(const struct snapshot *s, const struct model_row *row, struct writer *w)
{
    static const struct model_tally none;
    const struct model_tally *tally = row->tally == SNAPSHOT_NONE ? &none : &s->tallies[row->tally];
    writer_text(w, "{");
    string(w, "name", row->name);
    number(w, "version", row->version);
    number(w, "queued", row->queued);
    number(w, "running", row->running);
    number(w, "offers", row->offers);
    number(w, "ready", row->ready);
    number(w, "rows_max", row->rows_max);
    number(w, "computed", tally->computed);
    number(w, "coalesced", tally->coalesced);
    number(w, "cached", tally->cached);
    number(w, "misses", tally->cache_misses);
    number(w, "failed", metrics_sum(tally->failed));
    number(w, "cancelled", tally->cancelled);
    number(w, "rejected", metrics_sum(tally->rejected));
    number(w, "requeued", tally->requeued);
    writer_text(w, "}");
}

static void put_series(const struct snapshot *s, uint32_t i, struct writer *w)
{
    const struct series_tally *series = &s->series[i];
    writer_text(w, "{");
    string(w, "model", series->model->name);
    number(w, "version", series->model->version);
    string(w, "backend", series->backend);
    string(w, "precision", precision_name(series->precision));
    number(w, "busy_us", series->busy_us);
    number(w, "measured", series->measured);
    number(w, "batch_jobs", series->batch_jobs);
    number(w, "desired", snapshot_desired(s, i));
    counts(w, "closes", series->closes, CLOSE_COUNT);
    counts(w, "batches", series->batches, METRICS_BATCH_SIZES);
    counts(w, "queue", series->queue.counts, HISTOGRAM_BOUNDS + 1);
    counts(w, "transfer", series->transfer.counts, HISTOGRAM_BOUNDS + 1);
    counts(w, "decode", series->decode.counts, HISTOGRAM_BOUNDS + 1);
    counts(w, "compute", series->compute.counts, HISTOGRAM_BOUNDS + 1);
    counts(w, "total", series->total.counts, HISTOGRAM_BOUNDS + 1);
    counts(w, "error", series->error.counts, HISTOGRAM_BOUNDS + 1);
    writer_text(w, "}");
}

/* A number of JSON; null where it is none, such as infinity. */
static void put_real(struct writer *w, double value)
{
    if (isfinite(value))
        writer_format(w, ",%.6g", value);
    else
        writer_text(w, ",null");
}

/* [source, largest, mean, sets of inputs] of an error that is known; "measuring"; or null: nobody knows it. */
static void put_error(struct writer *w, const struct offer_row *offer)
{
    if (!offer->measured) {
        writer_text(w, offer->measures ? ",\"measuring\"" : ",null");
        return;
    }
    writer_text(w, ",[");
    writer_string(w, offer->error_source);
    put_real(w, offer->error);
    put_real(w, offer->error_mean);
    writer_text(w, ",");
    writer_number(w, offer->error_inputs);
    writer_text(w, "]");
}

/* [[row of the model, expected us of one job, precision, error], ...]; offers lie in the order of their workers. */
static void put_offers(const struct offer_row *offers, uint32_t count, struct writer *w)
{
    key(w, "models");
    writer_text(w, "[");
    for (uint32_t i = 0; i < count; i++) {
        comma(w, i == 0);
        writer_text(w, "[");
        writer_number(w, offers[i].model);
        writer_text(w, ",");
        writer_number(w, offers[i].expect_us);
        writer_text(w, ",");
        writer_string(w, precision_name(offers[i].precision));
        put_error(w, &offers[i]);
        writer_text(w, "]");
    }
    writer_text(w, "]");
    flag(w, "full", count > 0 && offers[0].busy);
}

static void put_worker(const struct worker_row *row, const struct offer_row *offers, struct writer *w)
{
    writer_format(w, "{\"uuid\":\"%016llx\"", (unsigned long long)row->uuid);
    string(w, "name", row->name);
    string(w, "host", row->host);
    string(w, "backend", row->backend);
    string(w, "device", row->device);
    string(w, "software", row->software);
    string(w, "state", row->state);
    number(w, "slots", row->slots);
    number(w, "threads", row->threads);
    number(w, "running", row->jobs_running);
    number(w, "done", row->jobs_done);
    number(w, "failed", row->jobs_failed);
    number(w, "cancelled", row->jobs_cancelled);
    number(w, "results_bad", row->results_bad);
    number(w, "rss_bytes", row->beat.rss_bytes);
    number(w, "memory_bytes", row->beat.memory_bytes);
    number(w, "memory_used_bytes", row->beat.memory_used_bytes);
    number(w, "busy_permille", (uint64_t)(row->busy_share * 1000 + 0.5));
    number(w, "warm", row->beat.models_warm);
    number(w, "cold", row->beat.models_cold);
    number(w, "unserved", row->failures_count);
    number(w, "backlog_us", row->backlog_us);
    number(w, "oldest_running_us", row->beat.oldest_running_us);
    number(w, "age_us", row->age_us);
    number(w, "last_seen_us", row->last_seen_us);
    put_offers(offers, row->offers, w);
    writer_text(w, "}");
}

static void put_failures(const struct snapshot *s, struct writer *w)
{
    key(w, "failures");
    writer_text(w, "[");
    for (uint32_t i = 0; i < s->failures_count; i++) {
        const struct failure_row *row = &s->failures[i];
        comma(w, i == 0);
        writer_format(w, "{\"uuid\":\"%016llx\"", (unsigned long long)s->workers[row->worker].uuid);
        string(w, "worker", s->workers[row->worker].name);
        string(w, "model", row->name);
        number(w, "version", row->version);
        string(w, "status", pen_status_name(row->status));
        string(w, "error", row->text);
        flag(w, "serving", row->serving);
        number(w, "since_unix_us", row->since_unix_us);
        writer_text(w, "}");
    }
    writer_text(w, "]");
}

static void put_life(const struct snapshot *s, const struct job_trace *trace, struct writer *w)
{
    char id[JOB_ID_TEXT_BYTES];
    const struct model_tally *model = &s->tallies[trace->model_row];
    const struct series_tally *series = &s->series[trace->series_row];
    writer_text(w, "{");
    string(w, "job", job_id_text(trace->id, id));
    string(w, "model", model->name);
    number(w, "version", model->version);
    string(w, "backend", trace->series_row ? series->backend : "");
    string(w, "precision", trace->series_row ? precision_name(series->precision) : "");
    string(w, "how", finish_name(trace->how));
    string(w, "status", pen_status_name(trace->status));
    string(w, "worker", trace->worker);
    string(w, "error", trace->error);
    string(w, "reason", close_reason_name(trace->reason));
    number(w, "attempts", trace->attempts);
    number(w, "batch", trace->batch);
    number(w, "ended_us", trace->ended_us);
    number(w, "queue_us", trace->queue_us);
    number(w, "transfer_us", trace->transfer_us);
    number(w, "worker_us", trace->worker_us);
    number(w, "decode_us", trace->decode_us);
    number(w, "compute_us", trace->compute_us);
    number(w, "total_us", trace->total_us);
    writer_text(w, "}");
}

/* Newest first. The slow ones are in no order: only used entries are written. */
static void put_traces(const struct snapshot *s, const char *name, const struct job_traces *job_traces,
                       struct writer *w)
{
    bool first = true;
    key(w, name);
    writer_text(w, "[");
    for (uint64_t i = 0; i < METRICS_TRACES; i++) {
        const struct job_trace *trace =
            &job_traces->rows[(job_traces->count + METRICS_TRACES - 1 - i) % METRICS_TRACES];
        if (trace->id.client == 0 && trace->id.sequence == 0)
            continue;
        comma(w, first);
        put_life(s, trace, w);
        first = false;
    }
    writer_text(w, "]");
}

static void put_arrays(const struct snapshot *s, struct writer *w)
{
    const struct offer_row *offers = s->offers;
    key(w, "models");
    writer_text(w, "[");
    for (uint32_t i = 0; i < s->models_count; i++) {
        comma(w, i == 0);
        put_model(s, &s->models[i], w);
    }
    writer_text(w, "],\"series\":[");
    for (uint32_t i = 1; i < s->series_count; i++) {
        comma(w, i == 1);
        put_series(s, i, w);
    }
    writer_text(w, "],\"workers\":[");
    for (uint32_t i = 0; i < s->workers_count; i++) {
        comma(w, i == 0);
        put_worker(&s->workers[i], offers, w);
        offers += s->workers[i].offers;
    }
    writer_text(w, "]");
}

static void put_shadow(const struct shadow_row *row, struct writer *w)
{
    const struct shadow_figures *f = &row->figures;
    writer_text(w, "{");
    string(w, "model", row->model);
    number(w, "version", row->version);
    number(w, "compared", f->compared);
    number(w, "failed", f->failed);
    number(w, "skipped", f->skipped);
    number(w, "unlike", f->unlike);
    number(w, "rows", f->rows);
    number(w, "same", f->same);
    key(w, "largest_error");
    if (isfinite(f->largest))
        writer_format(w, "%.6g", f->largest);
    else
        writer_text(w, "null");
    number(w, "original_us", f->original_us);
    number(w, "copy_us", f->shadow_us);
    number(w, "went_back", row->went_back);
    writer_text(w, "}");
}

static void put_shadows(const struct snapshot *s, struct writer *w)
{
    key(w, "shadows");
    writer_text(w, "[");
    for (uint32_t i = 0; i < s->shadows_count; i++) {
        comma(w, i == 0);
        put_shadow(&s->shadows[i], w);
    }
    writer_text(w, "]");
}

void metrics_json(const struct snapshot *snapshot, struct writer *writer)
{
    writer_text(writer, "{");
    put_totals(snapshot, writer);
    put_cache(snapshot, writer);
    put_bounds(writer);
    put_arrays(snapshot, writer);
    put_failures(snapshot, writer);
    put_shadows(snapshot, writer);
    put_traces(snapshot, "recent", &snapshot->recent, writer);
    put_traces(snapshot, "errors", &snapshot->errors, writer);
    put_traces(snapshot, "slow", &snapshot->slow, writer);
    writer_text(writer, "}");
}
