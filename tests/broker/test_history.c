/* The last hour that pages begin with: right on any day and at any hour, bounded, and told to whoever asks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow_desk.h"
#include "history.h"
#include "http_get.h"
#include "pool.h"

#define DAY_STEPS  (UINT64_C(86400000000) / HISTORY_STEP_US)
#define STARTED_US UINT64_C(7000000) /* of the broker's clock */

static struct model_tally tallies[METRICS_MODELS_MAX + 1];
static struct series_tally series[2];
static struct model_row rows[HISTORY_MODELS_MAX + 8];
static struct history_point points[HISTORY_STEPS];

static struct snapshot blank(void)
{
    return (struct snapshot){.started_us = STARTED_US,
                             .taken_us = STARTED_US,
                             .models = rows,
                             .tallies = tallies,
                             .series = series,
                             .tallies_count = 2,
                             .series_count = 2};
}

/* As many as differ from step to step, and from day to day. */
static uint64_t jobs_in(uint64_t step)
{
    return step * 2654435761u % 977;
}

static void tick(struct history *history, struct snapshot *snapshot, uint64_t step)
{
    snapshot->taken_us = STARTED_US + step * HISTORY_STEP_US + step % 900; /* never quite on time */
    snapshot->stats.jobs_done += jobs_in(step);
    history_add(history, snapshot);
}

static size_t pool_points(const struct history *history, const struct snapshot *snapshot)
{
    size_t count = 0;
    cr_assert(history_points(history, NULL, 0, snapshot->taken_us, points, &count));
    return count;
}

Test(history, is_right_at_every_hour_of_two_days_whatever_the_systems_clock_does)
{
    struct history *history = history_new();
    struct snapshot snapshot = blank();
    for (uint64_t step = 1; step < 2 * DAY_STEPS; step++) {
        if (step % 5000 == 0) /* summer time, a leap of the clock: it is no part of this */
            snapshot.unix_offset_us = (int64_t)(step * 3600000000u) * (step % 10000 ? 1 : -1);
        tick(history, &snapshot, step);
        if (step % 719 != 0 && step != 5)
            continue;
        size_t count = pool_points(history, &snapshot), expected = step < HISTORY_STEPS ? step : HISTORY_STEPS;
        cr_assert(count >= expected - 1 && count <= expected, "%zu points at step %llu", count,
                  (unsigned long long)step);
        for (size_t i = 0; i < count; i++) {
            uint64_t at = step - (count - 1 - i);
            cr_assert(points[i].done == jobs_in(at), "step %llu", (unsigned long long)at);
            cr_assert((points[i].at_us - STARTED_US) / HISTORY_STEP_US == at);
            cr_assert(points[i].span_ms >= 4999 && points[i].span_ms <= 5001, "%u", points[i].span_ms);
        }
    }
    history_free(history);
}

Test(history, a_loop_that_was_silent_leaves_a_gap_and_one_long_step)
{
    struct history *history = history_new();
    struct snapshot snapshot = blank();
    tick(history, &snapshot, 1);
    tick(history, &snapshot, 2);
    history_add(history, &snapshot); /* nothing new is no new point */
    tick(history, &snapshot, 12);
    cr_assert(pool_points(history, &snapshot) == 3);
    cr_expect(points[2].span_ms == 50000 && points[2].done == jobs_in(12));
    snapshot.taken_us += HISTORY_STEPS * HISTORY_STEP_US + 1; /* an hour later nothing of it is told */
    cr_expect(pool_points(history, &snapshot) == 0);
    tick(history, &snapshot, 12 + HISTORY_STEPS + 3);
    cr_expect(pool_points(history, &snapshot) == 1, "what its ring still holds is older than an hour");
    history_free(history);
}

static void model(uint32_t place, const char *name, uint32_t tally)
{
    rows[place] = (struct model_row){.version = 1, .tally = tally, .queued = 3, .running = 2};
    snprintf(rows[place].name, sizeof rows[place].name, "%s", name);
}

Test(history, a_model_has_a_track_with_its_times)
{
    struct history *history = history_new();
    struct snapshot snapshot = blank();
    size_t count;
    model(0, "m", 1);
    snapshot.models_count = 1;
    tick(history, &snapshot, 1);
    tallies[1].computed = 5;
    tallies[1].coalesced = 1;
    tallies[1].cached = 2;
    tallies[1].failed[PEN_ERR_DEADLINE] = 3;
    tallies[1].rejected[PEN_ERR_BUSY] = 4;
    series[1].model_row = 1;
    for (int i = 0; i < 100; i++) {
        histogram_add(&series[1].total, i < 90 ? 100 : 40000);
        histogram_add(&series[1].queue, 50);
    }
    tick(history, &snapshot, 2);
    tick(history, &snapshot, 3);
    cr_assert(history_points(history, "m", 1, snapshot.taken_us, points, &count) && count == 3);
    cr_expect(points[1].done == 8 && points[1].failed == 3 && points[1].rejected == 4 && points[1].hits == 2);
    cr_expect(points[1].queued == 3 && points[1].running == 2);
    cr_expect(points[1].p50_us <= 100 && points[1].p95_us > 20000 && points[1].queue_us == 50);
    cr_expect(points[1].compute_us == HISTORY_NONE);
    cr_expect(points[2].done == 0 && points[2].p50_us == HISTORY_NONE, "told once");
    cr_expect(!history_points(history, "m", 2, snapshot.taken_us, points, &count) && count == 0);
    struct writer json = {.text = NULL};
    history_points(history, "m", 1, snapshot.taken_us, points, &count);
    history_json(points, count, snapshot.taken_us, &json);
    cr_expect(strstr(json.text, "\"compute_us\",\"decode_us\"],\"points\":[["));
    cr_expect(strstr(json.text, ",8,3,4,2,0,3,2,"));
    cr_expect(strstr(json.text, ",50,null,null,null]"), "%s", json.text);
    writer_fini(&json);
    history_free(history);
}

Test(history, tracks_are_bounded_and_a_model_that_comes_back_begins_without_a_leap)
{
    struct history *history = history_new();
    struct snapshot snapshot = blank();
    char name[16];
    size_t count;
    for (uint32_t i = 0; i < HISTORY_MODELS_MAX + 8; i++) {
        snprintf(name, sizeof name, "m%u", i);
        model(i, name, i == 0 ? 1 : SNAPSHOT_NONE);
    }
    snapshot.models_count = HISTORY_MODELS_MAX + 8;
    tallies[1].computed = 1000;
    tick(history, &snapshot, 1);
    cr_expect(history_points(history, "m0", 1, snapshot.taken_us, points, &count) && points[0].done == 1000);
    cr_expect(!history_points(history, "m64", 1, snapshot.taken_us, points, &count), "there is room for 64");
    struct snapshot rest = snapshot;
    rest.models = rows + 8; /* the first eight are gone: their place is free */
    rest.models_count = HISTORY_MODELS_MAX;
    tick(history, &rest, 2);
    cr_expect(history_points(history, "m64", 1, rest.taken_us, points, &count) && count == 1);
    cr_expect(!history_points(history, "m0", 1, rest.taken_us, points, &count));
    for (uint64_t step = 3; step < 4 + HISTORY_STEPS; step++) {
        struct snapshot none = snapshot;
        none.models_count = 0;
        tick(history, &none, step);
    }
    snapshot.models_count = 1;
    tick(history, &snapshot, 5 + HISTORY_STEPS);
    cr_expect(history_points(history, "m0", 1, snapshot.taken_us, points, &count) && count == 1);
    cr_expect(points[0].done == 0, "what it did before is no news");
    cr_expect(!history_points(history, "m70", 1, snapshot.taken_us, points, &count), "an hour has gone");
    history_free(history);
}

Test(history, counts_what_a_broker_counts)
{
    struct history *history = history_new();
    struct desk *desk = flow_desk(2);
    size_t count;
    for (uint8_t i = 1; i <= 3; i++) {
        flow_submit(desk, "fast", i, (struct wire_job){.fill = i});
        if (i < 3)
            desk_result(desk, 901, (struct job_id){0xA, i}, 0, i);
        desk_wait(desk, 1000);
    }
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    history_add(history, snapshot);
    cr_assert(history_points(history, NULL, 0, snapshot->taken_us, points, &count) && count == 1);
    cr_expect(points[0].done == 2 && desk->broker.stats.jobs_done == 2);
    cr_assert(history_points(history, "fast", 1, snapshot->taken_us, points, &count) && count == 1);
    cr_expect(points[0].done == 2 && points[0].p50_us != HISTORY_NONE && points[0].queued + points[0].running > 0);
    snapshot_free(snapshot);
    desk_free(desk);
    history_free(history);
}

/* The real program: its thread has a point within two steps, and two dozen visitors at once get it. */
Test(history, is_kept_by_the_program_and_told_to_many_at_once, .timeout = 60)
{
    enum { VISITORS = 24 };
    struct pool pool;
    char address[64], *body = NULL;
    int fds[VISITORS];
    pool_start(&pool, (const char *const[]){"--http", "127.0.0.1:*", NULL});
    cr_assert(process_log_value(pool.broker, "evt=listening", "http", address, sizeof address));
    cr_assert_eq(http_get(address, "/api/history/", &body), 200);
    cr_expect(strstr(body, "\"points\":[]"), "none yet: %s", body);
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(12000) * 1000;
    while (!strstr(body, "\"points\":[[") && support_now_us() < until_us) {
        free(body);
        support_sleep_ms(200);
        cr_assert_eq(http_get(address, "/api/history/", &body), 200);
    }
    cr_assert(strstr(body, "\"points\":[["), "%s", body);
    free(body);
    for (size_t i = 0; i < VISITORS; i++)
        fds[i] = http_connect(address);
    for (size_t i = 0; i < VISITORS; i++)
        http_say(fds[i], "GET /api/history/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    for (size_t i = 0; i < VISITORS; i++) {
        char *answer = http_hear(fds[i], NULL, 10000);
        cr_expect(strstr(answer, " 200 ") && strstr(answer, "]]}"), "visitor %zu: %s", i, answer);
        free(answer);
        close(fds[i]);
    }
    cr_expect_eq(http_get(address, "/api/history/nobody/versions/1", &body), 200);
    cr_expect(strstr(body, "\"points\":[]"), "a model that has gone, or was never here, is no error: %s", body);
    free(body);
    cr_expect_eq(http_get(address, "/v2/health/live", NULL), 200);
    pool_stop(&pool);
}
