/* How long before its slot is free the next job is sent: a little; and with pictures, by their decoding earlier. */
#include <criterion/criterion.h>

#include "desk.h"

#define CLIENT 1u
#define WORKER 11u
#define RUN_US 20000u

static struct wire_model model = {.name = "net",
                                  .version = 1,
                                  .backend = "xnnpack",
                                  .precision = PRECISION_F32,
                                  .digest = 1,
                                  .warm_us = RUN_US,
                                  .dim = 4};
static struct desk *desk;
static uint64_t submitted;

static void begin(void)
{
    struct wire_worker worker = {.uuid = 0xA1, .name = "w", .slots = 1, .models = &model, .models_count = 1};
    desk = desk_new();
    desk_open(desk);
    desk_client(desk, CLIENT, 0xC1);
    desk_worker(desk, WORKER, &worker);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(ahead, .init = begin, .fini = end);

static struct job_id submit(void)
{
    struct wire_job job = {.id = {0xC1, ++submitted}, .model = "net", .dims = {1, 4}};
    desk_submit(desk, CLIENT, &job);
    return job.id;
}

/* The worker's answer after a run of RUN_US; field 34 of its meta is decode_us. */
static void answer(struct job_id id, uint64_t decode_us)
{
    uint8_t meta[WIRE_META_BYTES + 16];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    size_t bytes = wire_result(meta, 1, "xnnpack", PRECISION_F32, RUN_US, NULL);
    meta[bytes++] = 0x90;
    meta[bytes++] = 0x02;
    for (; decode_us > 0x7F; decode_us >>= 7) {
        meta[bytes++] = (uint8_t)(decode_us | 0x80);
    }
    meta[bytes++] = (uint8_t)decode_us;
    desk_say_worker(desk, WORKER, env, meta, bytes);
}

/* Runs one job whose pictures took so long, then gives the slot another and counts what is sent behind it. */
static void learn(uint64_t decode_us)
{
    struct job_id first = submit();
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_wait(desk, RUN_US);
    answer(first, decode_us);
    submit();
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    submit();
}

static size_t sent_within(uint64_t us)
{
    desk_wait(desk, us);
    return desk_pending(&desk->workers, FRAME_SUBMIT);
}

Test(ahead, without_pictures_the_next_job_waits_until_the_slot_is_nearly_free)
{
    learn(0);
    cr_assert_eq(sent_within(RUN_US - 3000), 0u);
    cr_assert_eq(sent_within(2500), 1u);
}

Test(ahead, a_job_with_pictures_comes_earlier_by_their_decoding)
{
    learn(8000);
    cr_assert_eq(sent_within(RUN_US - 11000), 0u);
    cr_assert_eq(sent_within(2500), 1u);
}

Test(ahead, no_decoding_is_so_long_that_all_are_sent_at_once)
{
    learn(UINT64_C(10000000));
    cr_assert_eq(desk->broker.fleet.count, 1u);
    const struct worker *worker = TAILQ_FIRST(&desk->broker.fleet.all);
    cr_assert_eq(worker->offers[0]->prepare_us, PREPARE_US_MAX);
    for (int i = 0; i < 20; i++) {
        submit();
    }
    cr_assert_leq(worker->jobs, 8u, "%u jobs", worker->jobs);
}
