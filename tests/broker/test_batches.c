/* When batches close, and with what: on the desk. */
#include <criterion/criterion.h>
#include <string.h>

#include "batch.h"
#include "flow_desk.h"
#include "patch.h"

Test(batches, batch_closes_when_full)
{
    struct desk *desk = flow_desk(1);
    for (uint64_t i = 1; i <= 3; i++)
        flow_submit(desk, "batchy", i, (struct wire_job){.fill = 1});
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "company may come");
    flow_submit(desk, "batchy", 4, (struct wire_job){.fill = 1});
    struct sent *out = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_groups(out), 4);
    for (uint64_t i = 1; i <= 4; i++)
        desk_result(desk, 901, (struct job_id){0xA, i}, 0, 1);
    Penstock__ResultMeta *result = sent_result(desk_next(&desk->clients, FRAME_RESULT));
    cr_assert_eq(result->batch_size, 4);
    cr_assert_str_eq(result->batch_reason, "full");
    penstock__result_meta__free_unpacked(result, NULL);
    desk_free(desk);
}

Test(batches, batch_closes_by_delay_and_shapes_do_not_mix)
{
    struct desk *desk = flow_desk(1);
    flow_submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .dims = {1, 4}});
    flow_submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .dims = {1, 9}});
    flow_submit(desk, "batchy", 3, (struct wire_job){.fill = 1, .dims = {2, 4}});
    desk_wait(desk, 2999);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_wait(desk, 1);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    desk_wait(desk, 150000);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_groups(first), 2, "1 and 3");
    cr_assert_eq(sent_job(first, 1).sequence, 3);
    cr_assert_eq(sent_groups(second), 1);
    desk_free(desk);
}

Test(batches, a_lonely_caller_does_not_wait_for_company_for_ever)
{
    struct desk *desk = flow_desk(1);
    for (uint64_t i = 1; i <= 5; i++) {
        flow_submit(desk, "batchy", i, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT) == 1, i == 5, "job %lu", (unsigned long)i);
        desk_wait(desk, 3000);
        cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
        desk_result_status(desk, 901, (struct job_id){0xA, i}, PEN_OK, 50000);
    }
    for (uint64_t i = 11; i <= 14; i++)
        flow_submit(desk, "batchy", i, (struct wire_job){.fill = 1}); /* one runs alone, three find each other */
    desk_result_status(desk, 901, (struct job_id){0xA, 11}, PEN_OK, 50000);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    flow_submit(desk, "batchy", 15, (struct wire_job){.fill = 1});
    for (uint64_t i = 12; i <= 14; i++)
        desk_result_status(desk, 901, (struct job_id){0xA, i}, PEN_OK, 60000);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "15 waits for company again");
    desk_free(desk);
}

/* Company that comes now and then while the delay is longer than what it saves: waiting would cost more than it gives. */
Test(batches, company_that_saves_less_than_it_waits_is_not_waited_for)
{
    struct desk *desk = flow_desk(1);
    for (uint64_t i = 1; i <= LATENCY_STRAYS + BATCH_SOLO_MAX; i++) { /* until it is known how quick one is, and then */
        flow_submit(desk, "batchy", 10 * i, (struct wire_job){.fill = 1});
        flow_submit(desk, "batchy", 10 * i + 1, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
        desk_wait(desk, 3000);
        cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2);
        desk_result_status(desk, 901, (struct job_id){0xA, 10 * i}, PEN_OK, 30);
        desk_result_status(desk, 901, (struct job_id){0xA, 10 * i + 1}, PEN_OK, 30);
        latency_learn(&(*desk->broker.fleet.all.tqh_first->offers[2]).latency, 1, 20, desk->broker.now_us);
    }
    flow_submit(desk, "batchy", 500, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1);
    desk_free(desk);
}

/* A batch that may still grow goes as late as the slot allows: half of its time before the running one ends. */
Test(batches, a_batch_grows_until_its_slot_is_nearly_free)
{
    struct desk *desk = desk_new();
    const struct wire_model model = {.name = "net",
                                     .version = 1,
                                     .backend = "xnnpack",
                                     .precision = PRECISION_F32,
                                     .digest = 7,
                                     .max_batch = 8,
                                     .warm_us = 400,
                                     .dim = -1};
    desk_open(desk);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 1, .name = "one", .slots = 1, .models = &model, .models_count = 1});
    desk_client(desk, 1, 0xA);
    latency_seed(&desk->broker.fleet.all.tqh_first->offers[0]->latency, 8, 400);
    flow_submit(desk, "net", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 1, "the slot was idle");
    for (uint64_t i = 2; i <= 4; i++)
        flow_submit(desk, "net", i, (struct wire_job){.fill = 1});
    desk_wait(desk, 199);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0, "400 us from now it will still be early enough");
    flow_submit(desk, "net", 5, (struct wire_job){.fill = 1});
    desk_wait(desk, 1);
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 4);
    for (uint64_t i = 6; i <= 12; i++)
        flow_submit(desk, "net", i, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    flow_submit(desk, "net", 13, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 8, "full: nothing is gained by waiting");
    desk_free(desk);
}

/* The broker learns that company costs what it saves, stops, says so, and finds out when that has changed. */
Test(batches, batches_that_do_not_pay_are_given_up_until_they_do)
{
    struct desk *desk = desk_new();
    const struct wire_model model = {.name = "net",
                                     .version = 1,
                                     .backend = "xnnpack",
                                     .precision = PRECISION_F32,
                                     .digest = 7,
                                     .max_batch = 8,
                                     .warm_us = 10000,
                                     .dim = -1};
    uint64_t next = 1, rows = 0, batches = 0, full = 0;
    unsigned one_by_one = 0, tried = 0;
    desk_open(desk);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 1, .name = "one", .slots = 1, .models = &model, .models_count = 1});
    desk_client(desk, 1, 0xA);
    latency_seed(&desk->broker.fleet.all.tqh_first->offers[0]->latency, 8, 25000); /* a promise that is not kept */
    for (uint64_t round = 0; round < 2500 && full < 30; round++) {
        while (desk->broker.live < 20)
            flow_submit(desk, "net", next++, (struct wire_job){.fill = 1});
        struct sent *out = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_assert_not_null(out);
        size_t last_rows = sent_groups(out);
        bool kept = round > 700; /* another tenant of that machine has gone */
        uint64_t us = kept ? 7000 + 3000 * last_rows : 10000 * last_rows;
        desk_wait(desk, us);
        for (size_t i = 0; i < last_rows; i++)
            desk_result_status(desk, 901, sent_job(out, i), PEN_OK, us);
        for (size_t i = 0; i < last_rows; i++) {
            Penstock__ResultMeta *result = sent_result(desk_next(&desk->clients, FRAME_RESULT));
            one_by_one += strcmp(result->batch_reason, "unpaid") == 0;
            tried += strcmp(result->batch_reason, "explore") == 0;
            penstock__result_meta__free_unpacked(result, NULL);
        }
        full += kept && last_rows == 8;
        if (round > 50 && round <= 700) {
            rows += last_rows;
            batches++;
        }
    }
    cr_assert_lt(rows, batches + batches / 5, "%lu rows in %lu batches", (unsigned long)rows, (unsigned long)batches);
    cr_assert_gt(one_by_one, 600);
    cr_assert(tried > 0 && tried < 100, "%u", tried);
    cr_assert_eq(full, 30, "it pays now");
    desk_free(desk);
}

static void result_of_batch(struct desk *desk, uint64_t sequence, uint64_t us, uint64_t jobs)
{
    uint8_t meta[512];
    struct envelope env = envelope_make(FRAME_RESULT);
    struct patch patch = {.used = 0};
    env.job = (struct job_id){0xA, sequence};
    size_t bytes = wire_result(meta, 1, "xnnpack", PRECISION_F32, us, NULL);
    patch_number(&patch, 14, jobs);
    memcpy(meta + bytes, patch.bytes, patch.used);
    desk_say_worker(desk, 901, env, meta, bytes + patch.used);
}

/* A worker that runs the jobs of a failed batch one by one, or leaves out one that was cancelled, tells the time of something else. */
Test(batches, only_whole_batches_teach_how_long_they_take)
{
    for (uint64_t jobs = 1; jobs <= 4; jobs++) {
        struct desk *desk = flow_desk(1);
        const struct latency_model *latency = &desk->broker.fleet.all.tqh_first->offers[2]->latency;
        for (uint64_t i = 1; i <= 4; i++)
            flow_submit(desk, "batchy", i, (struct wire_job){.fill = 1});
        for (uint64_t i = 1; i <= 4; i++)
            result_of_batch(desk, i, 70000, jobs);
        cr_assert_eq(latency_expect_us(latency, 4), jobs == 4 ? 70000 : 4 * 50000, "%lu", (unsigned long)jobs);
        cr_assert_eq(desk->broker.stats.results_duplicate, 0);
        desk_free(desk);
    }
}

/* Another client is ahead by fairness or priority; whose time runs out decides when the batch closes. */
Test(batches, a_batch_closes_for_the_first_deadline_in_it_and_by_the_age_of_its_oldest)
{
    struct desk *desk = flow_desk(1);
    desk_client(desk, 2, 0xB);
    flow_submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .priority = 1});
    desk_submit(
        desk, 2,
        &(struct wire_job){.id = {0xB, 1}, .model = "batchy", .no_digest = true, .fill = 1, .deadline_us = 152000});
    desk_wait(desk, 1999);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    desk_wait(desk, 1);
    struct sent *out = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(out, "three rows are expected to take 150 ms");
    cr_assert_eq(sent_groups(out), 2);
    for (uint64_t client = 0xA; client <= 0xB; client++)
        desk_result_status(desk, 901, (struct job_id){client, 1}, PEN_OK, 60000);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xB, 2}, .model = "batchy", .no_digest = true, .fill = 1});
    desk_wait(desk, 2000);
    flow_submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .priority = 1});
    desk_wait(desk, 999);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    desk_wait(desk, 1);
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2, "3 ms after the first of them came");
    desk_free(desk);
}

/* What config.json asks for reaches the decision. */
Test(batches, a_preferred_size_is_not_waited_beyond)
{
    struct desk *desk = flow_desk(1);
    uint32_t preferred[] = {2};
    Penstock__ModelOffer *meta = (Penstock__ModelOffer *)(uintptr_t)desk->broker.fleet.all.tqh_first->offers[2]->meta;
    flow_submit(desk, "batchy", 1, (struct wire_job){.fill = 1});
    flow_submit(desk, "batchy", 2, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    meta->preferred_batch_size = preferred;
    meta->n_preferred_batch_size = 1;
    flow_submit(desk, "batchy", 3, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2);
    meta->n_preferred_batch_size = 0;
    desk_free(desk);
}

Test(batches, rows_count_not_jobs)
{
    struct desk *desk = flow_desk(1);
    flow_submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .dims = {3, 4}});
    flow_submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .dims = {2, 4}});
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(first, "5 rows wait, 4 fill a batch");
    cr_assert_eq(sent_groups(first), 1, "3 + 2 are too many");
    desk_free(desk);
}
