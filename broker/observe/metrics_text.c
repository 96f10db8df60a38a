#include "metrics_text.h"

#include <string.h>
#include <time.h>

#include "metrics_lines.h"
#include "version.h"

/* ---- of the whole broker ---- */

static void put_build(struct writer *w)
{
    line_family(w, "build_info", "gauge", "1, with the version of the broker.");
    line_open(w, "build_info", "");
    writer_label(w, "version", PENSTOCK_VERSION);
    writer_label(w, "build", version_build());
    line_close(w);
    line_value(w, 1);
}

static void put_cache(const struct snapshot *s, struct writer *w)
{
    const struct cache_report *cache = &s->cache;
    line_single(w, "cache_hits_total", "counter", "Jobs answered from the result cache.", s->stats.cache_hits);
    line_single(w, "cache_misses_total", "counter", "Lookups in the result cache that found nothing.",
                s->stats.cache_misses);
    line_single(w, "cache_bytes", "gauge", "Bytes of cached results; 0 when they are in Redis.", cache->bytes);
    line_single(w, "cache_entries", "gauge", "Cached results; 0 when they are in Redis.", cache->entries);
    line_single(w, "cache_evicted_total", "counter", "Results that had to leave the cache for others.", cache->evicted);
    line_single(w, "cache_mismatches_total", "counter",
                "Values in Redis that were under another key than their own: not believed, computed again.",
                cache->mismatched);
    line_single(w, "labels_mismatched_total", "counter",
                "Labels of versions in Redis that were under another name than their own: not believed.",
                s->labels_mismatched);
    line_single(w, "cache_breaker_open", "gauge", "1 while Redis is left alone because it failed.",
                strncmp(cache->state, "open", 4) == 0);
    line_family(w, "cache_info", "gauge", "1, with the kind of the cache: memory, redis, none.");
    line_open(w, "cache_info", "");
    writer_label(w, "kind", cache->kind);
    line_close(w);
    line_value(w, 1);
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
    line_family(w, "bytes_total", "counter", "Bytes moved, by side and direction as the broker sees it.");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        line_open(w, "bytes_total", "");
        writer_label(w, "peer", rows[i].peer);
        writer_label(w, "direction", rows[i].direction);
        line_close(w);
        line_value(w, rows[i].bytes);
    }
}

static void put_process(const struct snapshot *s, struct writer *w)
{
    struct timespec cpu = {.tv_sec = 0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    writer_text(w, "# HELP process_resident_memory_bytes Resident memory of the broker.\n"
                   "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes ");
    line_value(w, s->rss_bytes);
    writer_format(w,
                  "# HELP process_cpu_seconds_total CPU time of the broker, all threads.\n"
                  "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %lld.%06ld\n",
                  (long long)cpu.tv_sec, cpu.tv_nsec / 1000);
    line_family(w, "uptime_seconds", "gauge", "Since the broker started.");
    writer_text(w, "penstock_uptime_seconds ");
    writer_seconds(w, s->taken_us - s->started_us);
    writer_text(w, "\n");
}

static void put_held(struct writer *w, const char *reason, uint64_t count)
{
    line_open(w, "jobs_held_total", "");
    writer_label(w, "reason", reason);
    line_close(w);
    line_value(w, count);
}

static void put_broker(const struct snapshot *s, struct writer *w)
{
    const struct stats *stats = &s->stats;
    put_build(w);
    put_process(s, w);
    line_single(w, "ready", "gauge", "1 when some worker may be given work and the broker takes it.", s->ready);
    line_single(w, "draining", "gauge", "1 when the broker is about to end.", s->draining);
    line_single(w, "keys_bad", "gauge",
                "1 when the file of --keys was refused, as a damaged one is: the last good list is in force.",
                s->keys_bad);
    line_single(w, "clients", "gauge", "Connected clients.", s->clients);
    line_single(w, "queue_bytes", "gauge", "Bytes of the jobs that wait.", s->queued_bytes);
    line_single(w, "replies_kept", "gauge", "Replies kept until they are acknowledged.", s->kept_count);
    line_single(w, "replies_kept_bytes", "gauge", "Bytes of these replies.", s->kept_bytes);
    line_single(w, "replies_dropped_total", "counter", "Replies forgotten before their client could read them.",
                s->dropped_unsent);
    line_single(w, "detached_taken_total", "counter", "Detached jobs taken from Redis.", stats->detached_taken);
    line_single(w, "detached_taken_over_total", "counter", "Of these, jobs that another broker had begun.",
                stats->detached_again);
    line_single(w, "detached_duplicates_total", "counter",
                "Results of detached jobs that came second and were thrown away.", stats->detached_duplicates);
    line_single(w, "bulk_chunks_received_total", "counter", "Chunks of large payloads that came in.", stats->chunks_in);
    line_single(w, "bulk_chunks_sent_total", "counter", "Chunks of large payloads that went out.", stats->chunks_out);
    line_single(w, "sealed_received_total", "counter", "Payloads that came as sealed memory.", stats->sealed_in);
    line_single(w, "sealed_sent_total", "counter", "Payloads that went on as sealed memory.", stats->sealed_out);
    line_single(w, "sealed_fallbacks_total", "counter", "Payloads in sealed memory that were sent as bytes.",
                stats->sealed_fallbacks);
    line_single(w, "jobs_coalesced_total", "counter", "Jobs that waited for an identical one instead of running.",
                stats->jobs_coalesced);
    line_family(w, "jobs_held_total", "counter",
                "Jobs that came while no worker had their model in memory, by reason: loading, no_worker.");
    put_held(w, "loading", stats->jobs_held_cold);
    put_held(w, "no_worker", stats->jobs_held_unserved);
    line_single(w, "early_hits_total", "counter",
                "Jobs answered from the cache by the digest alone: their payload was never sent.", stats->early_hits);
    line_single(w, "results_duplicate_total", "counter", "Late or repeated results of workers.",
                stats->results_duplicate);
    line_single(w, "results_bad_total", "counter",
                "Results of workers against the contract: outputs missing, of another form, or an unknown status.",
                stats->results_bad);
    line_single(w, "digests_wrong_total", "counter", "Results whose digest was not the client's: nothing was shared.",
                stats->digests_wrong);
    line_single(w, "workers_lost_total", "counter", "Workers that vanished or fell silent.", stats->workers_lost);
    lines_losses(w, stats);
    line_single(w, "clients_lost_total", "counter", "Clients that vanished or fell silent.", stats->clients_lost);
    line_single(w, "load_thousandths", "gauge",
                "How busy the broker is, in thousandths of --busy-jobs or --busy-clients, whichever is more.",
                stats->load);
    line_single(w, "neighbours", "gauge", "Other brokers (--neighbours) that answer.", stats->neighbours);
    line_single(w, "clients_redirected_total", "counter", "Clients that were sent to another broker.",
                stats->clients_redirected);
    line_single(w, "jobs_handed_total", "counter", "Jobs handed to another broker while this one drained.",
                stats->jobs_handed);
    line_single(w, "jobs_taken_over_total", "counter", "Jobs taken over from a broker that drained.",
                stats->jobs_taken_over);
    line_single(w, "memory_refused_total", "counter", "Jobs turned away because the broker was near its memory limit.",
                stats->memory_refused);
    line_single(w, "busy_waits_total", "counter", "Waits for messages that were spent awake (--spin).",
                stats->busy_waits);
    line_single(w, "messages_bad_total", "counter", "Messages that were not ours, broken or out of place.",
                stats->messages_bad);
    line_single(w, "jobs_cancelled_total", "counter", "Jobs cancelled by their client, by its leaving, or by hand.",
                stats->jobs_cancelled);
    line_single(w, "jobs_expired_total", "counter", "Jobs whose deadline passed.", stats->jobs_expired);
    line_single(w, "traces_kept_total", "counter", "Job traces that were kept: sampled, slow, or asked for.",
                s->kept.count);
    line_single(w, "traces_exported_total", "counter", "Traces that a collector has taken.", s->otlp.exported);
    line_single(w, "traces_dropped_total", "counter", "Traces that no collector took.", s->otlp.dropped);
    line_single(w, "usage_write_failures_total", "counter", "Times that a file of --usage-dir could not be written.",
                s->usage_failures);
    put_cache(s, w);
    put_bytes(s, w);
}

/* ---- per model ---- */

static void put_tally(const struct snapshot *s, struct writer *w, const char *name, const char *help, size_t offset)
{
    line_family(w, name, "counter", help);
    for (uint32_t i = 0; i < s->tallies_count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&s->tallies[i] + offset, sizeof value);
        if (i == 0 && value == 0)
            continue;
        line_open(w, name, "");
        line_model(w, s->tallies[i].name, s->tallies[i].version);
        line_close(w);
        line_value(w, value);
    }
}

static void put_outcome(struct writer *w, const struct model_tally *tally, const char *outcome, const char *reason,
                        enum pen_status status, uint64_t value)
{
    line_open(w, "jobs_total", "");
    line_model(w, tally->name, tally->version);
    writer_label(w, "outcome", outcome);
    if (reason)
        writer_label(w, "reason", reason);
    else
        line_status(w, "reason", status);
    line_close(w);
    line_value(w, value);
}

static void put_outcomes(const struct snapshot *s, struct writer *w)
{
    line_family(
        w, "jobs_total", "counter",
        "Jobs that ended. done: computed, coalesced or cached; failed and rejected: by the status they were told; "
        "cancelled: nobody wanted them any more.");
    for (uint32_t i = 0; i < s->tallies_count; i++) {
        const struct model_tally *tally = &s->tallies[i];
        put_outcome(w, tally, "done", "computed", PEN_OK, tally->computed);
        put_outcome(w, tally, "done", "coalesced", PEN_OK, tally->coalesced);
        put_outcome(w, tally, "done", "cached", PEN_OK, tally->cached);
        if (tally->cancelled)
            put_outcome(w, tally, "cancelled", "cancelled", PEN_ERR_CANCELLED, tally->cancelled);
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
    line_family(w, name, "gauge", help);
    for (uint32_t i = 0; i < s->models_count; i++) {
        if (i >= METRICS_MODELS_MAX) {
            rest += value(&s->models[i]);
            continue;
        }
        line_open(w, name, "");
        line_model(w, s->models[i].name, s->models[i].version);
        line_close(w);
        line_value(w, value(&s->models[i]));
    }
    if (s->models_count > METRICS_MODELS_MAX) {
        line_open(w, name, "");
        line_model(w, s->tallies[0].name, 0);
        line_close(w);
        line_value(w, rest);
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

static uint64_t forms_of(const struct model_row *row)
{
    return row->forms;
}

static uint64_t ready_of(const struct model_row *row)
{
    return row->ready;
}

/* By the mean cost of the model's jobs that did run. */
static void put_saved(const struct snapshot *s, struct writer *w)
{
    line_family(w, "saved_compute_seconds_total", "counter",
                "Slot time that jobs did not need: answered from the cache, by an equal job, or cancelled, expired or "
                "left by its client in time.");
    for (uint32_t i = 0; i < s->tallies_count; i++) {
        const struct model_tally *tally = &s->tallies[i];
        const struct {
            const char *reason;
            uint64_t us;
        } rows[] = {{"cached", tally->saved_cached_us},
                    {"coalesced", tally->saved_coalesced_us},
                    {"cancelled", tally->saved_cancelled_us}};
        for (size_t k = 0; k < sizeof rows / sizeof rows[0] && (i > 0 || tally->share_jobs); k++) {
            line_open(w, "saved_compute_seconds_total", "");
            line_model(w, tally->name, tally->version);
            writer_label(w, "reason", rows[k].reason);
            line_close(w);
            writer_seconds(w, rows[k].us);
            writer_text(w, "\n");
        }
    }
}

static void put_models(const struct snapshot *s, struct writer *w)
{
    put_model_gauge(s, w, "queue_jobs", "Jobs that wait for a worker.", queued_of);
    put_model_gauge(s, w, "running_jobs", "Jobs that a worker has.", running_of);
    put_model_gauge(s, w, "model_workers", "Workers that are ready for the model.", ready_of);
    put_model_gauge(
        s, w, "model_forms",
        "Forms in which workers offer the model: more than 1 while they differ in inputs, outputs or batch size.",
        forms_of);
    put_tally(s, w, "jobs_admitted_total", "Jobs that were taken (hits in memory are none).",
              offsetof(struct model_tally, admitted));
    put_tally(s, w, "jobs_requeued_total", "Jobs sent again: their worker was lost or gave them back.",
              offsetof(struct model_tally, requeued));
    put_saved(s, w);
    put_tally(s, w, "model_cache_hits_total", "Jobs of the model answered from the cache.",
              offsetof(struct model_tally, cache_hits));
    put_tally(s, w, "model_cache_misses_total", "Lookups for the model that found nothing.",
              offsetof(struct model_tally, cache_misses));
    put_outcomes(s, w);
}

void metrics_text(const struct snapshot *snapshot, struct writer *writer)
{
    put_broker(snapshot, writer);
    put_models(snapshot, writer);
    metrics_text_rows(snapshot, writer);
}
