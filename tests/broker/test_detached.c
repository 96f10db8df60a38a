/* Detached jobs: an acknowledgement means that the journal has it, wherever the power is cut; results outlive brokers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "detached.h"
#include "detached_entry.h"
#include "desk.h"
#include "explain_internal.h"
#include "journal.h"
#include "paper.h"
#include "process.h"

static struct journal *the_journal;

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

static struct desk *desk_on(struct paper *paper)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    paper->written = paper->synced; /* what a new broker finds */
    cr_assert_eq(journal_open_file(&paper->file, paper->synced, 1 << 20, &the_journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, the_journal, paper->bytes, paper->synced), PEN_OK);
    return desk;
}

/* The journal's thread does its work. */
static void sync_now(struct desk *desk)
{
    journal_work(the_journal);
    desk_run(desk);
}

static void add_worker(struct desk *desk)
{
    struct wire_worker one = {.uuid = 1, .name = "w", .slots = 8, .models = &echo, .models_count = 1};
    desk_worker(desk, 901, &one);
}

static void submit(struct desk *desk, uint32_t peer, uint64_t client, uint64_t sequence, enum frame_flag flag)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    struct wire_job job = {.id = {client, sequence}, .model = "echo", .fill = 3, .no_digest = true};
    struct envelope env = wire_job_envelope(&job);
    env.flags = (uint16_t)(env.flags | flag);
    desk_say_client(desk, peer, env, meta, wire_job(meta, &job, &raw), 0);
}

static void fetch(struct desk *desk, uint32_t peer, struct job_id own, const char *wanted)
{
    uint8_t meta[256];
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    job.detached = (char *)(uintptr_t)wanted;
    env.job = own;
    env.flags = FRAME_FLAG_FETCH;
    desk_say_client(desk, peer, env, meta, penstock__job_meta__pack(&job, meta), 0);
}

static enum pen_status reply(struct desk *desk, uint64_t sequence)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    if (!sent)
        return PEN_STATUS_COUNT;
    cr_assert_eq(sent->env.job.sequence, sequence);
    if (sent->env.status == PEN_ERR_BUSY || sent->env.status == PEN_ERR_UNAVAILABLE) {
        Penstock__ResultMeta *meta = penstock__result_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
        cr_assert(meta && meta->retry_after_us > 0, "it says when to come back");
        penstock__result_meta__free_unpacked(meta, NULL);
    }
    return (enum pen_status)sent->env.status;
}

#define ID "0000000000000abc-1"

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
    struct wire_worker one = {.uuid = peer, .name = "w", .slots = 1, .models = &echo, .models_count = 1};
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

Test(detached, power_may_be_cut_at_every_byte)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    for (uint64_t i = 1; i <= 3; i++)
        submit(desk, 1, 0xABC, i, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_free(desk);
    size_t whole = paper->synced;
    for (size_t cut = 0; cut <= whole; cut++) {
        struct journal_record record;
        size_t at = 0, used, count = 0;
        while ((used = journal_read(paper->bytes + at, cut - at, &record)) > 0) {
            at += used;
            count++;
            cr_assert_eq(record.id.sequence, count);
        }
        cr_assert_eq(count, cut * 3 / whole, "a torn record is none");
    }
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

Test(detached, full_disk_refuses_and_recovers)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    paper->room = 20; /* the record does not fit: half of it is written */
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_ERR_UNAVAILABLE);
    cr_assert_eq(detached_count(desk->broker.detached), 0);
    cr_assert_eq(paper->written, 0, "what was begun is cut off");
    paper->room = sizeof paper->bytes;
    paper->sync_fails = true;
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 2), PEN_ERR_UNAVAILABLE, "written is not synced");
    paper->sync_fails = false;
    submit(desk, 1, 0xABC, 3, FRAME_FLAG_DETACHED);
    sync_now(desk);
    cr_assert_eq(reply(desk, 3), PEN_OK);
    desk_free(desk);
    free(paper);
}

/* With client 1; the journal may have so many bytes. */
static struct desk *desk_of_journal(struct paper *paper, uint64_t bytes_max)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    cr_assert_eq(journal_open_file(&paper->file, 0, bytes_max, &the_journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, the_journal, paper->bytes, 0), PEN_OK);
    desk_client(desk, 1, 0xABC);
    return desk;
}

Test(detached, journal_has_a_cap)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_of_journal(paper, 300);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 2), PEN_ERR_BUSY);
    sync_now(desk);
    cr_assert_eq(reply(desk, 1), PEN_OK);
    desk_free(desk);
    free(paper);
}

/* To be told BUSY would let its client try for ever. */
Test(detached, job_beyond_the_journals_cap_by_itself_is_too_large)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_of_journal(paper, 100);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    cr_assert_eq(reply(desk, 1), PEN_ERR_TOO_LARGE);
    desk_free(desk);
    free(paper);
}

/* Many times its cap goes through the journal while the broker runs; a result that found the disk full is written later. */
Test(detached, journal_is_written_anew_while_it_is_in_use)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk->options.journal_bytes = 16384;
    desk->options.detached_ttl_us = 1000000000;
    detached_clock(desk->broker.detached, desk->broker.clock);
    add_worker(desk);
    size_t largest = 0;
    for (uint64_t i = 1; i <= 300; i++) {
        uint64_t age_us = i % 100 == 0 ? 1000000001u : 10000u; /* now and then all are too old */
        desk_client(desk, 1, 0xABC);
        submit(desk, 1, 0xABC, i, FRAME_FLAG_DETACHED);
        sync_now(desk);
        cr_assert_eq(reply(desk, i), PEN_OK, "%lu", (unsigned long)i);
        desk_result(desk, 901, (struct job_id){0xABC, i}, 0, 42);
        sync_now(desk);
        for (uint64_t aged = 0; aged < age_us; aged += 100000000u) {
            desk_wait(desk, age_us < 100000000u ? age_us : 100000000u);
            sync_now(desk);
        }
        for (int k = 0; k < 8; k++)
            sync_now(desk);
        add_worker(desk);
        largest = paper->written > largest ? paper->written : largest;
    }
    cr_assert_gt(paper->replaced, 0u);
    cr_assert_lt(largest, 70000u, "%zu: twice what 99 of the 300 jobs take", largest);
    desk_free(desk);
    free(paper);
}

Test(detached, result_that_found_the_disk_full_is_written_later)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    add_worker(desk);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    paper->sync_fails = true;
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 42);
    sync_now(desk);
    paper->sync_fails = false;
    desk_wait(desk, 1100000);
    sync_now(desk);
    desk_free(desk);
    desk = desk_on(paper);
    desk_client(desk, 2, 0xDEF);
    fetch(desk, 2, (struct job_id){0xDEF, 7}, ID);
    cr_assert_eq(reply(desk, 7), PEN_OK, "it did not run again");
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

/* A record whose digest is right, with one job's id and another one's request. */
Test(detached, what_lies_under_another_jobs_id_is_not_believed)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    struct journal_record records[2];
    uint8_t copy[4096];
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    submit(desk, 1, 0xABC, 2, FRAME_FLAG_DETACHED);
    sync_now(desk);
    desk_free(desk);
    size_t first = journal_read(paper->bytes, paper->written, &records[0]);
    size_t second = journal_read(paper->bytes + first, paper->written - first, &records[1]);
    cr_assert(first > 0 && second == first);
    cr_assert_lt(first + second, sizeof copy);
    memcpy(copy, paper->bytes, first + second);
    struct journal_record wrong = records[0];
    wrong.payload = copy + first + JOURNAL_HEADER_BYTES; /* of the second */
    cr_assert(journal_header(paper->bytes, &wrong));
    memcpy(paper->bytes + JOURNAL_HEADER_BYTES, wrong.payload, wrong.bytes);
    desk = desk_on(paper);
    cr_assert_eq(desk->broker.detached->count, 1u);
    cr_assert_not_null(entry_find(desk->broker.detached, (struct job_id){0xABC, 2}));
    cr_assert_null(entry_find(desk->broker.detached, (struct job_id){0xABC, 1}));
    desk_free(desk);
    free(paper);
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

/* The next look is now; the journal may have `most` bytes. */
static bool compacts(struct desk *desk, uint64_t most)
{
    desk->options.journal_bytes = (int64_t)most;
    desk->broker.detached->look_us = desk->broker.detached->compact_us = desk->broker.now_us;
    desk_run(desk);
    return journal_compacting(the_journal);
}

Test(detached, the_journal_is_written_anew_when_a_quarter_of_its_room_and_half_of_it_is_void)
{
    struct paper *paper = paper_new();
    struct desk *desk = desk_on(paper);
    desk_client(desk, 1, 0xABC);
    submit(desk, 1, 0xABC, 1, FRAME_FLAG_DETACHED);
    sync_now(desk);
    uint64_t size = journal_bytes(the_journal), live = desk->broker.detached->live_bytes;
    cr_assert(size > 0 && live == size, "nothing is void");
    cr_expect_not(compacts(desk, size), "nothing is void");
    desk->broker.detached->live_bytes = size / 2;
    cr_expect_not(compacts(desk, 4 * size), "it has a quarter of its room, and no more");
    desk->broker.detached->live_bytes = (size + 1) / 2;
    cr_expect_not(compacts(desk, 4), "half of it is void, and no more");
    desk->broker.detached->live_bytes = size / 2 - 1;
    cr_expect(compacts(desk, 4 * (size - 1)));
    desk->broker.detached->live_bytes = live;
    desk_free(desk);
    free(paper);
}
