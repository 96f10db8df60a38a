/* The copy of the broker's state that pages are made of: each field is that of its record; questions to it; and the pages that ask them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "departure.h"
#include "desk.h"
#include "http_page.h"
#include "metrics_snapshot.h"

enum { WORKER = 900, OTHER = 901, CLIENT = 1 };

static const struct wire_model served[] = {{.name = "good",
                                            .version = 1,
                                            .backend = "reference",
                                            .precision = PRECISION_F32,
                                            .warm_us = 100,
                                            .digest = 1,
                                            .dim = 4,
                                            .max_batch = 8},
                                           {.name = "good",
                                            .version = 3,
                                            .backend = "reference",
                                            .precision = PRECISION_F32,
                                            .warm_us = 7000,
                                            .digest = 3,
                                            .dim = 4}};

static struct desk *desk;

static void begin(void)
{
    desk = desk_new();
    desk->options.restart_wait_us = 0;
    desk->options.trace_keep = 4;
    desk_open(desk);
    desk_client(desk, CLIENT, 77);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(snapshot, .init = begin, .fini = end);

static void add_worker(uint32_t peer, const char *name, size_t models, uint32_t slots)
{
    desk_worker(
        desk, peer,
        &(struct wire_worker){.uuid = peer, .name = name, .slots = slots, .models = served, .models_count = models});
}

static void submit(uint64_t sequence)
{
    desk_submit(desk, CLIENT,
                &(struct wire_job){.id = {77, sequence}, .model = "good", .version = 1, .no_digest = true});
}

/* ---- each field ---------------------------------------------------------------------------------------------------------- */

static void heartbeat(uint64_t busy_us)
{
    uint8_t meta[WIRE_META_BYTES];
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    beat.slots_busy = 11;
    beat.rss_bytes = 12;
    beat.compute_us = busy_us;
    beat.oldest_running_us = 14;
    beat.queued = 15;
    beat.cpu_us = 16;
    beat.device_memory_bytes = 17;
    beat.device_memory_used_bytes = 18;
    beat.models_cold = 19;
    beat.models_loaded = 20;
    beat.models_evicted = 21;
    beat.models_warm = 22;
    desk_say_worker(desk, WORKER, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
}

static void expect_beat(const struct worker_beat *beat)
{
    cr_expect(beat->slots_busy == 11 && beat->rss_bytes == 12 && beat->oldest_running_us == 14);
    cr_expect(beat->queued == 15 && beat->cpu_us == 16 && beat->memory_bytes == 17 && beat->memory_used_bytes == 18);
    cr_expect(beat->models_cold == 19 && beat->models_loaded == 20 && beat->models_evicted == 21 &&
              beat->models_warm == 22);
}

Test(snapshot, a_workers_row_is_what_it_said_and_did)
{
    add_worker(WORKER, "one", 1, 4);
    heartbeat(1000000);
    desk_wait(desk, 200000);
    heartbeat(1400000);
    struct worker *worker = fleet_by_peer(&desk->broker.fleet, WORKER);
    worker->jobs_done = 31;
    worker->jobs_failed = 32;
    worker->jobs_cancelled = 33;
    worker->results_bad = 34;
    worker->failures_count = 35;
    submit(1);
    desk_wait(desk, 100000);
    struct snapshot *s = snapshot_take(&desk->broker);
    const struct worker_row *row = &s->workers[0];
    cr_assert(s->workers_count == 1 && s->offers_count == 1);
    cr_expect(strcmp(row->name, "one") == 0 && row->uuid == WORKER && row->slots == 4 && row->offers == 1);
    cr_expect(strcmp(row->host, worker->hello->host) == 0 && strcmp(row->backend, worker->hello->backend) == 0);
    cr_expect(strcmp(row->device, worker->hello->device) == 0 && strcmp(row->software, worker->hello->software) == 0);
    cr_expect_eq(row->threads, worker->hello->threads);
    cr_expect(row->jobs_running == 1 && row->jobs_done == 31 && row->jobs_failed == 32 && row->jobs_cancelled == 33);
    cr_expect(row->results_bad == 34 && row->failures_count == 35);
    expect_beat(&row->beat);
    cr_expect_eq(row->beat.compute_us, 1400000u);
    double weight = 1 - exp(-0.2 / 15); /* of 0.2 s in a mean over 15 s */
    cr_expect(fabs(row->busy_share - 0.5 * weight) < 1e-9, "2 of 4 slots: %f", row->busy_share);
    cr_expect_eq(row->age_us, 300000u);
    cr_expect_eq(row->last_seen_us, 100000u);
    cr_expect_gt(row->backlog_us, 0u);
    cr_expect_eq(s->offers[0].worker, 0u);
    cr_expect_eq(s->offers[0].model, 0u);
    cr_expect_eq(s->offers[0].precision, PRECISION_F32);
    cr_expect_eq(s->offers[0].expect_us, latency_expect_us(&worker->offers[0]->latency, 1));
    cr_expect(!s->offers[0].busy, "there are slots left");
    snapshot_free(s);
    worker->paused = true;
    s = snapshot_take(&desk->broker);
    cr_expect(s->offers[0].busy, "it takes nothing now");
    snapshot_free(s);
}

Test(snapshot, a_worker_is_busy_for_no_more_than_all_of_its_time_and_begins_anew_with_its_counters)
{
    add_worker(WORKER, "one", 1, 1);
    const struct worker *worker = fleet_by_peer(&desk->broker.fleet, WORKER);
    heartbeat(1000);
    cr_expect_eq(worker->busy_share, 0, "nothing is known of the time before");
    desk_wait(desk, 1000000);
    heartbeat(9000000);
    double weight = 1 - exp(-1.0 / 15);
    cr_expect(fabs(worker->busy_share - weight) < 1e-9);
    desk_wait(desk, 1000000);
    heartbeat(5); /* it has started anew */
    cr_expect(fabs(worker->busy_share - weight) < 1e-9);
    desk_wait(desk, 1000000);
    heartbeat(5);
    cr_expect(fabs(worker->busy_share - (weight - weight * weight)) < 1e-9, "idle for a second");
}

static const char *state_after(uint64_t silence_us)
{
    desk_wait(desk, silence_us);
    struct snapshot *s = snapshot_take(&desk->broker);
    const char *state = s->workers[0].state;
    cr_expect_eq(s->ready, strcmp(state, "draining") != 0 && s->models[0].ready > 0);
    snapshot_free(s);
    return state;
}

Test(snapshot, a_worker_is_ready_suspect_or_draining)
{
    add_worker(WORKER, "one", 1, 1);
    uint64_t suspect_us = (uint64_t)desk->options.heartbeat_us * 3 / 2;
    cr_expect_str_eq(state_after(0), "ready");
    cr_expect_str_eq(state_after(suspect_us - 1), "ready");
    cr_expect_str_eq(state_after(1), "suspect");
    heartbeat(1);
    cr_expect_str_eq(state_after(0), "ready");
    fleet_by_peer(&desk->broker.fleet, WORKER)->state = WORKER_DRAINING;
    cr_expect_str_eq(state_after(0), "draining");
}

Test(snapshot, a_models_row_counts_what_waits_and_runs)
{
    add_worker(WORKER, "one", 2, 1);
    for (uint64_t i = 1; i <= 30; i++)
        submit(i);
    struct snapshot *s = snapshot_take(&desk->broker);
    cr_assert(s->models_count == 2 && s->offers_count == 2);
    const struct model_row *row = snapshot_model(s, "good", 1), *other = snapshot_model(s, "good", 3);
    struct model *model = model_find(&desk->broker.models, "good", 1);
    cr_assert(row && other && row != other);
    cr_expect(row->queued == model->queue.waiting && row->queued > 0 && row->queued_bytes == model->queue.bytes);
    cr_expect(row->running == model->running && row->queued + row->running == 30 && s->live == 30);
    cr_expect(s->queued == row->queued && s->running == row->running && s->queued_bytes == row->queued_bytes);
    cr_expect(row->offers == 1 && row->ready == 1 && row->rows_max == 8 && row->forms == 1 && row->version == 1);
    cr_expect(other->queued == 0 && other->running == 0 && other->version == 3 && other->tally == SNAPSHOT_NONE);
    cr_expect(row->tally < s->tallies_count && strcmp(s->tallies[row->tally].name, "good") == 0);
    cr_expect_eq(s->tallies[row->tally].admitted, 30u);
    cr_expect_eq(s->offers[0].worker, 0u);
    cr_expect_neq(s->offers[0].model, s->offers[1].model);
    cr_expect_eq(s->offers[other - s->models].expect_us + s->offers[row - s->models].expect_us, 7100u,
                 "as they were warmed up");
    snapshot_free(s);
}

Test(snapshot, totals_are_those_of_the_broker)
{
    struct broker *broker = &desk->broker;
    uint64_t *stats = &broker->stats.early_hits;
    for (size_t i = 0; i < sizeof broker->stats / sizeof *stats; i++)
        stats[i] = 100 + i;
    broker->sessions.dropped_unsent = 41;
    broker->clients->bytes_in = 42;
    broker->clients->bytes_out = 43;
    broker->workers->bytes_in = 44;
    broker->workers->bytes_out = 45;
    broker->keys_bad = true;
    desk_client(desk, CLIENT + 1, 78);
    uint64_t out = broker->clients->bytes_out, in = broker->clients->bytes_in;
    struct snapshot *s = snapshot_take(broker);
    cr_expect_eq(memcmp(&s->stats, &broker->stats, sizeof s->stats), 0);
    cr_expect(s->clients == 2 && s->dropped_unsent == 41 && s->keys_bad && !s->draining && !s->ready);
    cr_expect(s->clients_in == in && s->clients_out == out && s->workers_in == 44 && s->workers_out == 45);
    cr_expect(s->taken_us == broker->now_us && s->started_us == broker->started_us && s->uuid == broker->uuid);
    cr_expect(s->kept_count == broker->sessions.kept_count && s->kept_bytes == broker->sessions.kept_bytes);
    cr_expect_gt(s->rss_bytes, 1u << 20);
    cr_expect_str_eq(s->cache.kind, "memory");
    cr_expect_eq(s->unix_offset_us, broker->metrics->unix_offset_us);
    snapshot_free(s);
}

Test(snapshot, traces_are_copied_from_each_list)
{
    struct metrics *metrics = desk->broker.metrics;
    struct model_tally *tally = metrics_model(metrics, "good", 1);
    struct series_tally *series = metrics_series(metrics, tally, "reference", PRECISION_F32);
    struct job_trace fine = {.id = {1, 1}, .how = FINISH_COMPUTED, .ended_us = 5, .total_us = 50};
    struct job_trace bad = {
        .id = {1, 2}, .how = FINISH_FAILED, .status = PEN_ERR_INTERNAL, .ended_us = 6, .total_us = 70};
    struct job_trace left = {.id = {1, 3}, .how = FINISH_CANCELLED, .status = PEN_ERR_CANCELLED, .ended_us = 7};
    metrics_tenant(metrics, 2, "team")->jobs = 9;
    metrics_end(metrics, tally, series, &fine, false);
    metrics_end(metrics, tally, series, &bad, true);
    metrics_end(metrics, tally, NULL, &left, false);
    struct snapshot *s = snapshot_take(&desk->broker);
    cr_expect(s->recent.count == 2 && s->errors.count == 1 && s->slow.count == 2 && s->kept.count == 1 &&
              s->kept.room == 4);
    cr_expect(job_id_equal(s->recent.rows[0].id, fine.id) && job_id_equal(s->recent.rows[1].id, left.id));
    cr_expect(job_id_equal(s->errors.rows[0].id, bad.id) && job_id_equal(s->kept.rows[0].id, bad.id));
    cr_expect(s->recent.rows[0].model_row == 1 && s->recent.rows[0].series_row == 1 &&
              s->recent.rows[1].series_row == 0);
    cr_expect(s->series_count == 2 && s->series[1].model == &s->tallies[1] && s->series[1].total.sum_us == 50);
    cr_expect(s->tallies[1].computed == 1 && s->tallies[1].cancelled == 1 &&
              s->tallies[1].failed[PEN_ERR_INTERNAL] == 1);
    cr_expect(s->tenants_count == 4 && s->tenants[3].jobs == 9 && strcmp(s->tenants[3].name, "team") == 0);
    cr_expect_eq(snapshot_life(s, fine.id)->ended_us, 5u);
    cr_expect_eq(snapshot_life(s, bad.id)->ended_us, 6u);
    cr_expect_eq(snapshot_life(s, left.id)->ended_us, 7u);
    cr_expect_null(snapshot_life(s, (struct job_id){1, 4}));
    snapshot_free(s);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

Test(snapshot, the_model_that_is_asked_for_is_the_highest_version_that_is_ready)
{
    struct model_row rows[] = {
        {.name = "a", .version = 1, .ready = 1}, {.name = "a", .version = 3}, {.name = "a", .version = 2, .ready = 2},
        {.name = "b", .version = 9, .ready = 1}, {.name = "c", .version = 5}, {.name = "c", .version = 4}};
    struct snapshot s = {.models = rows, .models_count = 6};
    cr_expect_eq(snapshot_model(&s, "a", 0), &rows[2]);
    cr_expect_eq(snapshot_model(&s, "a", 3), &rows[1]);
    cr_expect_eq(snapshot_model(&s, "c", 0), &rows[4]);
    cr_expect_null(snapshot_model(&s, "a", 9));
    cr_expect_null(snapshot_model(&s, "d", 0));
}

Test(snapshot, a_failure_that_keeps_a_model_away_says_more_than_one_that_does_not)
{
    struct failure_row rows[] = {{.name = "a", .version = 1, .serving = true},
                                 {.name = "a", .version = 1},
                                 {.name = "a", .version = 2},
                                 {.name = "b", .version = 0}};
    struct snapshot s = {.failures = rows, .failures_count = 4};
    cr_expect_eq(snapshot_failure(&s, "a", 1), &rows[1]);
    cr_expect_eq(snapshot_failure(&s, "a", 2), &rows[2]);
    cr_expect_eq(snapshot_failure(&s, "a", 0), &rows[1]);
    cr_expect_eq(snapshot_failure(&s, "b", 7), &rows[3], "one without a version is about all");
    cr_expect_null(snapshot_failure(&s, "a", 3));
    cr_expect_null(snapshot_failure(&s, "c", 0));
}

Test(snapshot, desired_workers_follow_from_load_queue_and_slots)
{
    struct series_tally series[4] = {
        {.model_row = 0},
        {.model_row = 1, .backend = "x", .measured = 10, .busy_us = 20000000, .busy_rate = 1.4},
        {.model_row = 1, .backend = "y", .measured = 10, .busy_us = 10000000, .busy_rate = 0},
        {.model_row = 2, .backend = "y"}};
    struct model_row models[] = {{.tally = 2, .queued = 1000}, {.tally = 1, .queued = 30}};
    struct worker_row workers[] = {
        {.backend = "x", .slots = 1}, {.backend = "x", .slots = 3}, {.backend = "y", .slots = 5}};
    struct snapshot s = {.series = series,
                         .series_count = 4,
                         .models = models,
                         .models_count = 2,
                         .workers = workers,
                         .workers_count = 3};
    cr_expect_eq(snapshot_desired(&s, 0), 0u, "other");
    cr_expect_eq(snapshot_desired(&s, 1), 4u,
                 "1.4 busy slots are 2 at 70 %%, and 30 jobs of 2 s are 6 more for 10 s; 2 slots each");
    cr_expect_eq(snapshot_desired(&s, 2), 0u, "the other series has all of the load");
    cr_expect_eq(snapshot_desired(&s, 3), 0u, "nothing is measured");
    series[1].busy_rate = 0;
    cr_expect_eq(snapshot_desired(&s, 1), 2u, "idle: half of the queue, 30 s of work in 10 s, 2 slots each");
    cr_expect_eq(snapshot_desired(&s, 2), 1u, "15 jobs of 1 s; 5 slots each");
    series[1].backend[0] = 'z';
    cr_expect_eq(snapshot_desired(&s, 1), 3u, "no worker of that backend: one slot each");
    models[1].tally = 7;
    cr_expect_eq(snapshot_desired(&s, 1), 0u, "nothing waits");
}

/* ---- pages --------------------------------------------------------------------------------------------------------------- */

static struct post *post;

/* A page made of how things are now. */
static void expect_page(const char *path, unsigned status, const char *words)
{
    struct snapshot *none;
    struct page page;
    desk_wait(desk, 60000);
    cr_expect_eq(post_get(post, 0, 0, &none), PEN_ERR_TIMEOUT); /* makes the wish */
    post_serve(post, &desk->broker);
    page_make(&(struct page_source){.post = post}, path, &page);
    cr_expect_eq(page.status, status, "%s: %u", path, page.status);
    cr_expect(page.body.text && strstr(page.body.text, words), "%s: %.*s", path, (int)page.body.used, page.body.text);
    page_fini(&page);
}

static void open_post(void)
{
    begin();
    post = post_new(desk->broker.clock);
}

static void close_post(void)
{
    post_free(post);
    end();
}

TestSuite(pages_of, .init = open_post, .fini = close_post);

Test(pages_of, readiness_is_told_with_its_reason)
{
    expect_page("/v2/health/ready", 503, "no worker is ready for any model\"");
    add_worker(WORKER, "one", 1, 1);
    expect_page("/v2/health/ready", 200, "{\"ready\":true}\n");
    expect_page("/v2/models/good/ready", 200, "{\"ready\":true,\"version\":1,\"workers\":1}\n");
    add_worker(OTHER, "two", 2, 1);
    expect_page("/v2/models/good/ready", 200, "{\"ready\":true,\"version\":3,\"workers\":1}\n");
    expect_page("/v2/models/good/versions/1/ready", 200, "\"version\":1,\"workers\":2}");
    expect_page("/v2/models/%67oo%64/ready", 200, "\"version\":3");
    expect_page("/v2/models/good/versions/2/ready", 404, "no worker offers");
    desk->broker.draining = true;
    expect_page("/v2/health/ready", 503, "the broker is draining");
    expect_page("/v2/models/good/ready", 503, "the broker is draining");
    desk->broker.draining = false;
    desk_wait(desk, (uint64_t)desk->options.heartbeat_us * 3 / 2);
    expect_page("/v2/models/good/ready", 503, "no worker is ready for the model");
}

Test(pages_of, a_path_that_names_no_model_is_answered_with_the_right_ones)
{
    static const char *const wrong[] = {"/v2/models/",
                                        "/v2/models//ready",
                                        "/v2/models/good",
                                        "/v2/models/good/ready/",
                                        "/v2/models/%6/ready",
                                        "/v2/models/%zz/ready",
                                        "/v2/models/a%00/ready",
                                        "/v2/models/good/versions/0/ready",
                                        "/v2/models/good/versions//ready",
                                        "/v2/models/good/versions/1x/ready",
                                        "/v2/models/%g7ood/ready"};
    add_worker(WORKER, "one", 1, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_page(wrong[i], 404, "ask for /v2/models/NAME/ready");
    char path[METRICS_NAME_BYTES + 64] = "/v2/models/";
    memset(path + strlen(path), 'a', METRICS_NAME_BYTES);
    strcat(path, "/ready");
    expect_page(path, 404, "ask for /v2/models/NAME/ready");
    expect_page("/v2/models/%4A%4a%7E/ready", 404, "no worker offers");
    expect_page("/v2", 404, "there are / /metrics");
    expect_page("/metrics/", 404, "there are / /metrics");
    expect_page("/api/trace/none", 400, "\"error\":");
    expect_page("/api/trace/00000000000000aa-1", 404, "\"error\":");
    expect_page("/api/history/good", 404, "ask for /api/history/");
    expect_page("/api/history/good/versions/1", 200, "\"points\":[]");
    expect_page("/metrics", 200, "penstock_");
    expect_page("/api/state.json", 200, "\"workers\":[");
}

Test(pages_of, a_loop_that_is_silent_is_told)
{
    struct writer writer = {.text = NULL};
    post_beat(post, desk->broker.now_us);
    expect_page("/v2/health/live", 200, "{\"live\":true}");
    cr_expect(page_event(post, &writer) && strncmp(writer.text, "data: {", 7) == 0);
    cr_expect_eq(strncmp(writer.text + writer.used - 2, "\n\n", 2), 0);
    writer_fini(&writer);
    writer = (struct writer){.text = NULL};
    desk_wait(desk, POST_WEDGED_US - 60000 - 60000);
    expect_page("/v2/health/live", 503, "the loop has been silent for ");
    desk_wait(desk, 1000000); /* the last snapshot is too old */
    cr_expect(page_event(post, &writer), "the stream goes on");
    cr_expect_eq(strstr(writer.text, "event: silent\ndata: {\"silence_us\":3"), writer.text, "%s", writer.text);
    writer_fini(&writer);
    post_close(post);
    struct page page;
    page_make(&(struct page_source){.post = post}, "/metrics", &page);
    cr_expect(page.status == 503 && strstr(page.body.text, "the broker is ending"));
    page_fini(&page);
    writer = (struct writer){.text = NULL};
    cr_expect_not(page_event(post, &writer));
    writer_fini(&writer);
}
