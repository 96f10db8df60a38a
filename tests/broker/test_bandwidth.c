/* Payloads on their way count when a worker is chosen: a mean, how it is forgotten, and two workers at unlike distances. */
#include <criterion/criterion.h>

#include "desk.h"
#include "bandwidth.h"

enum { MIB = 1024 * 1024, RUN_US = 5000, SMALL = 100, LARGE = 300000 };

Test(bandwidth, nothing_measured_is_a_thousand_bytes_each_microsecond)
{
    const struct bandwidth bandwidth = {0};
    cr_expect_eq(bandwidth_us(&bandwidth, 0, 7), 0);
    cr_expect_eq(bandwidth_us(&bandwidth, MIB, 7), 1048);
}

Test(bandwidth, is_learnt_from_large_payloads_and_strays_move_it_by_an_eighth)
{
    struct bandwidth bandwidth = {0};
    bandwidth_learn(&bandwidth, BANDWIDTH_BYTES_MIN - 1, 1000000, 0);
    cr_expect_eq(bandwidth_us(&bandwidth, MIB, 0), 1048, "small ones tell nothing of the line");
    bandwidth_learn(&bandwidth, MIB, 10000, 0);
    cr_expect_eq(bandwidth_us(&bandwidth, MIB, 0), 1048 + (10000 - 1048) / 8 - 1);
    for (int i = 0; i < 60; i++)
        bandwidth_learn(&bandwidth, MIB, 10000, 0);
    cr_expect(bandwidth_us(&bandwidth, MIB, 0) > 9900 && bandwidth_us(&bandwidth, MIB, 0) <= 10000);
    bandwidth_learn(&bandwidth, MIB, UINT64_MAX, 0);
    cr_expect_lt(bandwidth_us(&bandwidth, MIB, 0), UINT64_MAX / 1000000, "no answer overflows it");
}

Test(bandwidth, fades_to_what_everybody_is_given_at_first)
{
    struct bandwidth bandwidth = {0};
    for (int i = 0; i < 60; i++)
        bandwidth_learn(&bandwidth, MIB, 9000, 1000);
    uint64_t learnt_us = bandwidth_us(&bandwidth, MIB, 1000),
             half_us = bandwidth_us(&bandwidth, MIB, 1000 + BANDWIDTH_FADE_US);
    cr_expect(half_us > (learnt_us + 1048) / 2 - 50 && half_us < (learnt_us + 1048) / 2 + 50, "%lu",
              (unsigned long)half_us);
    cr_expect_eq(bandwidth_us(&bandwidth, MIB, 1000 + 100ull * BANDWIDTH_FADE_US), 1048);
}

/* ---- two workers ---------------------------------------------------------------------------------------------------------------------- */

enum { FAR = 1000, NEAR = 1001 };

/* The far one is a little quicker. */
static uint64_t run_us(uint32_t peer)
{
    return peer == FAR ? RUN_US : RUN_US + 200;
}

static struct desk *open_two(void)
{
    struct wire_model model = {
        .name = "net", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .digest = 1, .dim = -1};
    struct desk *desk = desk_new();
    desk_open(desk);
    desk->options.liveness_us = 3600000000;
    for (uint32_t peer = FAR; peer <= NEAR; peer++) {
        model.warm_us = run_us(peer);
        desk_worker(
            desk, peer,
            &(struct wire_worker){
                .uuid = peer, .name = peer == FAR ? "far" : "near", .slots = 1, .models = &model, .models_count = 1});
    }
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, int64_t bytes)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){
            .id = {0xA, sequence}, .model = "net", .dims = {1, bytes}, .raw = bytes >= LARGE, .no_digest = true});
}

/* By its own word the worker had it for as long as a run takes. */
static void answer(struct desk *desk, uint32_t peer, struct job_id id)
{
    uint8_t packed[WIRE_META_BYTES];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    wire_give(&result);
    result.compute_us = result.worker_us = run_us(peer);
    desk_say_worker(desk, peer, env, packed, penstock__result_meta__pack(&result, packed));
}

/* Who gets a job of that size when both are idle. */
static uint32_t chosen(struct desk *desk, uint64_t *sequence, int64_t bytes)
{
    submit(desk, ++*sequence, bytes);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent, "job %lu of %ld bytes", (unsigned long)*sequence, (long)bytes);
    desk_wait(desk, run_us(sent->peer));
    answer(desk, sent->peer, sent_job(sent, 0));
    return sent->peer;
}

Test(bandwidth, large_jobs_go_to_the_worker_that_they_reach_first_and_small_ones_do_not_care)
{
    struct desk *desk = open_two();
    uint64_t sequence = 0;
    cr_expect_eq(chosen(desk, &sequence, SMALL), FAR);
    for (int round = 0; round < 6; round++) { /* two at a time: both are measured */
        struct job_id ids[2];
        for (int i = 0; i < 2; i++)
            submit(desk, ++sequence, LARGE);
        for (int i = 0; i < 2; i++) {
            struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
            cr_assert_not_null(sent);
            ids[sent->peer - FAR] = sent_job(sent, 0);
        }
        desk_wait(desk, run_us(NEAR) + 100);
        answer(desk, NEAR, ids[1]);
        desk_wait(desk, 3000); /* less than to wait for the near one */
        answer(desk, FAR, ids[0]);
    }
    cr_expect_eq(chosen(desk, &sequence, LARGE), NEAR);
    cr_expect_eq(chosen(desk, &sequence, SMALL), FAR);
    desk_wait(desk, 100 * (uint64_t)BANDWIDTH_FADE_US);
    cr_expect_eq(chosen(desk, &sequence, LARGE), FAR, "forgotten in the end: the line may have been busy");
    desk_free(desk);
}
