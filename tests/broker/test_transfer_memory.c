/* Results whose announced payload finds no memory, on the desk: their jobs were accepted, so they wait for it. Memory of large blocks is refused here at will. */
#include <criterion/criterion.h>
#include <string.h>

#include "bulk.h"
#include "desk_bulk.h"
#include "large_block.h"

#define MIB     (1024u * 1024u)
#define LARGE   (2 * LARGE_BLOCK_BYTES)
#define SMALL   (2 * MIB)
#define CLIENT  1u
#define WORKER  2u
#define SESSION 0xC1u
#define UUID    0xA1u

static const struct wire_model models[] = {{.name = "wide",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .warm_us = 1000,
                                            .digest = 9,
                                            .dim = -1},
                                           {.name = "many",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .warm_us = 1000,
                                            .digest = 8,
                                            .gives_more = DESK_FRAMES_MAX - 1}};
static struct desk *desk;
static bool none;      /* no memory for large blocks */
static size_t lacking; /* blocks of that size are refused, too; 0 = none */
static unsigned asked;

/* In place of the real one (--wrap). */
void *__real_large_block_take(size_t bytes, void **ret_hint);
void *__wrap_large_block_take(size_t bytes, void **ret_hint);
void *__wrap_large_block_take(size_t bytes, void **ret_hint)
{
    asked++;
    return none ? NULL : __real_large_block_take(bytes, ret_hint);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return lacking > 0 && bytes == lacking ? NULL : __real_malloc(bytes);
}

static void begin(void)
{
    struct wire_worker worker = {
        .uuid = UUID, .name = "w", .slots = 4, .bulk = true, .models = models, .models_count = 2};
    desk = desk_new();
    desk_open(desk);
    desk_client_bulk(desk, CLIENT, SESSION, "");
    desk_worker(desk, WORKER, &worker);
    desk_attach(desk, DESK_WORKER, WORKER + DESK_BULK, UUID);
    none = true;
    lacking = 0;
    asked = 0;
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(transfer_memory, .init = begin, .fini = end);

static struct job_id submit(uint64_t sequence)
{
    struct wire_job job = {.id = {SESSION, sequence}, .model = "wide", .dims = {1, 1000}, .no_cache = true};
    job.digest = (uint8_t)sequence;
    desk_submit(desk, CLIENT, &job);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && job_id_equal(sent->env.job, job.id));
    return job.id;
}

static void announce(struct job_id id, size_t bytes, uint32_t number)
{
    desk_announce_result(desk, WORKER, id, bytes, number);
}

static void send_chunks(struct job_id id, uint32_t number, uint64_t bytes)
{
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, id, number, 0, bytes);
}

/* Both peers are heard of meanwhile. */
static void wait_us(uint64_t us)
{
    for (uint64_t step = 500000; us > 0; us -= step) {
        step = us < step ? us : step;
        desk_say_worker(desk, WORKER, envelope_make(FRAME_PING), NULL, 0);
        desk_say_client(desk, CLIENT, envelope_make(FRAME_PING), NULL, 0, 0);
        desk_wait(desk, step);
    }
}

static void expect_answer(struct job_id id)
{
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(result);
    cr_expect(job_id_equal(result->env.job, id));
    cr_expect_eq(result->env.status, PEN_OK);
}

Test(transfer_memory, a_result_waits_for_memory_and_its_job_is_answered)
{
    struct job_id id = submit(1);
    announce(id, LARGE, 3);
    wait_us(900000);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CREDIT), 0u);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0u, "the worker keeps it: nothing is computed again");
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
    cr_expect(asked >= 20 && asked <= 60, "asked %u times in 0.9 s", asked);
    none = false;
    wait_us(50000);
    struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(granted && granted->env.transfer == 3 && granted->env.status == PEN_OK);
    send_chunks(id, 3, LARGE);
    expect_answer(id);
}

/* The list of its frames has room for 16 at first. */
Test(transfer_memory, a_result_of_many_frames_that_found_no_memory_for_their_list_is_answered_like_any_other)
{
    struct job_id id = {SESSION, 1};
    desk_submit(desk, CLIENT, &(struct wire_job){.id = id, .model = "many"});
    lacking = 32 * sizeof(zmq_msg_t);
    none = false;
    desk_announce_frames(desk, WORKER, id, DESK_FRAMES_MAX, BULK_CHUNK_BYTES, 3);
    wait_us(100000);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CREDIT), 0u);
    lacking = 0;
    wait_us(50000);
    cr_expect_gt(desk_pending(&desk->workers, FRAME_CREDIT), 0u);
    send_chunks(id, 3, (uint64_t)DESK_FRAMES_MAX * BULK_CHUNK_BYTES);
    expect_answer(id);
}

Test(transfer_memory, smaller_results_pass_one_that_waits_and_it_waits_on_while_they_do)
{
    struct job_id large = submit(1);
    announce(large, LARGE, 3);
    for (uint32_t i = 4; i < 9; i++) {
        struct job_id small = submit(i);
        announce(small, SMALL, i);
        struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
        cr_assert(granted && granted->env.transfer == i);
        send_chunks(small, i, SMALL);
        expect_answer(small);
        wait_us(900000);
    }
    none = false;
    wait_us(50000);
    struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
    while (granted && granted->env.transfer == 8) /* the rest of the last small one */
        granted = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(granted && granted->env.transfer == 3 && granted->env.status == PEN_OK);
}

Test(transfer_memory, where_nothing_gives_memory_back_one_is_told_busy_and_the_next_waits_on)
{
    struct job_id first = submit(1), second = submit(2);
    announce(first, LARGE, 3);
    announce(second, LARGE, 4);
    wait_us(1100000);
    struct sent *declined = desk_next(&desk->workers, FRAME_CREDIT), *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(declined && declined->env.transfer == 3 && result);
    cr_expect_eq(declined->env.status, PEN_ERR_CANCELLED);
    cr_expect(job_id_equal(result->env.job, first));
    cr_expect_eq(result->env.status, PEN_ERR_BUSY);
    Penstock__ResultMeta *meta = sent_result(result);
    cr_expect_not_null(strstr(meta->error, "no memory for the result"), "%s", meta->error);
    penstock__result_meta__free_unpacked(meta, NULL);
    wait_us(500000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
    none = false;
    wait_us(50000);
    send_chunks(second, 4, LARGE);
    expect_answer(second);
    unsigned before = asked;
    wait_us(1000000);
    cr_expect_eq(asked, before, "nobody asks for it any more");
}

Test(transfer_memory, a_lost_worker_leaves_nobody_waiting)
{
    announce(submit(1), LARGE, 3);
    side_lose(&desk->workers, WORKER);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 500000);
    unsigned before = asked;
    desk_wait(desk, 1000000);
    cr_expect_eq(asked, before);
}
