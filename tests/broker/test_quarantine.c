/* A job that ends its workers is found by running suspects alone, kept out, listed and kicked; its company is not blamed. Hedges. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 50000,
                                       .digest = 1,
                                       .max_batch = 8};

static uint32_t next_peer;

static uint32_t add_worker(struct desk *desk)
{
    uint32_t peer = next_peer++;
    struct wire_worker one = {.uuid = peer, .name = "w", .slots = 1, .models = &echo, .models_count = 1};
    desk_worker(desk, peer, &one);
    return peer;
}

static struct desk *ready_desk(void)
{
    struct desk *desk = desk_new();
    next_peer = 901;
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, uint8_t fill)
{
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, sequence}, .model = "echo", .fill = fill, .no_cache = true});
}

/* The worker on that connection dies. */
static void die(struct desk *desk, uint32_t peer)
{
    desk->workers.gone_count = 0;
    side_lose(&desk->workers, peer);
    broker_hint_workers(&desk->broker, 33);
    desk_run(desk);
}

static enum pen_status status_of(struct desk *desk, uint64_t sequence)
{
    for (size_t i = 0; i < desk->clients.count; i++) {
        const struct sent *sent = desk->clients.sent[i];
        if (sent->env.type == FRAME_RESULT && sent->env.job.sequence == sequence)
            return (enum pen_status)sent->env.status;
    }
    return PEN_STATUS_COUNT;
}

/* Answers what the worker has until it is given the poison; true: it has it. */
static bool work_until_poison(struct desk *desk, uint32_t peer, uint64_t poison)
{
    struct sent *sent;
    while ((sent = desk_next(&desk->workers, FRAME_SUBMIT))) {
        if (sent->peer != peer)
            continue;
        for (size_t i = 0; i < sent_groups(sent); i++) {
            if (sent_job(sent, i).sequence == poison)
                return true;
        }
        for (size_t i = 0; i < sent_groups(sent); i++)
            desk_result_status(desk, peer, sent_job(sent, i), PEN_OK, 1000);
    }
    return false;
}

Test(quarantine, poison_is_found_and_its_company_runs_through)
{
    struct desk *desk = ready_desk();
    for (uint64_t i = 1; i <= 8; i++)
        submit(desk, i, (uint8_t)i);
    uint32_t deaths = 0;
    while (status_of(desk, 5) == PEN_STATUS_COUNT && deaths < 10) {
        uint32_t peer = add_worker(desk);
        cr_assert(work_until_poison(desk, peer, 5));
        die(desk, peer);
        deaths++;
    }
    cr_assert_eq(deaths, 3, "as many as --max-attempts allows");
    cr_assert_eq(status_of(desk, 5), PEN_ERR_WORKER_LOST);
    uint32_t peer = add_worker(desk);
    work_until_poison(desk, peer, 0);
    for (uint64_t i = 1; i <= 8; i++)
        cr_assert(i == 5 || status_of(desk, i) == PEN_OK, "job %lu", (unsigned long)i);
    cr_assert_eq(desk->broker.quarantine->count, 1);
    const struct quarantined *entry = &desk->broker.quarantine->entries[0];
    cr_assert_eq(entry->id.sequence, 5);
    cr_assert_eq(entry->deaths, 3);
    cr_assert_str_eq(entry->workers, "w, w, w");
    cr_assert_str_eq(entry->inputs, "x u8 [1,4] 4 bytes");
    cr_assert_eq(desk->broker.stats.losses[LOSS_CLOSED], 3);
    desk_free(desk);
}

/* Says that other brokers have that much work there, and grants one message instead of two. */
static void has_others(struct desk *desk, uint32_t peer, uint64_t elsewhere_us)
{
    uint8_t meta[256];
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    beat.elsewhere_us = elsewhere_us;
    beat.credit = elsewhere_us ? 1 : 2;
    desk_say_worker(desk, peer, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
}

/* At its last chance, alone on a worker as far as this broker knows. */
static uint32_t last_chance(struct desk *desk)
{
    submit(desk, 1, 1);
    die(desk, add_worker(desk));
    die(desk, add_worker(desk));
    return add_worker(desk);
}

Test(quarantine, death_beside_another_brokers_work_is_no_proof)
{
    struct desk *desk = ready_desk();
    uint32_t peer = last_chance(desk);
    has_others(desk, peer, 5000);
    has_others(desk, peer, 0); /* who was there may have done it */
    die(desk, peer);
    cr_assert_eq(status_of(desk, 1), PEN_STATUS_COUNT, "once more");
    peer = add_worker(desk);
    work_until_poison(desk, peer, 0);
    cr_assert_eq(status_of(desk, 1), PEN_OK);
    cr_assert_eq(desk->broker.quarantine->count, 0);
    desk_free(desk);
}

Test(quarantine, guilt_is_proved_as_soon_as_it_is_alone)
{
    struct desk *desk = ready_desk();
    uint32_t peer = last_chance(desk);
    has_others(desk, peer, 5000);
    die(desk, peer);
    die(desk, add_worker(desk));
    cr_assert_eq(status_of(desk, 1), PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.quarantine->count, 1);
    desk_free(desk);
}

Test(quarantine, doubts_have_an_end_and_no_verdict)
{
    struct desk *desk = ready_desk();
    uint32_t peer = last_chance(desk), deaths = 2;
    while (status_of(desk, 1) == PEN_STATUS_COUNT && deaths < 20) {
        has_others(desk, peer, 5000);
        die(desk, peer);
        deaths++;
        peer = add_worker(desk);
    }
    cr_assert_eq(deaths, 6, "--max-attempts, and as many doubts");
    cr_assert_eq(status_of(desk, 1), PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.quarantine->count, 0);
    desk_free(desk);
}

Test(quarantine, last_chance_goes_to_a_worker_that_no_other_broker_uses)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1);
    die(desk, add_worker(desk));
    uint32_t second = add_worker(desk), shared[2];
    for (int i = 0; i < 2; i++) {
        shared[i] = add_worker(desk);
        has_others(desk, shared[i], 5000);
    }
    uint32_t own = add_worker(desk);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    die(desk, second);
    cr_assert_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, own);
    desk_free(desk);
}

Test(quarantine, last_chance_has_the_worker_to_itself)
{
    struct desk *desk = ready_desk();
    submit(desk, 1, 1);
    die(desk, add_worker(desk));
    die(desk, add_worker(desk));
    cr_assert_eq(desk->broker.fleet.count, 0);
    for (uint64_t i = 2; i <= 4; i++)
        submit(desk, i, (uint8_t)i);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    uint32_t peer = add_worker(desk);
    struct sent *alone = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_job(alone, 0).sequence, 1);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "nothing beside the suspect");
    desk_result_status(desk, peer, sent_job(alone, 0), PEN_OK, 1000);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT), "it is cleared, the others go on");
    cr_assert_eq(desk->broker.quarantine->count, 0);
    desk_free(desk);
}

/* Kills workers until the job is in quarantine. */
static void convict(struct desk *desk, uint64_t sequence)
{
    submit(desk, sequence, 7);
    for (int i = 0; i < 3; i++)
        die(desk, add_worker(desk));
    cr_assert_eq(desk->broker.quarantine->count, 1);
}

Test(quarantine, equal_jobs_are_refused_until_one_is_kicked_or_old)
{
    struct desk *desk = ready_desk();
    convict(desk, 1);
    add_worker(desk);
    submit(desk, 2, 7);
    cr_assert_eq(status_of(desk, 2), PEN_ERR_WORKER_LOST, "the same inputs");
    submit(desk, 3, 8);
    cr_assert_eq(status_of(desk, 3), PEN_STATUS_COUNT, "others run");
    cr_assert_eq(desk->broker.stats.quarantine_refused, 1);
    cr_assert_not(quarantine_kick(desk->broker.quarantine, (struct job_id){0xABC, 99}));
    cr_assert(quarantine_kick(desk->broker.quarantine, (struct job_id){0xABC, 1}));
    submit(desk, 4, 7);
    cr_assert_eq(status_of(desk, 4), PEN_STATUS_COUNT, "kicked: it may run again");
    desk_free(desk);
}

/* raw: as a frame of its own, which is all zeros. */
static void submit_bare(struct desk *desk, uint64_t sequence, uint8_t fill, bool raw)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){
            .id = {0xABC, sequence}, .model = "echo", .fill = fill, .no_cache = true, .no_digest = true, .raw = raw});
}

/* Who sends no digest does not get round it, however the bytes are packed. */
Test(quarantine, equal_jobs_are_known_without_a_digest)
{
    for (int raw = 0; raw < 2; raw++) {
        struct desk *desk = ready_desk();
        submit_bare(desk, 1, 0, raw);
        for (int i = 0; i < 3; i++)
            die(desk, add_worker(desk));
        cr_assert_eq(desk->broker.quarantine->count, 1);
        cr_assert_not(desk->broker.quarantine->entries[0].has_digest);
        cr_expect_eq(desk->broker.quarantine->entries[0].payload, 4u);
        add_worker(desk);
        submit_bare(desk, 2, 0, raw);
        cr_expect_eq(status_of(desk, 2), PEN_ERR_WORKER_LOST, "the same bytes");
        submit_bare(desk, 3, 0, !raw);
        cr_expect_eq(status_of(desk, 3), PEN_ERR_WORKER_LOST, "otherwise packed");
        submit(desk, 4, 0);
        cr_expect_eq(status_of(desk, 4), PEN_ERR_WORKER_LOST, "with a digest");
        submit_bare(desk, 5, 8, false);
        cr_expect_eq(status_of(desk, 5), PEN_STATUS_COUNT, "other bytes");
        cr_expect_eq(desk->broker.stats.quarantine_refused, 3);
        desk_free(desk);
    }
}

Test(quarantine, age_lets_equal_jobs_run_again)
{
    struct desk *desk = ready_desk();
    desk->options.quarantine_age_us = 1000;
    convict(desk, 1);
    add_worker(desk);
    desk_wait(desk, 2000);
    submit(desk, 2, 7);
    cr_assert_eq(status_of(desk, 2), PEN_STATUS_COUNT);
    desk_free(desk);
}

Test(quarantine, is_listed_shown_and_kicked_from_outside)
{
    struct desk *desk = ready_desk();
    convict(desk, 1);
    Penstock__ControlReply *reply = desk_ask(desk, "quarantine", "", NULL);
    cr_assert_eq(reply->n_quarantine, 1);
    cr_assert_str_eq(reply->quarantine[0]->model, "echo");
    cr_assert_eq(reply->quarantine[0]->deaths, 3);
    cr_assert_eq(reply->quarantine[0]->digest.len, 16);
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "quarantine", "0000000000000abc-2", NULL);
    cr_assert_not_null(strstr(reply->error, "no job of that id"));
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "kick", "0000000000000abc-1", NULL);
    cr_assert_str_eq(reply->error, "");
    penstock__control_reply__free_unpacked(reply, NULL);
    cr_assert_eq(desk->broker.quarantine->count, 0);
    convict(desk, 2);
    penstock__control_reply__free_unpacked(desk_ask(desk, "kick", "all", NULL), NULL);
    cr_assert_eq(desk->broker.quarantine->count, 0);
    desk_free(desk);
}

Test(quarantine, holds_a_bounded_number_of_entries)
{
    struct desk *desk = ready_desk();
    for (uint64_t i = 1; i <= QUARANTINE_MAX + 3; i++) {
        submit(desk, i, (uint8_t)i);
        for (int k = 0; k < 3; k++)
            die(desk, add_worker(desk));
        quarantine_find(desk->broker.quarantine, (struct job_id){0xABC, i});
        desk->clients.forget = desk->workers.forget = true;
    }
    cr_assert_leq(desk->broker.quarantine->count, QUARANTINE_MAX);
    desk_free(desk);
}

/* ---- slow workers ---- */

Test(slow, worker_whose_run_lasts_far_too_long_is_counted_once_and_kept)
{
    struct desk *desk = ready_desk();
    uint32_t peer = add_worker(desk);
    submit(desk, 1, 1);
    uint8_t meta[64];
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    beat.oldest_running_us = 900000;
    desk_say_worker(desk, peer, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
    cr_assert_eq(desk->broker.stats.workers_slow, 0);
    beat.oldest_running_us = 3000000;
    for (int i = 0; i < 3; i++)
        desk_say_worker(desk, peer, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
    cr_assert_eq(desk->broker.stats.workers_slow, 1);
    cr_assert_eq(desk->broker.fleet.count, 1, "slow is not lost");
    desk_free(desk);
}

/* ---- hedges ---- */

/* 60 runs have taken 1 ms, but every so many-th took 40 ms; 0 = none. */
static struct desk *hedging_desk_of(uint32_t peers[2], uint64_t slow_every)
{
    struct desk *desk = ready_desk();
    desk->options.hedge = true;
    peers[0] = add_worker(desk);
    for (uint64_t i = 1; i <= 60; i++) {
        submit(desk, i, (uint8_t)i);
        desk_result_status(desk, peers[0], (struct job_id){0xABC, i}, PEN_OK,
                           slow_every && i % slow_every == 1 ? 40000 : 1000);
    }
    peers[1] = add_worker(desk);
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    return desk;
}

static struct desk *hedging_desk(uint32_t peers[2])
{
    return hedging_desk_of(peers, 0);
}

static uint32_t run_by(struct desk *desk, uint64_t sequence)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent_job(sent, 0).sequence, sequence);
    return sent->peer;
}

Test(hedge, late_job_gets_a_twin_and_the_loser_is_cancelled)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    struct job_id id = {0xABC, 100};
    submit(desk, 100, 1);
    uint32_t first = run_by(desk, 100);
    desk_wait(desk, 400000);
    uint32_t second = run_by(desk, 100);
    cr_assert_neq(first, second);
    desk_result_status(desk, second, id, PEN_OK, 1000);
    cr_assert_eq(status_of(desk, 100), PEN_OK);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_assert_not_null(cancel);
    cr_assert_eq(cancel->peer, first);
    cr_assert_eq(desk->broker.stats.hedges_won, 1);
    desk_result_status(desk, first, id, PEN_ERR_CANCELLED, 0);
    cr_assert_eq(desk->broker.live, 0);
    cr_assert_eq(desk->broker.stats.jobs_requeued, 0);
    desk_free(desk);
}

/* It is slow by nature, and so is its twin; nor does its time say how long others take. */
Test(hedge, a_job_in_debug_mode_has_no_twin_and_teaches_nothing)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    struct dispatch *dispatch;
    submit(desk, 100, 1);
    uint32_t first = run_by(desk, 100);
    struct job *job = jobs_find(&desk->broker.jobs, (struct job_id){0xABC, 100});
    cr_assert_not_null(job);
    job->debug = true; /* as if the workers allowed it */
    dispatch = job->dispatch;
    uint64_t before = latency_expect_us(&dispatch->offer->latency, 1);
    desk_wait(desk, 400000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    const struct offer *offer = dispatch->offer;
    desk_result_status(desk, first, (struct job_id){0xABC, 100}, PEN_OK, 300000);
    cr_assert_eq(status_of(desk, 100), PEN_OK);
    cr_assert_eq(latency_expect_us(&offer->latency, 1), before);
    desk_free(desk);
}

Test(hedge, twin_takes_over_when_the_first_worker_dies)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    submit(desk, 100, 1);
    uint32_t first = run_by(desk, 100);
    desk_wait(desk, 400000);
    uint32_t second = run_by(desk, 100);
    die(desk, first);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "it runs already");
    desk_result_status(desk, second, (struct job_id){0xABC, 100}, PEN_OK, 1000);
    cr_assert_eq(status_of(desk, 100), PEN_OK);
    desk_free(desk);
}

Test(hedge, is_off_by_default)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    desk->options.hedge = false;
    submit(desk, 100, 1);
    run_by(desk, 100);
    desk_wait(desk, 400000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

/* One run of ten took 40 ms: a job that takes 30 ms is not among the latest twentieth. */
Test(hedge, twin_comes_when_95_of_100_would_be_done_and_not_before)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk_of(peers, 10);
    submit(desk, 100, 1);
    run_by(desk, 100);
    desk_wait(desk, 30000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "slow ones like it are usual");
    desk_wait(desk, 30000);
    run_by(desk, 100);
    desk_free(desk);
}

Test(hedge, twins_are_a_twentieth_of_the_dispatches_at_most)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    for (uint64_t i = 100; i < 110; i++) {
        submit(desk, i, 1);
        uint32_t first = run_by(desk, i);
        desk_wait(desk, 400000);
        while (desk_next(&desk->workers, FRAME_SUBMIT))
            ;
        desk_result_status(desk, first, (struct job_id){0xABC, i}, PEN_OK, 1000);
        for (int k = 0; k < 2; k++) {
            desk_result_status(desk, peers[k], (struct job_id){0xABC, i}, PEN_ERR_CANCELLED, 0);
            desk_say_worker(desk, peers[k], envelope_make(FRAME_PING), NULL, 0);
        }
    }
    uint64_t twins = desk->broker.stats.jobs_hedged, all = desk->broker.stats.jobs_dispatched;
    cr_assert(twins > 0 && twins <= all / 20 + 1, "%lu of %lu", (unsigned long)twins, (unsigned long)all);
    desk_free(desk);
}

Test(hedge, suspects_have_none)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    submit(desk, 100, 1);
    uint32_t first = run_by(desk, 100);
    die(desk, first);
    run_by(desk, 100);
    add_worker(desk);
    desk_wait(desk, 400000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "it may have ended that one");
    desk_free(desk);
}

/* It says so in its heartbeat: what came now would begin only after another broker's suspect. */
Test(hedge, worker_that_runs_another_brokers_suspect_alone_gets_none)
{
    uint32_t peers[2];
    struct desk *desk = hedging_desk(peers);
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    uint8_t meta[64];
    submit(desk, 100, 1);
    uint32_t first = run_by(desk, 100);
    beat.paused = true;
    desk_say_worker(desk, peers[first == peers[0]], envelope_make(FRAME_HEARTBEAT), meta,
                    penstock__heartbeat__pack(&beat, meta));
    desk_wait(desk, 400000);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    beat.paused = false;
    desk_say_worker(desk, peers[first == peers[0]], envelope_make(FRAME_HEARTBEAT), meta,
                    penstock__heartbeat__pack(&beat, meta));
    desk_wait(desk, 400000);
    cr_assert_neq(run_by(desk, 100), first);
    desk_free(desk);
}
