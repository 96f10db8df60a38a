/* Histograms, rows and their caps, what a job leaves behind in the numbers, and the text of it all. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "desk.h"
#include "histogram.h"
#include "metrics_json.h"
#include "metrics_post.h"
#include "metrics_text.h"
#include "meta_fields.h"
#include "patch.h"
#include "process.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 3,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .max_batch = 8,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

/* ---- histograms ---- */

Test(histogram, a_time_on_a_bound_counts_below_it)
{
    struct histogram h = {.sum_us = 0};
    histogram_add(&h, 0);
    histogram_add(&h, 20);
    histogram_add(&h, 21);
    histogram_add(&h, 60000000);
    histogram_add(&h, 60000001);
    cr_expect_eq(h.counts[0], 2);
    cr_expect_eq(h.counts[1], 1);
    cr_expect_eq(h.counts[HISTOGRAM_BOUNDS - 1], 1);
    cr_expect_eq(h.counts[HISTOGRAM_BOUNDS], 1);
    cr_expect_eq(histogram_count(&h), 5);
    cr_expect_eq(h.sum_us, 120000042);
}

Test(histogram, every_time_falls_into_the_bucket_of_its_bounds)
{
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram h = {.sum_us = 0};
        histogram_add(&h, histogram_bound_us(i));
        histogram_add(&h, histogram_bound_us(i) + 1);
        cr_expect_eq(h.counts[i], 1, "bound %zu", i);
        cr_expect_eq(h.counts[i + 1], 1, "bound %zu", i);
        cr_expect(i == 0 || histogram_bound_us(i) > histogram_bound_us(i - 1));
    }
}

Test(histogram, merging_is_adding_both)
{
    struct histogram a = {.sum_us = 0}, b = {.sum_us = 0}, both = {.sum_us = 0};
    for (uint64_t us = 1; us < 3000000; us = us * 5 / 3 + 1) {
        histogram_add(us % 2 ? &a : &b, us);
        histogram_add(&both, us);
    }
    histogram_merge(&a, &b);
    cr_expect_arr_eq(a.counts, both.counts, sizeof a.counts);
    cr_expect_eq(a.sum_us, both.sum_us);
}

Test(histogram, quantiles_lie_within_their_bucket)
{
    struct histogram h = {.sum_us = 0};
    cr_expect_eq(histogram_quantile_us(&h, 0.5), 0);
    for (int i = 0; i < 90; i++)
        histogram_add(&h, 900);
    for (int i = 0; i < 10; i++)
        histogram_add(&h, 45000);
    uint64_t median = histogram_quantile_us(&h, 0.5), p99 = histogram_quantile_us(&h, 0.99);
    cr_expect(median > 700 && median <= 1000, "%llu", (unsigned long long)median);
    cr_expect(p99 > 30000 && p99 <= 50000, "%llu", (unsigned long long)p99);
}

/* ---- rows ---- */

Test(metrics, rows_are_found_again_and_bounded)
{
    struct metrics *m = metrics_new(0);
    char name[32];
    struct model_tally *first = metrics_model(m, "a", 1);
    cr_assert_eq(metrics_model(m, "a", 1), first);
    cr_assert_neq(metrics_model(m, "a", 2), first);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "model-%d", i);
        struct model_tally *model = metrics_model(m, name, 1);
        for (int k = 0; k < 8; k++) {
            snprintf(name, sizeof name, "backend-%d", k);
            cr_assert_not_null(metrics_series(m, model, name, PRECISION_F32));
        }
    }
    cr_expect_eq(m->models_count, METRICS_MODELS_MAX + 1);
    cr_expect_leq(m->series_count, METRICS_SERIES_MAX + 1);
    cr_expect_eq(metrics_model(m, "one more", 1), &m->models[0], "it counts as other");
    cr_expect_eq(metrics_model(m, "a", 1), first, "known ones keep their row");
    for (uint32_t i = 0; i < 1000; i++)
        metrics_tenant(m, i, "t")->jobs++;
    cr_expect_eq(m->tenants_count, METRICS_TENANTS_MAX + 1);
    cr_expect_eq(m->tenants[0].jobs, 1000 - METRICS_TENANTS_MAX);
    metrics_free(m);
}

Test(metrics, slow_jobs_stay_for_ten_minutes_and_the_slowest_win)
{
    struct metrics *m = metrics_new(0);
    struct model_tally *model = metrics_model(m, "a", 1);
    for (uint64_t i = 1; i <= 100; i++) {
        struct job_trace trace = {.id = {1, i}, .total_us = i * 10, .ended_us = 1000000};
        metrics_end(m, model, NULL, &trace, false);
    }
    for (unsigned i = 0; i < METRICS_TRACES; i++)
        cr_expect_gt(m->slow.rows[i].total_us, (100 - METRICS_TRACES) * 10);
    metrics_beat(m, 500000000);
    cr_expect_gt(m->slow_floor_us, 0);
    metrics_beat(m, 700000000);
    cr_expect_eq(m->slow_floor_us, 0, "all are gone");
    cr_expect_eq(model->computed, 100);
    metrics_free(m);
}

Test(metrics, demand_follows_load_and_backlog)
{
    cr_expect_eq(demand_workers(0, 0, 1), 0);
    cr_expect_eq(demand_workers(0.5, 0, 1), 1);
    cr_expect_eq(demand_workers(0.7, 0, 1), 1);
    cr_expect_eq(demand_workers(0.8, 0, 1), 2, "more than 70 %% busy");
    cr_expect_eq(demand_workers(7, 0, 4), 3);
    cr_expect_eq(demand_workers(0, 100000000, 1), 10, "100 s of work in 10 s");
}

Test(metrics, busy_rate_approaches_the_load)
{
    struct metrics *m = metrics_new(0);
    struct series_tally *series = metrics_series(m, metrics_model(m, "a", 1), "x", PRECISION_F32);
    for (uint64_t second = 1; second <= 60; second++) {
        series_batch(series, 1, CLOSE_SINGLE);
        series_run(series, 1, 100, 500000);
        metrics_beat(m, second * 1000000);
    }
    cr_expect(series->busy_rate > 0.48 && series->busy_rate < 0.51, "%f", series->busy_rate);
    metrics_free(m);
}

/* ---- what a job leaves behind ---- */

static struct desk *desk_with_worker(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 1,
                &(struct wire_worker){.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1});
    desk_client(desk, 2, 0xC);
    return desk;
}

static char *text_of(struct desk *desk, void (*write)(const struct snapshot *, struct writer *))
{
    struct writer writer = {.text = NULL};
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    cr_assert_not_null(snapshot);
    write(snapshot, &writer);
    cr_assert_not(writer.failed);
    snapshot_free(snapshot);
    return writer.text;
}

static bool has(struct desk *desk, const char *line)
{
    char *text = text_of(desk, metrics_text);
    bool found = strstr(text, line) != NULL;
    if (!found)
        fprintf(stderr, "%s\nis missing in\n%s\n", line, text);
    free(text);
    return found;
}

Test(numbers, stages_of_a_job_are_those_of_the_clock)
{
    struct desk *desk = desk_with_worker();
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 1}, .model = "echo"});
    desk_run(desk);
    desk_wait(desk, 4000);
    desk_result_status(desk, 1, (struct job_id){0xC, 1}, PEN_OK, 2500);
    const struct series_tally *series = &desk->broker.metrics->series[1];
    cr_assert_eq(desk->broker.metrics->series_count, 2);
    cr_expect_str_eq(series->backend, "xnnpack");
    cr_expect_eq(series->model->version, 3);
    cr_expect_eq(series->queue.sum_us, 0);
    cr_expect_eq(series->compute.sum_us, 2500);
    cr_expect_eq(series->total.sum_us, 4000);
    cr_expect_eq(series->error.sum_us, 2400, "100 us were expected");
    cr_expect_eq(series->busy_us, 2500);
    cr_expect(has(desk, "penstock_stage_seconds_sum{model=\"echo\",version=\"3\",backend=\"xnnpack\",precision=\"f32\","
                        "stage=\"total\"} 0.004\n"));
    cr_expect(has(desk, "penstock_prediction_error_seconds_sum{model=\"echo\",version=\"3\",backend=\"xnnpack\","
                        "precision=\"f32\"} 0.0024\n"));
    cr_expect(has(desk, "penstock_jobs_total{model=\"echo\",version=\"3\",outcome=\"done\",reason=\"computed\"} 1\n"));
    cr_expect(has(desk, "penstock_tenant_jobs_total{tenant=\"default\"} 1\n"));
    cr_expect(has(desk, "penstock_tenant_compute_seconds_total{tenant=\"default\"} 0.0025\n"));
    desk_free(desk);
}

Test(numbers, what_detached_jobs_chunks_and_early_answers_were_is_told)
{
    struct desk *desk = desk_with_worker();
    struct stats *stats = &desk->broker.stats;
    stats->detached_taken = 31;
    stats->detached_again = 32;
    stats->detached_duplicates = 33;
    stats->chunks_in = 34;
    stats->chunks_out = 35;
    stats->early_hits = 36;
    stats->sealed_in = 37;
    stats->sealed_out = 38;
    stats->sealed_fallbacks = 39;
    cr_expect(has(desk, "penstock_detached_taken_total 31\n"));
    cr_expect(has(desk, "penstock_detached_taken_over_total 32\n"));
    cr_expect(has(desk, "penstock_detached_duplicates_total 33\n"));
    cr_expect(has(desk, "penstock_bulk_chunks_received_total 34\n"));
    cr_expect(has(desk, "penstock_bulk_chunks_sent_total 35\n"));
    cr_expect(has(desk, "penstock_early_hits_total 36\n"));
    cr_expect(has(desk, "penstock_sealed_received_total 37\n"));
    cr_expect(has(desk, "penstock_sealed_sent_total 38\n"));
    cr_expect(has(desk, "penstock_sealed_fallbacks_total 39\n"));
    desk_free(desk);
}

Test(numbers, hits_followers_and_errors_have_their_own_reasons)
{
    struct desk *desk = desk_with_worker();
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 1}, .model = "echo", .fill = 1});
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 2}, .model = "echo", .fill = 1});
    desk_run(desk);
    desk_result(desk, 1, (struct job_id){0xC, 1}, 2, 7);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 3}, .model = "echo", .fill = 1});
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 4}, .model = "echo", .fill = 5, .deadline_us = 1000});
    desk_wait(desk, 2000);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 5}, .model = "made-up"});
    cr_expect(has(desk, "outcome=\"done\",reason=\"computed\"} 1\n"));
    cr_expect(has(desk, "outcome=\"done\",reason=\"coalesced\"} 1\n"));
    cr_expect(has(desk, "outcome=\"done\",reason=\"cached\"} 1\n"));
    cr_expect(
        has(desk, "penstock_jobs_total{model=\"echo\",version=\"3\",outcome=\"failed\",reason=\"deadline\"} 1\n"));
    cr_expect(
        has(desk, "penstock_jobs_total{model=\"other\",version=\"0\",outcome=\"rejected\",reason=\"not_found\"} 1\n"));
    cr_expect(has(desk, "penstock_model_cache_hits_total{model=\"echo\",version=\"3\"} 1\n"));
    char *json = text_of(desk, metrics_json);
    cr_expect_not_null(strstr(json, "\"job\":\"000000000000000c-4\""), "the failed job is among the errors: %s", json);
    cr_expect_not_null(strstr(json, "\"how\":\"rejected\",\"status\":\"NOT_FOUND\""));
    free(json);
    desk_free(desk);
}

/* As a worker tells it that composed a batch behind its decoders. */
static void composed_result(struct desk *desk, uint64_t job, uint64_t compute_us, uint64_t jobs, uint64_t rows,
                            uint64_t place)
{
    uint8_t meta[WIRE_META_BYTES + PATCH_BYTES_MAX];
    struct envelope env = envelope_make(FRAME_RESULT);
    struct patch more = {.used = 0};
    env.job = (struct job_id){0xC, job};
    size_t bytes = wire_result(meta, 1, "xnnpack", PRECISION_F32, compute_us, NULL);
    patch_number(&more, RESULT_META_BATCH_SIZE, jobs);
    patch_number(&more, RESULT_META_BATCH_ROWS, rows);
    patch_number(&more, RESULT_META_BATCH_PLACE, place);
    memcpy(meta + bytes, more.bytes, more.used);
    desk_say_worker(desk, 1, env, meta, bytes + more.used);
}

/* The dispatches are of one job and of two; the worker runs the first with one of the second, and the last alone. */
Test(numbers, a_batch_of_two_dispatches_is_one_run)
{
    struct desk *desk = desk_with_worker();
    for (uint64_t i = 1; i <= 3; i++)
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i}, .model = "echo", .fill = (uint8_t)i, .no_cache = true});
    desk_run(desk);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    composed_result(desk, 1, 600, 2, 2, 0);
    composed_result(desk, 2, 600, 2, 2, 1);
    Penstock__ResultMeta *told = sent_result(desk_next(&desk->clients, FRAME_RESULT));
    cr_expect_eq(told->batch_size, 2, "the client is told what ran together");
    penstock__result_meta__free_unpacked(told, NULL);
    desk_wait(desk, 1000);
    composed_result(desk, 3, 400, 1, 1, 0);
    const struct series_tally *series = &desk->broker.metrics->series[1];
    cr_expect(series->runs[0] == 1 && series->runs[1] == 1 && series->run_jobs == 3);
    cr_expect_eq(series->busy_us, 1000, "each run counts once");
    cr_expect(has(desk, "penstock_tenant_compute_seconds_total{tenant=\"default\"} 0.001\n"),
              "half of 600 twice, and 400");
    cr_expect(
        has(desk, "penstock_run_jobs_sum{model=\"echo\",version=\"3\",backend=\"xnnpack\",precision=\"f32\"} 3\n"));
    cr_expect(
        has(desk, "penstock_run_jobs_count{model=\"echo\",version=\"3\",backend=\"xnnpack\",precision=\"f32\"} 2\n"));
    desk_free(desk);
}

Test(numbers, a_worker_that_tells_nonsense_of_its_batch_is_held_to_what_it_may_run)
{
    struct desk *desk = desk_with_worker();
    for (uint64_t i = 1; i <= 2; i++) {
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i}, .model = "echo", .fill = (uint8_t)i, .no_cache = true});
        desk_run(desk);
        composed_result(desk, i, 600, UINT64_MAX, i == 1 ? UINT64_MAX : 1, 0);
    }
    const struct series_tally *series = &desk->broker.metrics->series[1];
    cr_expect_leq(series->run_jobs, 2 * echo.max_batch);
    cr_expect_eq(series->busy_us, 1200);
    desk_free(desk);
}

Test(numbers, batches_have_sizes_and_reasons)
{
    struct desk *desk = desk_with_worker();
    for (uint64_t i = 1; i <= 8; i++)
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i}, .model = "echo", .fill = (uint8_t)i, .no_cache = true});
    for (struct sent *out; (out = desk_next(&desk->workers, FRAME_SUBMIT)) != NULL;) {
        for (size_t i = 0; i < sent_groups(out); i++)
            desk_result(desk, 1, sent_job(out, i), 0, 1);
    }
    const struct series_tally *series = &desk->broker.metrics->series[1];
    uint64_t batches = 0, closes = 0;
    for (unsigned i = 0; i < METRICS_BATCH_SIZES; i++)
        batches += series->batches[i];
    for (unsigned i = 0; i < CLOSE_COUNT; i++)
        closes += series->closes[i];
    cr_expect_gt(batches, 0);
    cr_expect_eq(batches, closes);
    cr_expect_eq(series->batch_jobs, 8);
    desk_free(desk);
}

/* Models beyond the list have one line together. */
Test(numbers, gauges_of_more_models_than_have_lines_are_summed)
{
    static struct model_row rows[METRICS_MODELS_MAX + 2];
    static struct model_tally tally;
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    cr_assert_not_null(snapshot);
    for (size_t i = 0; i < METRICS_MODELS_MAX + 2; i++) {
        snprintf(rows[i].name, sizeof rows[i].name, "m%zu", i);
        rows[i].version = 1;
        rows[i].queued = 1000 + i;
    }
    snprintf(tally.name, sizeof tally.name, "other");
    snapshot->models = rows;
    snapshot->tallies = &tally;
    snapshot->cache.kind = "none";
    for (uint32_t more = 0; more < 3; more++) {
        struct writer writer = {.text = NULL};
        char first[96], rest[96];
        snapshot->models_count = METRICS_MODELS_MAX + more;
        metrics_text(snapshot, &writer);
        writer_text(&writer, "");
        snprintf(first, sizeof first, "{model=\"m%u\",version=\"1\"} %u\n", METRICS_MODELS_MAX - 1,
                 1000 + METRICS_MODELS_MAX - 1);
        snprintf(rest, sizeof rest, "{model=\"other\",version=\"0\"} %u\n",
                 more * (1000 + METRICS_MODELS_MAX) + (more == 2));
        cr_expect(strstr(writer.text, first), "%u more: %s", more, first);
        cr_expect_eq(strstr(writer.text, rest) != NULL, more > 0, "%u more: %s", more, rest);
        writer_fini(&writer);
    }
    free(snapshot);
}

Test(numbers, clients_cannot_make_labels)
{
    struct desk *desk = desk_with_worker();
    char name[64], tenant[32];
    char *before = text_of(desk, metrics_text);
    size_t lines = strlen(before);
    for (uint32_t i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "made-up-%u\"} 1\npenstock_x{y=\"", i);
        snprintf(tenant, sizeof tenant, "tenant-%u", i);
        uint8_t meta[WIRE_META_BYTES];
        desk_say_client(desk, 10 + i, envelope_make(FRAME_CLIENT_HELLO), meta,
                        wire_client_hello(meta, 0x100 + i, tenant, 0), 0);
        desk_submit(desk, 10 + i, &(struct wire_job){.id = {0x100 + i, 1}, .model = name});
        desk_submit(desk, 10 + i, &(struct wire_job){.id = {0x100 + i, 2}, .model = "echo", .fill = 1});
    }
    char *text = text_of(desk, metrics_text);
    cr_expect_null(strstr(text, "made-up"));
    size_t tenants = 0;
    for (const char *at = text; (at = strstr(at, "penstock_tenant_jobs_total{")); at++)
        tenants++;
    cr_expect_leq(tenants, METRICS_TENANTS_MAX + 1);
    cr_expect_lt(strlen(text), lines + 64 * 1024);
    free(before);
    free(text);
    desk_free(desk);
}

Test(numbers, names_of_workers_cannot_break_out_of_a_label)
{
    struct desk *desk = desk_new();
    struct wire_model evil = echo;
    evil.name = "a\"b\\c\nd\xff\x01";
    desk_open(desk);
    desk_worker(desk, 1,
                &(struct wire_worker){.uuid = 5, .name = "w\"\n", .slots = 1, .models = &evil, .models_count = 1});
    cr_expect(has(desk, "penstock_model_workers{model=\"a\\\"b\\\\c\\nd??\",version=\"3\"} 1\n"));
    cr_expect(has(desk, "worker=\"w\\\"?\""), "the broker has cleaned it");
    desk_free(desk);
}

Test(numbers, readiness_ends_with_the_last_worker_and_with_drain)
{
    struct desk *desk = desk_with_worker();
    struct snapshot *s = snapshot_take(&desk->broker);
    cr_expect(s->ready);
    cr_expect_eq(snapshot_model(s, "echo", 0)->ready, 1);
    cr_expect_eq(snapshot_model(s, "echo", 3)->ready, 1);
    cr_expect_null(snapshot_model(s, "echo", 4));
    cr_expect_null(snapshot_model(s, "nothing", 0));
    snapshot_free(s);
    desk_wait(desk, 1700000); /* silent for longer than a heartbeat and a half */
    s = snapshot_take(&desk->broker);
    cr_expect_not(s->ready, "a silent worker is no capable one");
    cr_expect_str_eq(s->workers[0].state, "suspect");
    snapshot_free(s);
    desk_wait(desk, 1000000);
    s = snapshot_take(&desk->broker);
    cr_expect_eq(s->workers_count, 0);
    cr_expect_not(s->ready);
    snapshot_free(s);
    desk_free(desk);
}

/* The loop pays for the copy, an HTTP thread for the text. */
Test(numbers, pool_of_200_workers_and_50_models_is_told_soon, .timeout = 60)
{
    static char names[50][16], workers[200][16];
    struct wire_model models[50];
    struct desk *desk = desk_new();
    desk_open(desk);
    for (unsigned i = 0; i < 50; i++) {
        snprintf(names[i], sizeof names[i], "model-%u", i);
        models[i] = echo;
        models[i].name = names[i];
    }
    for (unsigned i = 0; i < 200; i++) {
        snprintf(workers[i], sizeof workers[i], "worker-%u", i);
        desk_worker(desk, 100 + i,
                    &(struct wire_worker){
                        .uuid = 1000 + i, .name = workers[i], .slots = 1, .models = models, .models_count = 50});
    }
    desk_client(desk, 2, 0xC);
    for (uint64_t i = 0; i < 50; i++)
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i + 1}, .model = names[i], .no_cache = true});
    for (uint64_t i = 0; i < 50; i++) {
        for (uint32_t worker = 0; worker < 200; worker++)
            desk_result(desk, 100 + worker, (struct job_id){0xC, i + 1}, 1, 1);
    }
    cr_expect_eq(desk->broker.metrics->models[1].computed, 1);
    uint64_t start_us = support_now_us();
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    uint64_t taken_us = support_now_us();
    struct writer text = {.text = NULL}, json = {.text = NULL};
    metrics_text(snapshot, &text);
    uint64_t text_us = support_now_us();
    metrics_json(snapshot, &json);
    uint64_t json_us = support_now_us();
    printf("snapshot_us=%llu text_us=%llu text_bytes=%zu json_us=%llu json_bytes=%zu\n",
           (unsigned long long)(taken_us - start_us), (unsigned long long)(text_us - taken_us), text.used,
           (unsigned long long)(json_us - text_us), json.used);
    cr_expect_eq(snapshot->offers_count, 200 * 50);
    if (!getenv("PENSTOCK_SLOW")) /* some 10 ms where nothing else runs */
        cr_expect_lt(text_us - start_us, 500000u);
    writer_fini(&text);
    writer_fini(&json);
    snapshot_free(snapshot);
    desk_free(desk);
}

/* ---- the beat ---- */

static uint64_t post_now_us = 5000000;

static uint64_t post_clock(void)
{
    return post_now_us;
}

Test(post, silence_grows_without_a_beat)
{
    struct post *post = post_new(post_clock);
    cr_expect_eq(post_silence_us(post), 0);
    post_now_us += POST_WEDGED_US;
    cr_expect_geq(post_silence_us(post), POST_WEDGED_US);
    post_beat(post, post_now_us);
    cr_expect_eq(post_silence_us(post), 0);
    post_free(post);
}

Test(post, wish_times_out_when_no_loop_answers_and_closing_wakes)
{
    struct post *post = post_new(post_clock);
    struct snapshot *snapshot = NULL;
    cr_expect_eq(post_get(post, 0, 20000, &snapshot), PEN_ERR_TIMEOUT);
    post_close(post);
    cr_expect_eq(post_get(post, 0, 20000, &snapshot), PEN_ERR_CANCELLED);
    cr_expect_not(post_sleep(post, 10000000));
    post_free(post);
}

Test(post, snapshot_is_shared_while_it_is_fresh)
{
    struct desk *desk = desk_with_worker();
    struct post *post = post_new(desk->broker.clock);
    struct snapshot *first = NULL, *second = NULL;
    cr_expect_eq(post_get(post, 0, 1000, &first), PEN_ERR_TIMEOUT, "the wish is made");
    post_serve(post, &desk->broker);
    cr_assert_eq(post_get(post, 100000, 1000, &first), PEN_OK);
    cr_assert_eq(post_get(post, 100000, 1000, &second), PEN_OK);
    cr_expect_eq(first, second);
    post_release(post, second);
    desk_wait(desk, 200000);
    cr_expect_eq(post_get(post, 100000, 1000, &second), PEN_ERR_TIMEOUT, "too old");
    post_serve(post, &desk->broker);
    cr_assert_eq(post_get(post, 100000, 1000, &second), PEN_OK);
    cr_expect_neq(first, second);
    post_release(post, first);
    post_withhold(post, second);
    cr_expect_eq(post_get(post, 100000, 1000, &first), PEN_ERR_TIMEOUT, "one that is withheld is shared no more");
    post_release(post, second);
    post_free(post);
    desk_free(desk);
}

Test(numbers, each_reason_of_a_batch_has_a_name_of_its_own)
{
    cr_expect_str_empty(close_reason_name(CLOSE_NONE));
    for (unsigned i = CLOSE_NONE + 1; i < CLOSE_REASONS; i++) {
        cr_expect_str_not_empty(close_reason_name((enum close_reason)i));
        for (unsigned k = 0; k < i; k++)
            cr_expect_str_neq(close_reason_name((enum close_reason)i), close_reason_name((enum close_reason)k));
    }
    cr_expect_eq(CLOSE_COUNT, 9, "places of the metrics' JSON: appended to, never moved");
    cr_expect_str_eq(close_reason_name(CLOSE_FIRST), "single");
    cr_expect_str_eq(close_reason_name(CLOSE_LAST), "hedge");
}
