/*
 * What the pages say of a snapshot, field by field: each number of it is another one, so that one in the place of its neighbour shows. /metrics and the JSON of
 * the dashboard.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "metrics_json.h"
#include "metrics_text.h"
#include "sample_text.h"
#include "trace_write.h"
#include "version.h"

static struct snapshot *snapshot;
static struct model_row model;
static struct worker_row worker;
static struct offer_row offer;
static struct failure_row failure;
static struct model_tally tallies[2];
static struct series_tally series[2];
static struct tenant_tally tenant;
static struct job_trace kept;
static uint64_t next;

static uint64_t another(void)
{
    return next += 1013;
}

/* `count` numbers from there on. */
static void fill(uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = another();
}

static void name(char *to, size_t bytes, const char *text)
{
    snprintf(to, bytes, "%s", text);
}

static void fill_model(void)
{
    name(model.name, sizeof model.name, "a model");
    fill(&model.version, 4);
    model.offers = 1;
    model.ready = (uint32_t)another();
    model.rows_max = (uint32_t)another();
    model.forms = (uint32_t)another();
    model.tally = 1;
    name(tallies[0].name, sizeof tallies[0].name, "other");
    name(tallies[1].name, sizeof tallies[1].name, "a model");
    fill(&tallies[1].version, (sizeof tallies[1] - offsetof(struct model_tally, version)) / sizeof(uint64_t));
}

static void fill_series(void)
{
    struct series_tally *s = &series[1];
    *s = (struct series_tally){.model = &tallies[1], .model_row = 1, .precision = 1};
    series[0].model = &tallies[0];
    name(s->backend, sizeof s->backend, "abacus");
    fill(s->batches, METRICS_BATCH_SIZES);
    s->batch_jobs = another();
    fill(s->closes, CLOSE_COUNT);
    s->busy_us = another();
    s->measured = another();
}

static void fill_worker(void)
{
    name(worker.name, sizeof worker.name, "a worker");
    name(worker.host, sizeof worker.host, "a host");
    name(worker.backend, sizeof worker.backend, "abacus");
    name(worker.device, sizeof worker.device, "beads");
    name(worker.software, sizeof worker.software, "abacus 1");
    worker.state = "ready";
    worker.uuid = 0xABCDEF;
    worker.slots = (uint32_t)another();
    worker.threads = (uint32_t)another();
    worker.jobs_running = (uint32_t)another();
    worker.offers = 1;
    fill(&worker.jobs_done, 7);
    fill(&worker.beat.rss_bytes, 6);
    worker.beat.models_warm = (uint32_t)another();
    worker.beat.models_cold = (uint32_t)another();
    worker.busy_share = 0.25;
    worker.failures_count = (uint32_t)another();
    offer.expect_us = (uint32_t)another();
    offer.precision = 1;
    offer.measured = true;
    offer.error = 0.0078125;
    offer.error_mean = 0.0004882;
    offer.error_inputs = 77;
    name(offer.error_source, sizeof offer.error_source, "calibration");
    failure.version = another();
    failure.since_unix_us = another();
    failure.status = PEN_ERR_CORRUPT;
    name(failure.name, sizeof failure.name, "a bad one");
    name(failure.text, sizeof failure.text, "it is broken");
}

static void fill_trace(void)
{
    kept = (struct job_trace){
        .id = {7, 9}, .model_row = 1, .series_row = 1, .how = FINISH_FAILED, .status = PEN_ERR_DEADLINE};
    kept.attempts = (uint32_t)another();
    kept.batch = (uint32_t)another();
    fill(&kept.ended_us, 6);
    name(kept.worker, sizeof kept.worker, "a worker");
    name(kept.error, sizeof kept.error, "too late");
    snapshot->recent.rows[0] = kept;
    snapshot->recent.count = 1;
}

static void open_snapshot(void)
{
    snapshot = calloc(1, sizeof *snapshot);
    cr_assert(snapshot);
    next = 1000000;
    fill(&snapshot->stats.early_hits, sizeof snapshot->stats / sizeof(uint64_t));
    snapshot->started_us = another();
    snapshot->taken_us = snapshot->started_us + another();
    fill(&snapshot->queued, 5);
    fill(&snapshot->kept_count, 3);
    fill(&snapshot->clients_in, 4);
    snapshot->rss_bytes = another();
    snapshot->labels_mismatched = another();
    snapshot->ready = true;
    snapshot->cache.kind = "memory";
    name(snapshot->cache.state, sizeof snapshot->cache.state, "open: gone");
    fill(&snapshot->cache.bytes, 4);
    fill(&snapshot->otlp.exported, 3);
    snapshot->kept.count = another();
    fill_model();
    fill_series();
    fill_worker();
    fill_trace();
    tenant.jobs = another();
    name(tenant.name, sizeof tenant.name, "a tenant");
    fill(&tenant.bytes_in, 3);
    snapshot->usage_failures = another();
    snapshot->models = &model;
    snapshot->workers = &worker;
    snapshot->offers = &offer;
    snapshot->failures = &failure;
    snapshot->tallies = tallies;
    snapshot->series = series;
    snapshot->tenants = &tenant;
    snapshot->models_count = snapshot->workers_count = snapshot->offers_count = snapshot->failures_count =
        snapshot->tenants_count = 1;
    snapshot->tallies_count = snapshot->series_count = 2;
}

static void close_snapshot(void)
{
    free(snapshot);
}

static char *page_of(void (*write)(const struct snapshot *, struct writer *))
{
    struct writer writer = {.text = NULL};
    write(snapshot, &writer);
    writer_text(&writer, "\n");
    cr_assert(writer.text && !writer.failed);
    char *text = strdup(writer.text);
    writer_fini(&writer);
    return text;
}

struct said {
    const char *before; /* what stands before the number */
    const uint64_t *number;
};

/* Each stands there, once. */
static void expect_said(const char *page, const struct said *said, size_t count, const char *after)
{
    char line[256];
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof line, "%s%llu%s", said[i].before, (unsigned long long)*said[i].number, after);
        const char *at = strstr(page, line);
        cr_expect(at, "not there: %s", line);
        cr_expect(!at || !strstr(at + 1, line), "twice there: %s", line);
    }
}

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

Test(pages, json_has_each_number_under_its_name, .init = open_snapshot, .fini = close_snapshot)
{
    const struct stats *s = &snapshot->stats;
    const struct model_tally *t = &tallies[1];
    const uint64_t uptime_us = snapshot->taken_us - snapshot->started_us,
                   in = snapshot->clients_in + snapshot->workers_in,
                   out = snapshot->clients_out + snapshot->workers_out;
    const uint64_t ready = model.ready, rows_max = model.rows_max, slots = worker.slots, threads = worker.threads,
                   running = worker.jobs_running, warm = worker.beat.models_warm, cold = worker.beat.models_cold,
                   unserved = worker.failures_count, attempts = kept.attempts, batch = kept.batch, permille = 250;
    const uint64_t failed = metrics_sum(t->failed), rejected = metrics_sum(t->rejected);
    const struct said said[] = {
        {"\"now_us\":", &snapshot->taken_us},
        {"\"uptime_us\":", &uptime_us},
        {"\"queued\":", &snapshot->queued},
        {"\"running\":", &snapshot->running},
        {"\"clients\":", &snapshot->clients},
        {"\"admitted\":", &s->jobs_admitted},
        {"\"done\":", &s->jobs_done},
        {"\"failed\":", &s->jobs_failed},
        {"\"rejected\":", &s->jobs_rejected},
        {"\"expired\":", &s->jobs_expired},
        {"\"cancelled\":", &s->jobs_cancelled},
        {"\"requeued\":", &s->jobs_requeued},
        {"\"coalesced\":", &s->jobs_coalesced},
        {"\"workers_lost\":", &s->workers_lost},
        {"\"replies_kept\":", &snapshot->kept_count},
        {"\"bytes_in\":", &in},
        {"\"bytes_out\":", &out},
        {"\"rss_bytes\":", &snapshot->rss_bytes},
        {"\"hits\":", &s->cache_hits},
        {"\"misses\":", &s->cache_misses},
        {"\"bytes\":", &snapshot->cache.bytes},
        {"\"entries\":", &snapshot->cache.entries},
        {"\"evicted\":", &snapshot->cache.evicted},
        {"\"mismatched\":", &snapshot->cache.mismatched},
        {"\"name\":\"a model\",\"version\":", &model.version},
        {"\"queued\":", &model.queued},
        {"\"running\":", &model.running},
        {"\"ready\":", &ready},
        {"\"rows_max\":", &rows_max},
        {"\"computed\":", &t->computed},
        {"\"coalesced\":", &t->coalesced},
        {"\"cached\":", &t->cached},
        {"\"misses\":", &t->cache_misses},
        {"\"failed\":", &failed},
        {"\"cancelled\":", &t->cancelled},
        {"\"rejected\":", &rejected},
        {"\"requeued\":", &t->requeued},
        {"\"busy_us\":", &series[1].busy_us},
        {"\"measured\":", &series[1].measured},
        {"\"batch_jobs\":", &series[1].batch_jobs},
        {"\"closes\":[", &series[1].closes[0]},
        {"\"batches\":[", &series[1].batches[0]},
        {"\"slots\":", &slots},
        {"\"threads\":", &threads},
        {"\"running\":", &running},
        {"\"done\":", &worker.jobs_done},
        {"\"failed\":", &worker.jobs_failed},
        {"\"cancelled\":", &worker.jobs_cancelled},
        {"\"results_bad\":", &worker.results_bad},
        {"\"rss_bytes\":", &worker.beat.rss_bytes},
        {"\"memory_bytes\":", &worker.beat.memory_bytes},
        {"\"memory_used_bytes\":", &worker.beat.memory_used_bytes},
        {"\"busy_permille\":", &permille},
        {"\"warm\":", &warm},
        {"\"cold\":", &cold},
        {"\"unserved\":", &unserved},
        {"\"backlog_us\":", &worker.backlog_us},
        {"\"oldest_running_us\":", &worker.beat.oldest_running_us},
        {"\"age_us\":", &worker.age_us},
        {"\"last_seen_us\":", &worker.last_seen_us},
        {"\"model\":\"a bad one\",\"version\":", &failure.version},
        {"\"since_unix_us\":", &failure.since_unix_us},
        {"\"attempts\":", &attempts},
        {"\"batch\":", &batch},
        {"\"ended_us\":", &kept.ended_us},
        {"\"queue_us\":", &kept.queue_us},
        {"\"transfer_us\":", &kept.transfer_us},
        {"\"worker_us\":", &kept.worker_us},
        {"\"compute_us\":", &kept.compute_us},
        {"\"total_us\":", &kept.total_us},
    };
    static const char *const words[] = {"\"ready\":true",
                                        "\"draining\":false",
                                        "\"kind\":\"memory\"",
                                        "\"state\":\"open: gone\"",
                                        "\"host\":\"a host\"",
                                        "\"device\":\"beads\"",
                                        "\"software\":\"abacus 1\"",
                                        "\"state\":\"ready\"",
                                        "\"status\":\"CORRUPT\",\"error\":\"it is broken\"",
                                        "\"job\":\"0000000000000007-9\"",
                                        "\"how\":\"failed\",\"status\":\"DEADLINE\"",
                                        "\"error\":\"too late\""};
    char *page = page_of(metrics_json);
    for (size_t i = 0; i < LENGTH(said); i++) { /* a number ends with what is no digit */
        struct said one = said[i];
        char all[256];
        snprintf(all, sizeof all, "%s%llu", one.before, (unsigned long long)*one.number);
        const char *at = strstr(page, all);
        cr_expect(at && strchr(",}]", at[strlen(all)]), "not there: %s", all);
    }
    for (size_t i = 0; i < LENGTH(words); i++)
        cr_expect(strstr(page, words[i]), "not there: %s", words[i]);
    free(page);
}

Test(pages, metrics_have_each_total_under_its_name, .init = open_snapshot, .fini = close_snapshot)
{
    const struct stats *s = &snapshot->stats;
    const struct said said[] = {
        {"\nprocess_resident_memory_bytes ", &snapshot->rss_bytes},
        {"\npenstock_clients ", &snapshot->clients},
        {"\npenstock_queue_bytes ", &snapshot->queued_bytes},
        {"\npenstock_replies_kept ", &snapshot->kept_count},
        {"\npenstock_replies_kept_bytes ", &snapshot->kept_bytes},
        {"\npenstock_replies_dropped_total ", &snapshot->dropped_unsent},
        {"\npenstock_detached_taken_total ", &s->detached_taken},
        {"\npenstock_detached_taken_over_total ", &s->detached_again},
        {"\npenstock_detached_duplicates_total ", &s->detached_duplicates},
        {"\npenstock_bulk_chunks_received_total ", &s->chunks_in},
        {"\npenstock_bulk_chunks_sent_total ", &s->chunks_out},
        {"\npenstock_sealed_received_total ", &s->sealed_in},
        {"\npenstock_sealed_sent_total ", &s->sealed_out},
        {"\npenstock_sealed_fallbacks_total ", &s->sealed_fallbacks},
        {"\npenstock_jobs_coalesced_total ", &s->jobs_coalesced},
        {"\npenstock_early_hits_total ", &s->early_hits},
        {"\npenstock_results_duplicate_total ", &s->results_duplicate},
        {"\npenstock_results_bad_total ", &s->results_bad},
        {"\npenstock_digests_wrong_total ", &s->digests_wrong},
        {"\npenstock_workers_lost_total ", &s->workers_lost},
        {"\npenstock_clients_lost_total ", &s->clients_lost},
        {"\npenstock_load_thousandths ", &s->load},
        {"\npenstock_neighbours ", &s->neighbours},
        {"\npenstock_clients_redirected_total ", &s->clients_redirected},
        {"\npenstock_jobs_handed_total ", &s->jobs_handed},
        {"\npenstock_jobs_taken_over_total ", &s->jobs_taken_over},
        {"\npenstock_memory_refused_total ", &s->memory_refused},
        {"\npenstock_busy_waits_total ", &s->busy_waits},
        {"\npenstock_messages_bad_total ", &s->messages_bad},
        {"\npenstock_jobs_cancelled_total ", &s->jobs_cancelled},
        {"\npenstock_jobs_expired_total ", &s->jobs_expired},
        {"\npenstock_traces_kept_total ", &snapshot->kept.count},
        {"\npenstock_traces_exported_total ", &snapshot->otlp.exported},
        {"\npenstock_traces_dropped_total ", &snapshot->otlp.dropped},
        {"\npenstock_usage_write_failures_total ", &snapshot->usage_failures},
        {"\npenstock_workers_slow_total ", &s->workers_slow},
        {"\npenstock_jobs_quarantined_total ", &s->quarantined},
        {"\npenstock_quarantine_refused_total ", &s->quarantine_refused},
        {"\npenstock_hedges_total ", &s->jobs_hedged},
        {"\npenstock_hedges_won_total ", &s->hedges_won},
        {"\npenstock_cache_mismatches_total ", &snapshot->cache.mismatched},
        {"\npenstock_labels_mismatched_total ", &snapshot->labels_mismatched},
        {"\npenstock_worker_losses_total{reason=\"closed\"} ", &s->losses[LOSS_CLOSED]},
        {"\npenstock_bytes_total{peer=\"clients\",direction=\"in\"} ", &snapshot->clients_in},
        {"\npenstock_bytes_total{peer=\"clients\",direction=\"out\"} ", &snapshot->clients_out},
        {"\npenstock_bytes_total{peer=\"workers\",direction=\"in\"} ", &snapshot->workers_in},
        {"\npenstock_bytes_total{peer=\"workers\",direction=\"out\"} ", &snapshot->workers_out},
    };
    static const uint64_t one = 1, zero = 0;
    const struct said flags[] = {{"\npenstock_ready ", &one},
                                 {"\npenstock_draining ", &zero},
                                 {"\npenstock_keys_bad ", &zero},
                                 {"\npenstock_cache_breaker_open ", &one}};
    char *page = page_of(metrics_text);
    expect_said(page, said, LENGTH(said), "\n");
    expect_said(page, flags, LENGTH(flags), "\n");
    free(page);
}

Test(pages, metrics_have_each_outcome_of_a_model, .init = open_snapshot, .fini = close_snapshot)
{
    char *page = page_of(metrics_text);
    const struct model_tally *t = &tallies[1];
    char line[512];
    const struct {
        const char *outcome, *reason;
        uint64_t number;
    } rows[] = {{"done", "computed", t->computed},
                {"done", "coalesced", t->coalesced},
                {"done", "cached", t->cached},
                {"cancelled", "cancelled", t->cancelled},
                {"failed", "deadline", t->failed[PEN_ERR_DEADLINE]},
                {"rejected", "busy", t->rejected[PEN_ERR_BUSY]}};
    for (size_t i = 0; i < LENGTH(rows); i++) {
        snprintf(line, sizeof line,
                 "penstock_jobs_total{model=\"a model\",version=\"%llu\",outcome=\"%s\",reason=\"%s\"} %llu\n",
                 (unsigned long long)t->version, rows[i].outcome, rows[i].reason, (unsigned long long)rows[i].number);
        cr_expect(strstr(page, line), "not there: %s", line);
    }
    free(page);
}

/* ---- the form of Prometheus' text ---- */

/* A sample of a family that was declared before it. */
static void check_sample(const char *line, const char *family)
{
    const char *at = sample_behind_labels(line + sample_name_of(line));
    char *end = NULL;
    cr_assert(at && *at == ' ' && sample_name_of(line) > 0, "%s", line);
    double value = strtod(at + 1, &end);
    cr_expect(end > at + 1 && *end == '\0' && value >= 0, "%s", line);
    cr_expect(strncmp(line, family, strlen(family)) == 0, "%s is behind the family %s", line, family);
}

Test(pages, metrics_have_the_form_of_prometheus, .init = open_snapshot, .fini = close_snapshot)
{
    struct writer writer = {.text = NULL};
    char family[128] = "", *rest;
    metrics_text(snapshot, &writer);
    writer_text(&writer, "");
    char *copy = strndup(writer.text, writer.used);
    size_t samples = 0, families = 0;
    cr_expect_eq(copy[writer.used - 1], '\n');
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            cr_expect_gt(strlen(line + 7 + sample_name_of(line + 7)), 10u, "%s", line);
            snprintf(family, sizeof family, "%.*s", (int)sample_name_of(line + 7), line + 7);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            const char *type = line + 7 + sample_name_of(line + 7);
            cr_expect(strncmp(line + 7, family, strlen(family)) == 0, "%s", line);
            cr_expect(strcmp(type, " counter") == 0 || strcmp(type, " gauge") == 0 || strcmp(type, " histogram") == 0,
                      "%s", line);
            families++;
        } else {
            check_sample(line, family);
            samples++;
        }
    }
    cr_expect(families > 30 && samples > 100, "%zu %zu", families, samples);
    free(copy);
    writer_fini(&writer);
}

/* ---- whole pages ---- */

/* `text` with `word` in the place of each `from`. */
static char *replaced(const char *text, const char *from, const char *word)
{
    char *out = calloc(1, strlen(text) * (1 + strlen(word)) + 1), *to = out;
    for (const char *at = text; *at;) {
        bool here = strncmp(at, from, strlen(from)) == 0;
        size_t bytes = here ? strlen(word) : 1;
        memcpy(to, here ? word : at, bytes);
        to += bytes;
        at += here ? strlen(from) : 1;
    }
    return out;
}

/* The page is the one in pages/. PENSTOCK_UPDATE_PAGES=1 writes it there instead: read the difference before you keep it. */
static void expect_whole(const char *file, const char *page)
{
    char path[512];
    size_t size;
    char *any = replaced(page, version_build(), "BUILD"), *plain = replaced(any, PENSTOCK_SOFTWARE, "SOFTWARE"),
         *now = replaced(plain, "version=\"" PENSTOCK_VERSION "\"", "version=\"VERSION\"");
    snprintf(path, sizeof path, "%s/tests/broker/pages/%s", PENSTOCK_SOURCE, file);
    if (getenv("PENSTOCK_UPDATE_PAGES"))
        file_write(path, now, strlen(now));
    char *was = file_read(path, &size);
    size_t same = 0;
    while (was[same] && was[same] == now[same])
        same++;
    cr_expect(strcmp(was, now) == 0,
              "%s is another page from here on: %.80s, not %.80s (PENSTOCK_UPDATE_PAGES=1 writes it)", file, now + same,
              was + same);
    free(was);
    free(any);
    free(now);
    free(plain);
}

static void fill_histograms(struct series_tally *s)
{
    struct histogram *const all[] = {&s->queue, &s->transfer, &s->compute, &s->total, &s->error};
    for (size_t i = 0; i < LENGTH(all); i++) {
        *all[i] = (struct histogram){.sum_us = 0};
        for (uint64_t us = 10 + i; us < 100000000; us *= 2 + i)
            histogram_add(all[i], us);
    }
}

Test(pages, metrics_and_state_are_whole, .init = open_snapshot, .fini = close_snapshot)
{
    fill_histograms(&series[1]);
    series[1].busy_rate = 1.75;
    offer.busy = true;
    failure.serving = true;
    snapshot->draining = snapshot->keys_bad = true;
    snapshot->unix_offset_us = 1700000000000000;
    name(worker.name, sizeof worker.name, "a \"worker\"\n\\");
    char *metrics = page_of(metrics_text), *state = page_of(metrics_json);
    char *time = strstr(metrics, "process_cpu_seconds_total 0.");
    cr_assert_not_null(time, "this process has worked for less than a second");
    memmove(time, time + strcspn(time, "\n"), strlen(time + strcspn(time, "\n")) + 1);
    expect_whole("metrics.txt", metrics);
    expect_whole("state.json", state);
    free(metrics);
    free(state);
}

/* JSON has no infinity, Prometheus has; what nobody has measured has no line. */
Test(pages, errors_without_a_number_are_told_as_such, .init = open_snapshot, .fini = close_snapshot)
{
    static const char line[] = "penstock_model_error_max_ratio{";
    offer.error = offer.error_mean = INFINITY;
    char *metrics = page_of(metrics_text), *state = page_of(metrics_json);
    cr_expect(strstr(metrics, line) && strstr(strstr(metrics, line), "} +Inf\n"));
    cr_expect(strstr(state, ",[\"calibration\",null,null,"));
    free(metrics);
    free(state);
    offer.measured = false;
    for (int measures = 0; measures < 2; measures++) {
        offer.measures = measures != 0;
        metrics = page_of(metrics_text);
        state = page_of(metrics_json);
        cr_expect_null(strstr(metrics, line));
        cr_expect(strstr(state, measures ? ",\"f32\",\"measuring\"]" : ",\"f32\",null]"), "%s",
                  strstr(state, "\"f32\""));
        free(metrics);
        free(state);
    }
}

static struct trace_layers *layers_of(uint32_t count)
{
    struct trace_layers *layers = calloc(1, sizeof *layers + count * sizeof layers->rows[0]);
    atomic_init(&layers->users, 1);
    layers->count = count;
    for (uint32_t i = 0; i < count; i++) {
        snprintf(layers->rows[i].name, sizeof layers->rows[i].name, "layer %u", i);
        snprintf(layers->rows[i].op, sizeof layers->rows[i].op, "Conv%u", i);
        name(layers->rows[i].backend, sizeof layers->rows[i].backend, "abacus");
        layers->rows[i].us = 10 + i;
    }
    return layers;
}

/* A job with all that a trace can have. */
static void fill_rich_trace(struct trace_layers *layers)
{
    struct job_trace *rich = &snapshot->recent.rows[1];
    *rich = (struct job_trace){.id = {7, 10},
                               .model_row = 1,
                               .series_row = 1,
                               .how = FINISH_COMPUTED,
                               .attempts = 3,
                               .batch = 4,
                               .reason = CLOSE_DELAY};
    rich->ended_us = snapshot->taken_us - 1000;
    rich->queue_us = 400;
    rich->transfer_us = 90;
    rich->worker_us = 500;
    rich->compute_us = 300;
    rich->total_us = 1200;
    rich->client_us = 70;
    rich->lookup_us = 60;
    rich->wait_us = 50;
    rich->gather_us = 40;
    rich->split_us = 30;
    name(rich->worker, sizeof rich->worker, "a worker");
    rich->layers = layers;
    rich->note.wish = 2;
    cr_assert(trace_context_parse("00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01", &rich->note.context));
    trace_note_attempt(&rich->note, "first", 10, 20);
    trace_note_attempt(&rich->note, "second", 30, 45);
    snapshot->recent.count = 2;
}

Test(pages, traces_are_whole_in_each_form, .init = open_snapshot, .fini = close_snapshot)
{
    static const char *const questions[][2] = {
        {"recent", "recent.json"}, {"recent.chrome", "chrome.json"}, {"recent.otlp", "otlp.json"}};
    struct trace_layers *layers = layers_of(3);
    snapshot->unix_offset_us = 1700000000000000;
    fill_rich_trace(layers);
    for (size_t i = 0; i < LENGTH(questions); i++) {
        struct writer writer = {.text = NULL};
        struct pen_error error = {.status = PEN_OK};
        cr_assert_eq(trace_answer(snapshot, questions[i][0], &writer, &error), PEN_OK, "%s", error.text);
        writer_text(&writer, "\n");
        expect_whole(questions[i][1], writer.text);
        writer_fini(&writer);
    }
    trace_layers_release(layers);
}
