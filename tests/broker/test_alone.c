/* Workers that honour flag ALONE: a suspect's last chance is proof when the worker has said that it ran alone, and blames nobody else. */
#include <criterion/criterion.h>

#include "desk.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 50000,
                                       .digest = 1,
                                       .max_batch = 8};
#define CLIENT UINT64_C(0xABC)

static struct desk *desk;
static uint32_t next_peer;

static void begin(void)
{
    desk = desk_new();
    next_peer = 901;
    desk_open(desk);
    desk_client(desk, 1, CLIENT);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(alone, .init = begin, .fini = end);

static uint32_t add_worker(void)
{
    uint32_t peer = next_peer++;
    desk_worker(desk, peer,
                &(struct wire_worker){
                    .uuid = peer, .name = "w", .slots = 1, .runs_alone = true, .models = &echo, .models_count = 1});
    return peer;
}

static void submit(uint64_t sequence)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {CLIENT, sequence}, .model = "echo", .fill = (uint8_t)sequence, .no_cache = true});
}

static void die(uint32_t peer)
{
    desk->workers.gone_count = 0;
    side_lose(&desk->workers, peer);
    broker_hint_workers(&desk->broker, 33);
    desk_run(desk);
}

/* sequence 0: it runs nothing alone for this broker. Other brokers have work there, too, as far as it says. */
static void beat(uint32_t peer, uint64_t sequence, bool paused)
{
    uint8_t meta[256];
    Penstock__RunningJob job = PENSTOCK__RUNNING_JOB__INIT;
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    job.client = CLIENT;
    job.sequence = sequence;
    beat.alone = sequence ? &job : NULL;
    beat.paused = paused;
    beat.elsewhere_us = 5000;
    beat.credit = 1;
    desk_say_worker(desk, peer, envelope_make(FRAME_HEARTBEAT), meta, penstock__heartbeat__pack(&beat, meta));
}

static enum pen_status status_of(uint64_t sequence)
{
    for (size_t i = 0; i < desk->clients.count; i++) {
        const struct sent *sent = desk->clients.sent[i];
        if (sent->env.type == FRAME_RESULT && sent->env.job.sequence == sequence)
            return (enum pen_status)sent->env.status;
    }
    return PEN_STATUS_COUNT;
}

static struct sent *last_dispatch(void)
{
    struct sent *sent, *last = NULL;
    while ((sent = desk_next(&desk->workers, FRAME_SUBMIT)))
        last = sent;
    return last;
}

/* Job 1 at its last chance; returns the worker that has it. */
static uint32_t last_chance(void)
{
    submit(1);
    die(add_worker());
    die(add_worker());
    cr_assert_eq(last_dispatch()->env.flags & FRAME_FLAG_ALONE, 0, "not before its last chance");
    return add_worker();
}

Test(alone, last_chance_asks_for_it_and_nothing_else_does)
{
    last_chance();
    struct sent *sent = last_dispatch();
    cr_assert(sent->env.flags & FRAME_FLAG_ALONE);
    cr_assert_eq(sent_job(sent, 0).sequence, 1);
}

Test(alone, flag_of_a_client_is_not_passed_on)
{
    add_worker();
    desk_submit(
        desk, 1,
        &(struct wire_job){
            .id = {CLIENT, 1}, .model = "echo", .no_cache = true, .flags = FRAME_FLAG_ALONE | FRAME_FLAG_RESENT});
    struct sent *sent = last_dispatch();
    cr_assert_eq(sent->env.flags & FRAME_FLAG_ALONE, 0);
    cr_assert(sent->env.flags & FRAME_FLAG_RESENT, "others are");
}

Test(alone, death_in_the_run_is_proof_whatever_others_have_there)
{
    uint32_t peer = last_chance();
    beat(peer, 1, false);
    beat(peer, 1, false); /* and the others' work still waits */
    die(peer);
    cr_assert_eq(status_of(1), PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.quarantine->count, 1);
}

Test(alone, death_before_the_run_is_none)
{
    uint32_t peer = last_chance();
    die(peer);
    cr_assert_eq(status_of(1), PEN_STATUS_COUNT, "another one gets it");
    peer = add_worker();
    beat(peer, 2, false); /* of another job: a heartbeat from before */
    die(peer);
    cr_assert_eq(status_of(1), PEN_STATUS_COUNT);
    peer = add_worker();
    beat(peer, 1, false);
    desk_result_status(desk, peer, (struct job_id){CLIENT, 1}, PEN_OK, 1000);
    cr_assert_eq(status_of(1), PEN_OK);
    cr_assert_eq(desk->broker.quarantine->count, 0);
}

Test(alone, deaths_before_the_run_have_an_end_and_no_verdict)
{
    uint32_t peer = last_chance(), deaths = 2;
    while (status_of(1) == PEN_STATUS_COUNT && deaths < 40) {
        die(peer);
        deaths++;
        peer = add_worker();
    }
    cr_assert_eq(deaths, 3 + 4 * 3, "--max-attempts, and four times as many doubts");
    cr_assert_eq(status_of(1), PEN_ERR_WORKER_LOST);
    cr_assert_eq(desk->broker.quarantine->count, 0);
}

Test(alone, jobs_of_a_worker_that_runs_anothers_suspect_are_not_blamed_for_its_end)
{
    uint32_t peer = add_worker();
    submit(1);
    for (int i = 0; i < 10; i++) {
        beat(peer, 0, true);
        die(peer);
        peer = add_worker();
    }
    cr_assert_eq(status_of(1), PEN_STATUS_COUNT, "none of ten deaths was its own");
    cr_assert_not(jobs_find(&desk->broker.jobs, (struct job_id){CLIENT, 1})->alone);
    desk_result_status(desk, peer, (struct job_id){CLIENT, 1}, PEN_OK, 1000);
    cr_assert_eq(status_of(1), PEN_OK);
}

Test(alone, paused_worker_gets_nothing_until_it_says_so)
{
    uint32_t peer = add_worker();
    beat(peer, 0, true);
    submit(1);
    cr_assert_null(last_dispatch());
    beat(peer, 0, false);
    cr_assert_not_null(last_dispatch());
}

Test(alone, suspect_goes_to_a_worker_that_can_rather_than_to_one_that_cannot)
{
    struct wire_worker old = {.name = "old", .slots = 1, .models = &echo, .models_count = 1};
    submit(1);
    die(add_worker());
    uint32_t second = add_worker(), able;
    for (old.uuid = 601; old.uuid < 604; old.uuid++) {
        desk_worker(desk, (uint32_t)old.uuid, &old);
        beat((uint32_t)old.uuid, 0, false);
        if (old.uuid == 602)
            able = add_worker();
    }
    beat(able, 0, false);
    die(second);
    struct sent *sent = last_dispatch();
    cr_assert_eq(sent->peer, able);
    cr_assert(sent->env.flags & FRAME_FLAG_ALONE);
}
