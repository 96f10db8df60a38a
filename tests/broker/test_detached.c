/* Detached jobs: an acknowledgement means that the journal has it; results outlive brokers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "detached_desk.h"
#include "explain_internal.h"
#include "process.h"

Test(detached, acknowledgement_comes_after_the_sync_and_never_before)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 1), PEN_STATUS_COUNT, "not on disk yet");
    cr_assert_eq(paper->synced, 0);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    cr_assert_gt(paper->synced, 0);
    desk_free(desk);
    free(paper);
}

Test(detached, power_cut_before_the_sync_leaves_nothing_and_after_it_everything)
{
    for (int after = 0; after < 2; after++) {
        struct paper *paper = paper_new();
        struct desk *desk = desk_on(paper);
        desk_client(desk, 1, 0xABC);
        submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
        if (after)
            sync_now(desk);
        cr_assert_eq(reply(desk, 1), after ? PEN_OK : PEN_STATUS_COUNT);
        desk_free(desk); /* the power is cut: only what was synced is there */
        desk = desk_on(paper);
        desk_client(desk, 1, 0xDEF);
        add_worker(desk);
        desk_wait(desk, 10000);
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), (size_t)after,
                     "it runs exactly when it was acknowledged");
        desk_free(desk);
        free(paper);
    }
}

Test(detached, who_asked_for_a_job_before_it_was_refused_is_told)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    desk_client(desk, 2, 0xDEF);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    paper->sync_fails = true;
    sync_now(desk);
    cr_expect_eq(reply(desk, 1), PEN_ERR_UNAVAILABLE);
    cr_expect_eq(reply(desk, 7), PEN_ERR_NOT_FOUND);
    desk_free(desk);
    free(paper);
}

Test(detached, its_client_does_not_cancel_it_any_more_once_it_is_accepted)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    add_worker(desk);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT), "it runs");
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    fetch(desk, 1, (struct job_id){0xABC, 2}, ID);
    cr_expect_eq(reply(desk, 2), PEN_OK);
    desk_free(desk);
    free(paper);
}

/* A worker of its own is given the job, and is lost with it. */
static void lose_a_worker(struct desk *desk, uint32_t peer)
{
    struct wire_worker one = {.uuid = peer, .name = "w", .slots = 1, .models = &detached_model, .models_count = 1};
    desk_worker(desk, peer, &one);
    desk_run(desk);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    side_lose(&desk->workers, peer);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 5000);
}

Test(detached, the_like_of_what_is_in_quarantine_ends_at_once)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    desk->options.max_attempts = 2;
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    lose_a_worker(desk, 911);
    lose_a_worker(desk, 912);
    cr_assert_eq(desk->broker.stats.quarantined, 1);
    add_worker(desk);
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 2), PEN_OK, "it is accepted");
    fetch(desk, 1, (struct job_id){0xABC, 3}, "0000000000000abc-2");
    cr_expect_eq(reply(desk, 3), PEN_ERR_WORKER_LOST);
    desk_free(desk);
    free(paper);
}

Test(detached, client_leaves_and_another_session_fetches_the_result)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_say_client(desk, 1, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_client(desk, 2, 0xDEF);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    cr_assert_eq(reply(desk, 7), PEN_STATUS_COUNT, "told when it is done");
    add_worker(desk);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->peer, 2);
    cr_assert_eq(sent->env.job.sequence, 7, "under the fetch's own id");
    Penstock__ResultMeta *result = sent_result(sent);
    cr_assert_eq(result->outputs[0]->data.data[0], 42);
    penstock__result_meta__free_unpacked(result, NULL);
    fetch(desk, 2, (struct job_id){0xDEF, 8}, ID);
    cr_assert_eq(reply(desk, 8), PEN_OK, "it stays until its time is over");
    cr_assert_not_null(explained_find(&desk->broker.explain, (struct job_id){0xABC, 1}), "why it ran there is kept");
    fetch(desk, 2, (struct job_id){0xDEF, 9}, "0000000000000abc-2");
    cr_assert_eq(reply(desk, 9), PEN_ERR_NOT_FOUND);
    desk_free(desk);
    free(paper);
}

Test(detached, result_survives_the_broker_and_an_unsynced_one_is_computed_again)
{
    for (int synced = 0; synced < 2; synced++) {
        struct paper *paper = paper_new();
        struct desk *desk = desk_on(paper);
        desk_client(desk, 1, 0xABC);
        add_worker(desk);
        submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
        sync_now(desk);
        desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
        if (synced)
            sync_now(desk);
        desk_free(desk);
        desk = desk_on(paper);
        desk_client(desk, 2, 0xDEF);
        fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
        cr_assert_eq(reply(desk, 7), synced ? PEN_OK : PEN_STATUS_COUNT);
        if (!synced) {
            add_worker(desk);
            desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
            cr_assert_eq(reply(desk, 7), PEN_OK);
        }
        desk_free(desk);
        free(paper);
    }
}

static void ask_state(struct desk *desk, uint64_t own, Penstock__ResultMeta **ret_meta)
{
    uint8_t meta[256];
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    job.detached = (char *)(uintptr_t)ID;
    job.detached_state = true;
    env.job = (struct job_id){0xABC, own};
    env.flags = FRAME_FLAG_FETCH;
    desk_say_client(desk, 1, env, meta, penstock__job_meta__pack(&job, meta), 0);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    *ret_meta = penstock__result_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert(*ret_meta && (*ret_meta)->detached);
}

#define HOUR_US UINT64_C(3600000000)

static uint64_t an_hour_ago(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 - HOUR_US;
}

/* Of a job that the broker before accepted: neither since this one's start nor since the machine's. */
Test(detached, age_of_a_job_goes_on_behind_a_restart)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    Penstock__ResultMeta *state;
    uint64_t begin_us = support_now_us();
    desk->broker.detached->wall = an_hour_ago;
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_free(desk);
    desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    ask_state(desk, 9, &state);
    uint64_t age_us = state->detached->age_us, took_us = support_now_us() - begin_us;
    cr_assert(age_us >= HOUR_US - 1000000 && age_us <= HOUR_US + took_us + 1000000, "%lu", (unsigned long)age_us);
    penstock__result_meta__free_unpacked(state, NULL);
    desk_free(desk);
    free(paper);
}

/* Of one that is done its age and the time that is left are told, too. */
Test(detached, state_of_a_done_job_has_its_times)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    Penstock__ResultMeta *state;
    desk_client(desk, 1, 0xABC);
    add_worker(desk);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    sync_now(desk);
    desk_wait(desk, 50000);
    ask_state(desk, 9, &state);
    cr_expect_str_eq(state->detached->state, "done");
    cr_expect_eq(state->detached->attempts, 1);
    cr_expect_geq(state->detached->age_us, 50000);
    cr_expect_gt(state->detached->left_us, 1000000);
    penstock__result_meta__free_unpacked(state, NULL);
    desk_free(desk);
    free(paper);
}

Test(detached, same_id_sent_again_is_one_job)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_client(desk, 2, 0xABC);
    submit(desk, 2, 0xABC, 1, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    cr_assert_eq(detached_count(desk->broker.detached), 1);
    desk_free(desk);
    free(paper);
}

Test(detached, waits_for_a_worker_cancels_and_forgets)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk->options.detached_ttl_us = 50000; /* wall clock */
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
    cr_assert_eq(desk->broker.live, 0, "no worker offers the model yet");
    bool later;
    cr_assert_eq(detached_cancel(&desk->broker, NULL, 0, (struct job_id){0xABC, 1}, NULL, &later, NULL), PEN_OK);
    fetch(desk, 1, (struct job_id){0xABC, 7}, ID);
    cr_assert_eq(reply(desk, 7), PEN_ERR_CANCELLED);
    sync_now(desk);
    for (int i = 0; i < 200 && detached_count(desk->broker.detached); i++) {
        support_sleep_ms(10);
        desk_wait(desk, 1100000);
        desk_client(desk, 1, 0xABC);
    }
    cr_assert_eq(detached_count(desk->broker.detached), 0, "its time is over");
    desk_free(desk);
    free(paper);
}

Test(detached, without_a_journal_detached_jobs_are_refused)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 1), PEN_ERR_UNSUPPORTED);
    desk_free(desk);
}

Test(detached, a_client_that_has_gone_waits_for_nothing)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    desk_client(desk, 2, 0xDEF);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    fetch(desk, 1, (struct job_id){0xABC, 2}, ID);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    const struct watches *watches = &desk->broker.detached->watches;
    cr_assert_eq(watches->count, 2u);
    desk_say_client(desk, 2, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    for (int i = 0; i < 6; i++) {
        desk_wait(desk, 500000);
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
    }
    cr_assert_eq(watches->count, 1u, "who is there waits on");
    cr_expect_not_null(watch_find(watches, (struct job_id){0xABC, 2}));
    desk_free(desk);
    free(paper);
}

/* Whoever gave it is told that it is kept; it runs at the next broker. */
Test(detached, a_job_that_is_accepted_while_the_broker_drains_does_not_begin)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    add_worker(desk);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    desk->broker.draining = true;
    sync_now(desk);
    cr_expect_eq(reply(desk, 1), PEN_OK);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0u);
    desk->broker.draining = false;
    desk_free(desk);
    free(paper);
}

static uint64_t wall_us;

static uint64_t wall(void)
{
    return wall_us;
}

/* Who waits for it is told, its worker stops, and what that says later is nobody's. */
Test(detached, a_job_that_runs_when_its_lifetime_is_over_ends)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    const struct job_id id = {0xABC, 1};
    wall_us = desk->broker.detached->wall();
    desk->broker.detached->wall = wall;
    desk->options.detached_ttl_us = 60 * (int64_t)1000000;
    desk_client(desk, 1, 0xABC);
    desk_client(desk, 2, 0xDEF);
    add_worker(desk);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    cr_assert_eq(desk->broker.live, 1u, "it runs");
    wall_us += 59 * 1000000;
    desk_wait(desk, 1100000);
    cr_expect_eq(detached_count(desk->broker.detached), 1u, "a second is left");
    cr_expect_eq(reply(desk, 7), PEN_STATUS_COUNT);
    desk_say_client(desk, 2, envelope_make(FRAME_PING), NULL, 0, 0);
    wall_us += 2 * 1000000;
    desk_wait(desk, 1100000);
    sync_now(desk);
    cr_expect_eq(reply(desk, 7), PEN_ERR_DEADLINE);
    cr_expect_eq(detached_count(desk->broker.detached), 0u);
    cr_expect_eq(desk->broker.live, 0u);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CANCEL), 1u);
    desk_result(desk, 901, id, 0, 42);
    cr_expect_eq(reply(desk, 7), PEN_STATUS_COUNT);
    cr_expect_eq(desk->broker.stats.jobs_expired, 1u);
    desk_free(desk);
    free(paper);
}
