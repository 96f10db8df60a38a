/*
 * Allocations of the broker fail again and again, every so many-th, while jobs come, run, are cancelled and answered on the desk: nothing crashes, every job gets one
 * answer, and when there is memory again all is served. The linker leads the broker's allocations and the desk's calls of it through here.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "desk.h"
#include "client_handler.h"

enum { CLIENT = 1, WORKER = 11, WORKERS = 2, JOBS = 60, ROUNDS = 40 };

static unsigned every;      /* so many-th allocation fails, 0 = none */
static unsigned long count; /* of them */
static unsigned long failed;
static unsigned inside; /* the broker */

static bool fails(size_t bytes)
{
    if (every == 0 || inside == 0 || bytes == sizeof(struct sent)) /* the desk takes notes of what is sent */
        return false;
    bool now = ++count % every == 0;
    failed += now;
    return now;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t items, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
int __real_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes);
void __real_client_message(struct broker *broker, struct message *message);
void __real_worker_message(struct broker *broker, struct message *message);
void __real_broker_tick(struct broker *broker);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
int __wrap_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes);
void __wrap_client_message(struct broker *broker, struct message *message);
void __wrap_worker_message(struct broker *broker, struct message *message);
void __wrap_broker_tick(struct broker *broker);

void *__wrap_malloc(size_t bytes)
{
    return fails(bytes) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t items, size_t bytes)
{
    return fails(items * bytes) ? NULL : __real_calloc(items, bytes);
}

void *__wrap_realloc(void *block, size_t bytes)
{
    return fails(bytes) ? NULL : __real_realloc(block, bytes);
}

int __wrap_zmq_msg_init_size(zmq_msg_t *frame, size_t bytes)
{
    return fails(bytes) ? -1 : __real_zmq_msg_init_size(frame, bytes);
}

void __wrap_client_message(struct broker *broker, struct message *message)
{
    inside++;
    __real_client_message(broker, message);
    inside--;
}

void __wrap_worker_message(struct broker *broker, struct message *message)
{
    inside++;
    __real_worker_message(broker, message);
    inside--;
}

void __wrap_broker_tick(struct broker *broker)
{
    inside++;
    __real_broker_tick(broker);
    inside--;
}

static const struct wire_model net = {.name = "a",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .digest = 1,
                                      .cacheable = true,
                                      .warm_us = 1000,
                                      .dim = 4,
                                      .max_batch = 8};

static struct desk *desk;
static unsigned answers[JOBS + 1];
static unsigned told[PEN_STATUS_COUNT]; /* by status, over all scenarios */

static struct wire_worker worker_of(uint32_t number)
{
    return (struct wire_worker){
        .uuid = 100 + number, .name = number ? "two" : "one", .slots = 2, .models = &net, .models_count = 1};
}

/* Some alike, so that they join or hit the cache. */
static void submit(uint64_t sequence)
{
    struct wire_job job = {.id = {CLIENT, sequence}, .model = "a", .digest = (uint8_t)(sequence % 17 + 1)};
    job.no_digest = sequence % 3 == 0;
    desk_submit(desk, CLIENT, &job);
}

/* What clients were told: each answer once. */
static void read_answers(void)
{
    struct sent *sent;
    while ((sent = desk_next(&desk->clients, FRAME_RESULT)) != NULL) {
        cr_assert(sent->env.job.sequence >= 1 && sent->env.job.sequence <= JOBS);
        answers[sent->env.job.sequence]++;
        told[sent->env.status]++;
    }
}

/* Workers answer all they were given; who is asked to say hello again does. */
static void work(void)
{
    struct side *side = &desk->workers;
    for (; side->first < side->count; side->first++) {
        const struct sent *sent = side->sent[side->first];
        struct wire_worker worker = worker_of(sent->peer - WORKER);
        uint8_t meta[WIRE_META_BYTES];
        if (sent->env.type == FRAME_RESUME)
            desk_say_worker(desk, sent->peer, envelope_make(FRAME_WORKER_HELLO), meta,
                            wire_worker_hello(meta, &worker));
        for (size_t i = 0; sent->env.type == FRAME_SUBMIT && i < sent_groups(sent); i++) {
            struct job_id id = sent_job(sent, i);
            desk_result(desk, sent->peer, id, (uint8_t)(id.sequence % 17 + 1), 7);
        }
    }
}

static void turn(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        desk_say_worker(desk, WORKER + i, envelope_make(FRAME_PING), NULL, 0);
    desk_say_client(desk, CLIENT, envelope_make(FRAME_PING), NULL, 0, 0);
    work();
    desk_wait(desk, 50000);
    work();
    read_answers();
}

static size_t unanswered(void)
{
    size_t left = 0;
    for (size_t i = 1; i <= JOBS; i++)
        left += answers[i] == 0;
    return left;
}

/* As a client does that heard nothing: the same job id again. */
static void submit_again(void)
{
    for (uint64_t i = 1; i <= JOBS; i++)
        if (answers[i] == 0)
            submit(i);
}

static void scenario(unsigned every_now)
{
    memset(answers, 0, sizeof answers);
    desk = desk_new();
    desk_open(desk);
    desk_client(desk, CLIENT, CLIENT);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct wire_worker worker = worker_of(i);
        desk_worker(desk, WORKER + i, &worker);
    }
    every = every_now;
    for (uint64_t i = 1; i <= JOBS; i++) {
        submit(i);
        if (i % 7 == 0)
            desk_cancel(desk, CLIENT, (struct job_id){CLIENT, i - 1});
        if (i % 5 == 0)
            turn();
    }
    for (int i = 0; i < 4; i++)
        turn();
    every = 0;
    submit_again();
    for (int round = 0; round < ROUNDS && unanswered() > 0; round++)
        turn();
    for (size_t i = 1; i <= JOBS; i++)
        cr_expect_eq(answers[i], 1u, "every %u: job %zu has %u answers", every_now, i, answers[i]);
    memset(answers, 0, sizeof answers);
    cr_expect_eq(desk->broker.live, 0u, "every %u: %zu live", every_now, (size_t)desk->broker.live);
    cr_expect_eq(desk->broker.queued_bytes, 0u, "every %u", every_now);
    desk_free(desk);
}

Test(lean, every_job_gets_one_answer_whatever_allocation_fails, .timeout = 120)
{
    static const unsigned rows[] = {2, 3, 4, 5, 7, 11, 13, 17, 23, 31, 47, 61, 97, 151, 331, 701};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned from = 0; from < 4; from++) {
            count = from * rows[i] / 4;
            scenario(rows[i]);
        }
    unsigned others = 0;
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++) {
        bool expected = i == PEN_OK || i == PEN_ERR_BUSY || i == PEN_ERR_CANCELLED || i == PEN_ERR_NO_MEMORY;
        others += expected ? 0 : told[i];
    }
    cr_expect_eq(others, 0u);
    cr_expect(told[PEN_OK] > 1000 && told[PEN_ERR_BUSY] > 100, "OK %u, BUSY %u", told[PEN_OK], told[PEN_ERR_BUSY]);
    cr_expect_gt(failed, 1000u, "%lu allocations failed", failed);
}
