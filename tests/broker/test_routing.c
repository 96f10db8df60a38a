/* Routing among many and unlike workers: nobody is overlooked, the quick ones get more, the slow ones help. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const struct wire_model model = {
    .name = "net", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 50000, .digest = 1};

static struct desk *many(uint32_t count, uint32_t tagged)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        struct wire_model own = model;
        own.warm_us += i; /* ever slower: the order is certain */
        snprintf(name, sizeof name, "w%u", i);
        desk_worker(desk, 1000 + i,
                    &(struct wire_worker){.uuid = 1 + i,
                                          .name = name,
                                          .slots = 1,
                                          .tag = i == tagged ? "rack7" : NULL,
                                          .models = &own,
                                          .models_count = 1});
    }
    desk_client(desk, 1, 0xA);
    return desk;
}

static struct sent *submit(struct desk *desk, uint64_t sequence, const char *tag)
{
    desk_submit(desk, 1, &(struct wire_job){.id = {0xA, sequence}, .model = "net", .tag = tag, .no_digest = true});
    return desk_next(&desk->workers, FRAME_SUBMIT);
}

Test(routing, who_may_run_a_job_takes_work_and_is_what_it_asks_for)
{
    struct desk *desk = many(2, 1);
    const struct model *net = model_find(&desk->broker.models, "net", 1);
    struct demand pinned = {.worker = 2}, elsewhere = {.worker = 3}, other = {.backend = "reference"},
                  tagged = {.tags = "rack7\n"};
    cr_expect(model_served(net, &pinned) && model_served(net, &tagged) && model_served(net, NULL));
    cr_expect_not(model_served(net, &elsewhere), "a worker that does not offer it");
    cr_expect_not(model_served(net, &other));
    desk_say_worker(desk, 1001, envelope_make(FRAME_DRAIN), NULL, 0);
    cr_expect_not(model_served(net, &pinned) || model_served(net, &tagged), "it takes no more work");
    cr_expect(model_served(net, NULL), "the other one does");
    desk_say_worker(desk, 1000, envelope_make(FRAME_DRAIN), NULL, 0);
    cr_expect_not(model_served(net, NULL));
    desk_free(desk);
}

/* Jobs of about 1 KiB each, a batch of two more than it takes: it would answer BUSY, and again, until a job's attempts are over. */
Test(routing, a_worker_gets_no_more_bytes_than_it_told)
{
    static const size_t took[][2] = {
        {0, 4}, {5 * 1100, 4}, {2 * 1100 + 500, 2}, {500, 1}}; /* told, jobs of four that it gets */
    for (size_t i = 0; i < sizeof took / sizeof *took; i++) {
        struct desk *desk = desk_new();
        struct wire_model batched = model;
        batched.max_batch = 4;
        batched.dim = 1024;
        desk_open(desk);
        desk_worker(
            desk, 1000,
            &(struct wire_worker){
                .uuid = 1, .name = "w", .slots = 4, .queue_bytes = took[i][0], .models = &batched, .models_count = 1});
        desk_client(desk, 1, 0xA);
        size_t got = 0;
        for (uint64_t k = 1; k <= 4; k++)
            desk_submit(desk, 1,
                        &(struct wire_job){.id = {0xA, k}, .model = "net", .dims = {1, 1024}, .no_digest = true});
        for (struct sent *sent; (sent = desk_next(&desk->workers, FRAME_SUBMIT)) != NULL;)
            got += sent_groups(sent);
        cr_expect_eq(got, took[i][1], "%zu of %zu at %zu bytes", got, took[i][1], took[i][0]);
        desk_free(desk);
    }
}

Test(routing, each_of_three_hundred_workers_is_used_the_quickest_first)
{
    struct desk *desk = many(300, UINT32_MAX);
    for (uint32_t i = 0; i < 300; i++) {
        struct sent *sent = submit(desk, i + 1, NULL);
        cr_assert_not_null(sent, "job %u", i);
        cr_assert_eq(sent->peer, 1000 + i);
    }
    cr_assert_null(submit(desk, 301, NULL), "all are busy");
    desk_result_status(desk, 1203, (struct job_id){0xA, 204}, PEN_OK, 50000);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent->peer, 1203);
    desk_free(desk);
}

Test(routing, the_one_that_carries_the_tag_is_found_among_three_hundred)
{
    struct desk *desk = many(300, 277);
    cr_assert_eq(submit(desk, 1, "rack7")->peer, 1277);
    cr_assert_eq(submit(desk, 2, NULL)->peer, 1000);
    desk_free(desk);
}

Test(routing, who_proves_slower_than_its_word_falls_back)
{
    struct desk *desk = many(20, UINT32_MAX);
    cr_assert_eq(submit(desk, 1, NULL)->peer, 1000);
    desk_result_status(desk, 1000, (struct job_id){0xA, 1}, PEN_OK, 900000);
    cr_assert_eq(submit(desk, 2, NULL)->peer, 1001);
    desk_result_status(desk, 1001, (struct job_id){0xA, 2}, PEN_OK, 50000);
    cr_assert_eq(submit(desk, 3, NULL)->peer, 1001);
    desk_free(desk);
}

/* Two alike; the first has a bad minute, and gets nothing while the second has time; minutes later it is trusted again. */
Test(routing, a_worker_that_was_slow_for_a_while_is_tried_again)
{
    struct desk *desk = many(2, UINT32_MAX);
    desk->options.liveness_us = 3600000000;
    uint64_t sequence = 0;
    cr_assert_eq(submit(desk, ++sequence, NULL)->peer, 1000);
    desk_result_status(desk, 1000, (struct job_id){0xA, sequence}, PEN_OK, 2000000);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(submit(desk, ++sequence, NULL)->peer, 1001);
        desk_result_status(desk, 1001, (struct job_id){0xA, sequence}, PEN_OK, 50001);
    }
    desk_wait(desk, 25 * (uint64_t)LATENCY_FADE_US);
    cr_assert_eq(submit(desk, ++sequence, NULL)->peer, 1000, "as at first");
    desk_free(desk);
}

/* A GPU takes 4 ms for anything, a CPU 1 ms for a small network and 60 ms for a large one: measured, not declared. */
Test(routing, small_models_go_to_the_processor_and_large_ones_to_the_gpu_because_that_was_measured)
{
    static const char *const backends[] = {"xnnpack", "vulkan"};
    static const uint64_t took_us[2][2] = {{1000, 60000}, {4000, 5000}}; /* [worker][small, large] */
    struct desk *desk = desk_new();
    desk_open(desk);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_model models[2] = {model, model};
        models[0].name = "small";
        models[1].name = "large";
        models[0].backend = models[1].backend = backends[i];
        models[0].warm_us = models[1].warm_us = 10000; /* no difference by their own word */
        desk_worker(
            desk, 1000 + i,
            &(struct wire_worker){.uuid = 1 + i, .name = backends[i], .slots = 1, .models = models, .models_count = 2});
    }
    desk_client(desk, 1, 0xA);
    uint64_t sequence = 0;
    uint32_t last[2] = {0, 0};
    for (int round = 0; round < 40; round++) {
        for (int which = 0; which < 2; which++) {
            struct job_id ids[2] = {{0xA, sequence + 1}, {0xA, sequence + 2}};
            sequence += 2;
            for (int j = 0; j < (round < 4 ? 2 : 1); j++) /* two at a time at first: both are measured */
                desk_submit(desk, 1,
                            &(struct wire_job){.id = ids[j], .model = which ? "large" : "small", .no_digest = true});
            struct sent *sent;
            while ((sent = desk_next(&desk->workers, FRAME_SUBMIT))) {
                last[which] = sent->peer;
                desk_wait(desk, took_us[sent->peer - 1000][which]);
                desk_result_status(desk, sent->peer, sent_job(sent, 0), PEN_OK, took_us[sent->peer - 1000][which]);
            }
        }
    }
    cr_assert_eq(last[0], 1000, "the small one runs on the processor");
    cr_assert_eq(last[1], 1001, "the large one on the GPU");
    desk_free(desk);
}

Test(routing, a_worker_that_leaves_is_no_candidate)
{
    struct desk *desk = many(20, UINT32_MAX);
    desk_say_worker(desk, 1000, envelope_make(FRAME_DRAIN), NULL, 0);
    desk_say_worker(desk, 1001, envelope_make(FRAME_GOODBYE), NULL, 0);
    cr_assert_eq(submit(desk, 1, NULL)->peer, 1002);
    desk_free(desk);
}

/* One that takes 4 ms and one that takes 20: who starts on the slow one is a job that the fast one would be later with, not the one whose turn it is. */
Test(routing, the_slow_worker_gets_the_job_that_is_better_off_there)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_model own = model;
        own.warm_us = i ? 20000 : 4000;
        desk_worker(desk, 1000 + i,
                    &(struct wire_worker){
                        .uuid = 1 + i, .name = i ? "slow" : "fast", .slots = 1, .models = &own, .models_count = 1});
    }
    desk_client(desk, 1, 0xA);
    cr_assert_eq(submit(desk, 1, NULL)->peer, 1000);
    for (uint64_t sequence = 2; sequence <= 5; sequence++)
        cr_assert_null(submit(desk, sequence, NULL), "the fast one is done with job %lu before the slow one would be",
                       (unsigned long)sequence);
    struct sent *sent = submit(desk, 6, NULL);
    cr_assert_not_null(sent, "the fast one would be done with it at 24 ms");
    cr_expect_eq(sent->peer, 1001);
    cr_expect_eq(sent_job(sent, 0).sequence, 6, "the ones before it keep their turns on the fast one");
    desk_wait(desk, 4000);
    desk_result_status(desk, 1000, (struct job_id){0xA, 1}, PEN_OK, 4000);
    sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    cr_expect(sent->peer == 1000 && sent_job(sent, 0).sequence == 2);
    desk_free(desk);
}

/* ---- unlike workers, in simulated time ------------------------------------------------------------------------------------------------- */

#define JOBS 3000u

struct load {
    uint64_t sent_us[JOBS + 1], latency_us[JOBS];
    size_t answers, flying;
};

static void note(struct sim *sim, struct job_id id, void *arg)
{
    struct load *load = arg;
    load->latency_us[load->answers++] = sim_now_us(sim) - load->sent_us[id.sequence];
    load->flying--;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Jobs of 2 ms on workers so many times as slow; apart_us 0: 16 in flight always. Returns jobs a second and the p99. */
static double run(const uint64_t *factors, size_t workers, double apart_us, uint64_t *ret_p99_us)
{
    struct sim sim;
    static struct load load;
    static const uint64_t exec_us[] = {2000};
    uint64_t random = 88172645463325252u, sequence = 0;
    load = (struct load){.answers = 0};
    sim_init(&sim, exec_us, 1);
    sim.answered = note;
    sim.arg = &load;
    for (size_t i = 0; i < workers; i++)
        sim_worker(&sim, factors[i]);
    sim_hello(&sim, 1, 0xA, "");
    uint64_t start_us = sim_now_us(&sim);
    double next_us = (double)start_us;
    while (load.answers < JOBS) {
        while (sequence < JOBS && (apart_us > 0 ? next_us <= (double)sim_now_us(&sim) : load.flying < 16)) {
            load.sent_us[++sequence] = sim_now_us(&sim);
            load.flying++;
            sim_submit(&sim, 1, (struct job_id){0xA, sequence}, 0);
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            next_us -= log(1 - (double)(random >> 11) / 9007199254740992.0) * apart_us;
        }
        sim_step(&sim);
    }
    double rate = JOBS * 1e6 / (double)(sim_now_us(&sim) - start_us);
    sim_fini(&sim);
    qsort(load.latency_us, JOBS, sizeof load.latency_us[0], by_value);
    *ret_p99_us = load.latency_us[JOBS * 99 / 100];
    return rate;
}

Test(routing, a_slow_worker_beside_a_fast_one_adds_what_it_can)
{
    static const uint64_t fast[] = {1}, slow[] = {5}, both[] = {1, 5};
    uint64_t p99_us;
    double sum = run(fast, 1, 0, &p99_us) + run(slow, 1, 0, &p99_us), together = run(both, 2, 0, &p99_us);
    printf("together=%.0f of sum=%.0f jobs/s: %.3f\n", together, sum, together / sum);
    cr_assert_geq(together, 0.95 * sum);
}

Test(routing, at_half_load_a_slow_worker_costs_nobody_his_p99)
{
    static const uint64_t both[] = {1, 5};
    uint64_t alone_us, beside_us;
    run(both, 1, 4000, &alone_us);
    run(both, 2, 4000, &beside_us);
    printf("p99_alone_us=%llu p99_beside_us=%llu\n", (unsigned long long)alone_us, (unsigned long long)beside_us);
    cr_assert_leq(beside_us, alone_us);
}
