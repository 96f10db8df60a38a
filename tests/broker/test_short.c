/*
 * Memory is short while a broker on a desk handles messages of every kind: each place that allocates fails once, and later every so many-th allocation. Nothing
 * crashes or is lost (sanitizers look), every job gets one answer, and when there is memory again everything works. The linker leads allocations through lean.c.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client_handler.h"
#include "desk.h"
#include "detached_entry.h"
#include "lean.h"
#include "metrics_snapshot.h"
#include "paper.h"
#include "worker_handler.h"

enum { CLIENT = 1, ONE = 11, TWO = 12, JOBS = 24, ROUNDS = 60, LIVES_MAX = 80 };

static bool inside;                                          /* the broker */
static bool (*desk_begin)(struct port *port, uint32_t peer); /* the desk's own notes never lack memory */

/* ---- what is watched: the broker alone -------------------------------------------------------------------------------- */

static void watch(bool on)
{
    inside = on;
    lean_watch(on);
}

void __real_client_message(struct broker *broker, struct message *message);
void __real_worker_message(struct broker *broker, struct message *message);
void __real_broker_tick(struct broker *broker);
void __wrap_client_message(struct broker *broker, struct message *message);
void __wrap_worker_message(struct broker *broker, struct message *message);
void __wrap_broker_tick(struct broker *broker);

void __wrap_client_message(struct broker *broker, struct message *message)
{
    watch(true);
    __real_client_message(broker, message);
    watch(false);
}

void __wrap_worker_message(struct broker *broker, struct message *message)
{
    watch(true);
    __real_worker_message(broker, message);
    watch(false);
}

void __wrap_broker_tick(struct broker *broker)
{
    watch(true);
    __real_broker_tick(broker);
    watch(false);
}

static bool begin_unwatched(struct port *port, uint32_t peer)
{
    lean_watch(false); /* the desk takes notes */
    bool begun = desk_begin(port, peer);
    lean_watch(inside);
    return begun;
}

/* ---- the peers -------------------------------------------------------------------------------------------------------- */

static const struct wire_step steps[] = {{"a", "x", "t", false}, {"b", "t", "y", false}};
static const struct wire_policy policies[] = {{.level = 2, .max_queue = 50, .timeout_us = 5000000}};
static const struct wire_model models[] = {{.name = "a",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .digest = 1,
                                            .cacheable = true,
                                            .warm_us = 1000,
                                            .dim = 4,
                                            .max_batch = 4,
                                            .version_label = "stable",
                                            .share_ppm = 500000},
                                           {.name = "b",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .digest = 2,
                                            .cacheable = true,
                                            .warm_us = 1000,
                                            .dim = 1,
                                            .priority_levels = 3,
                                            .priority_default = 2,
                                            .policies = policies,
                                            .policies_count = 1},
                                           {.name = "whole",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .cacheable = true,
                                            .not_ready = true,
                                            .dim = 4,
                                            .steps = steps,
                                            .steps_count = 2},
                                           {.name = "adder",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .digest = 3,
                                            .warm_us = 1000,
                                            .dim = 4,
                                            .sequence_idle_us = 60000000}};

static struct desk *desk;
static struct paper *paper;
static unsigned answers[JOBS + 1];

static void worker_hello(uint32_t peer)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_worker worker = {.uuid = 100u + peer,
                                 .name = peer == ONE ? "one" : "two",
                                 .slots = 2,
                                 .takes_orders = true,
                                 .models = models,
                                 .models_count = sizeof models / sizeof models[0]};
    desk_say_worker(desk, peer, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &worker));
}

static void client_hello(void)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, CLIENT, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, CLIENT, "team", 0),
                    0);
}

static bool is_detached(uint64_t number)
{
    return number % 12 == 9;
}

/* One of each kind in turn. */
static void submit(uint64_t number)
{
    struct wire_job job = {.id = {CLIENT, number}, .model = "a", .fill = (uint8_t)(number % 3)};
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes;
    job.model = number % 6 == 2 ? "whole" : number % 6 == 3 ? "adder" : number % 6 == 4 ? "none" : "a";
    job.no_cache = number % 5 == 1;
    job.explain = number % 4 == 1;
    job.deadline_us = number % 4 == 1 ? 60000000 : 0;
    job.version_label = number % 12 == 7 ? "stable" : NULL;
    if (number % 6 == 3) {
        job.sequence = 5 + number / 12;
        job.sequence_start = number % 12 == 3;
        job.sequence_end = number % 12 == 9;
    }
    job.raw = number % 3 == 0;
    struct envelope env = wire_job_envelope(&job);
    env.flags |= is_detached(number) ? FRAME_FLAG_DETACHED : 0;
    size_t bytes = wire_job(meta, &job, &raw_bytes);
    desk_say_client(desk, CLIENT, env, meta, bytes, raw_bytes);
}

/* Every byte of it; steps of ensembles have none that is known here. */
static uint8_t digest_of(struct job_id id)
{
    return id.client == CLIENT ? (uint8_t)(id.sequence % 3 + 1) : 0;
}

/* Workers answer what they were given; who is asked for a hello says it. */
static void work(void)
{
    for (struct side *side = &desk->workers; side->first < side->count; side->first++) {
        const struct sent *sent = side->sent[side->first];
        if (sent->env.type == FRAME_RESUME)
            worker_hello(sent->peer);
        for (size_t i = 0; sent->env.type == FRAME_SUBMIT && i < sent_groups(sent); i++)
            desk_result(desk, sent->peer, sent_job(sent, i), digest_of(sent_job(sent, i)), 7);
    }
}

static void read_answers(void)
{
    struct side *side = &desk->clients;
    for (; side->first < side->count; side->first++) {
        const struct sent *sent = side->sent[side->first];
        if (sent->env.type == FRAME_RESUME)
            client_hello();
        if (sent->env.type == FRAME_RESULT) {
            cr_assert(sent->env.job.sequence >= 1 && sent->env.job.sequence <= JOBS);
            answers[sent->env.job.sequence]++;
        }
    }
}

static void ask_all(void)
{
    static const char *const questions[][2] = {{"models", ""},
                                               {"workers", ""},
                                               {"stats", ""},
                                               {"quarantine", ""},
                                               {"ping", ""},
                                               {"explain", "0000000000000001-1"},
                                               {"trace", "0000000000000001-1"},
                                               {"arrivals", ""},
                                               {"label", "a stable 1"},
                                               {"load", "a:1"}};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        desk_question(desk, CLIENT, questions[i][0], questions[i][1]);
    lean_watch(true);
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    lean_watch(false);
    snapshot_free(snapshot);
}

static void turn(void)
{
    for (uint32_t peer = ONE; peer <= TWO; peer++)
        desk_say_worker(desk, peer, envelope_make(FRAME_PING), NULL, 0);
    desk_say_client(desk, CLIENT, envelope_make(FRAME_PING), NULL, 0, 0);
    if (desk->broker.detached)
        journal_work(desk->broker.detached->journal);
    work();
    desk_wait(desk, 50000);
    work();
    read_answers();
}

/* ---- a life ----------------------------------------------------------------------------------------------------------- */

static void begin(void)
{
    struct journal *journal = NULL;
    memset(answers, 0, sizeof answers);
    paper = paper_new();
    desk = desk_new();
    desk->options.trace_sample = 2;
    desk_open(desk);
    desk_begin = desk->clients.port.begin;
    desk->clients.port.begin = desk->workers.port.begin = begin_unwatched;
    cr_assert_eq(journal_open_file(&paper->file, 0, 1 << 20, &journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&desk->broker, journal, paper->bytes, 0), PEN_OK);
}

static void end(void)
{
    desk_free(desk);
    free(paper);
}

static bool all_well(void)
{
    size_t left = 0;
    for (size_t i = 1; i <= JOBS; i++)
        left += answers[i] == 0;
    return left == 0 && desk->broker.live == 0 && desk->broker.fleet.count == 2;
}

/* Once there is memory again: what has no answer is sent again, as clients do. */
static void finish(void)
{
    lean_fail_none();
    for (int round = 0; round < ROUNDS && !all_well(); round++) {
        for (uint64_t i = 1; i <= JOBS && round % 10 == 5; i++)
            if (answers[i] == 0)
                submit(i);
        turn();
    }
    for (size_t i = 1; i <= JOBS; i++)
        cr_expect(answers[i] == 1 || (is_detached(i) && answers[i] > 1), "job %zu has %u answers", i, answers[i]);
    cr_expect_eq(desk->broker.live, 0u, "%zu live", (size_t)desk->broker.live);
    cr_expect_eq(desk->broker.queued_bytes, 0u);
    cr_expect_eq(desk->broker.fleet.count, 2u, "both workers are there in the end");
}

static void life(void)
{
    begin();
    client_hello();
    for (uint32_t peer = ONE; peer <= TWO; peer++)
        worker_hello(peer);
    for (uint64_t i = 1; i <= JOBS; i++) {
        submit(i);
        if (i % 7 == 0)
            desk_cancel(desk, CLIENT, (struct job_id){CLIENT, i - 1});
        if (i == JOBS / 2)
            desk_say_worker(desk, TWO, envelope_make(FRAME_GOODBYE), NULL, 0);
        if (i % 4 == 0)
            turn();
    }
    ask_all();
    finish();
    end();
}

Test(short, each_place_that_allocates_fails_once, .timeout = 120)
{
    unsigned failed = 0;
    for (unsigned lives = 0; lives < LIVES_MAX; lives++) {
        lean_fail_fresh(1u << 30);
        life();
        if (lean_places_failed() == failed)
            break;
        failed = lean_places_failed();
    }
    cr_expect_gt(failed, 40u, "%u places have failed", failed);
    cr_expect_eq(lean_places(), failed);
}

Test(short, every_so_many_th_allocation_fails, .timeout = 120)
{
    for (unsigned every = 2; every < 40; every++)
        for (unsigned skip = 0; skip < 4; skip++) {
            lean_fail_every(every, skip * every / 4);
            life();
        }
}

/* Who asks must not be told that the question was too large when it was not. */
Test(short, an_answer_for_which_there_is_no_memory_is_told_as_such)
{
    unsigned told = 0;
    begin();
    client_hello();
    for (uint32_t peer = ONE; peer <= TWO; peer++)
        worker_hello(peer);
    lean_fail_none();
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    size_t known = reply->n_models;
    penstock__control_reply__free_unpacked(reply, NULL);
    for (unsigned long k = 1;; k++) {
        enum pen_status status = PEN_OK;
        lean_fail_kth(k);
        desk_question(desk, CLIENT, "models", "");
        bool all = lean_count() < k;
        lean_fail_none();
        reply = desk_answer(desk, &status);
        cr_assert(!reply || status == PEN_OK || status == PEN_ERR_NO_MEMORY, "allocation %lu: %d", k, (int)status);
        cr_assert(!reply || reply->n_models == (status == PEN_OK ? known : 0));
        cr_assert(status == PEN_OK || strcmp(reply->error, "the broker has no memory for the answer") == 0);
        told += status == PEN_ERR_NO_MEMORY;
        if (reply)
            penstock__control_reply__free_unpacked(reply, NULL);
        if (all)
            break;
    }
    cr_expect_geq(told, 2u, "the arena's and the message's");
    end();
}
