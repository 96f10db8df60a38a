/* Credit, batches, priorities, limits, what clients leave unread, drain, control. */
#include <criterion/criterion.h>
#include <string.h>

#include "batch.h"
#include "desk.h"
#include "patch.h"

static const struct wire_model models[] = {
    {.name = "slow", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 50000, .digest = 1},
    {.name = "fast", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 2},
    {.name = "batchy",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 3,
     .max_batch = 4,
     .delay_us = 3000,
     .dim = -1},
    {.name = "small",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 4,
     .max_queue = 2},
    {.name = "timed",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 5,
     .timeout_us = 7000},
};

static struct desk *ready_desk(uint32_t slots)
{
    struct desk *desk = desk_new();
    desk->options.queue_limit = 5;
    desk_open(desk);
    desk_worker(desk, 901,
                &(struct wire_worker){.uuid = 1, .name = "one", .slots = slots, .models = models, .models_count = 5});
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit(struct desk *desk, const char *model, uint64_t sequence, struct wire_job job)
{
    job.id = (struct job_id){0xA, sequence};
    job.model = model;
    job.no_digest = true;
    desk_submit(desk, 1, &job);
}

Test(flow, long_models_get_a_second_message_a_slot_when_the_first_is_nearly_done)
{
    struct desk *desk = ready_desk(2);
    for (uint64_t i = 1; i <= 6; i++)
        submit(desk, "slow", i, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    desk_wait(desk, 50000 - PREFETCH_US - 1);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "somebody more urgent may come");
    desk_wait(desk, 1);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 4, "by the time alone");
    desk_wait(desk, 100);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 4, "never a third");
    desk_result(desk, 901, (struct job_id){0xA, 2}, 0, 1);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 5);
    desk_free(desk);
}

Test(flow, short_models_get_two_milliseconds_or_64_jobs_a_slot)
{
    struct desk *desk = ready_desk(1);
    desk->broker.models.limit_jobs = 1000;
    for (uint64_t i = 1; i <= 22; i++)
        submit(desk, "fast", i, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 20, "20 of 100 us");
    desk_result_status(desk, 901, (struct job_id){0xA, 1}, PEN_OK, 10); /* learnt: 10 us */
    for (uint64_t i = 30; i <= 130; i++)
        submit(desk, "fast", i, (struct wire_job){.fill = 1});
    cr_assert_leq(desk->broker.fleet.all.tqh_first->jobs, 64);
    desk_free(desk);
}

Test(flow, batch_closes_when_full)
{
    struct desk *desk = ready_desk(1);
    for (uint64_t i = 1; i <= 3; i++)
        submit(desk, "batchy", i, (struct wire_job){.fill = 1});
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "company may come");
    submit(desk, "batchy", 4, (struct wire_job){.fill = 1});
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

Test(flow, batch_closes_by_delay_and_shapes_do_not_mix)
{
    struct desk *desk = ready_desk(1);
    submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .dims = {1, 4}});
    submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .dims = {1, 9}});
    submit(desk, "batchy", 3, (struct wire_job){.fill = 1, .dims = {2, 4}});
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

Test(flow, a_lonely_caller_does_not_wait_for_company_for_ever)
{
    struct desk *desk = ready_desk(1);
    for (uint64_t i = 1; i <= 5; i++) {
        submit(desk, "batchy", i, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT) == 1, i == 5, "job %lu", (unsigned long)i);
        desk_wait(desk, 3000);
        cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
        desk_result_status(desk, 901, (struct job_id){0xA, i}, PEN_OK, 50000);
    }
    for (uint64_t i = 11; i <= 14; i++)
        submit(desk, "batchy", i, (struct wire_job){.fill = 1}); /* one runs alone, three find each other */
    desk_result_status(desk, 901, (struct job_id){0xA, 11}, PEN_OK, 50000);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2);
    submit(desk, "batchy", 15, (struct wire_job){.fill = 1});
    for (uint64_t i = 12; i <= 14; i++)
        desk_result_status(desk, 901, (struct job_id){0xA, i}, PEN_OK, 60000);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 2, "15 waits for company again");
    desk_free(desk);
}

/* Company that comes now and then while the delay is longer than what it saves: waiting would cost more than it gives. */
Test(flow, company_that_saves_less_than_it_waits_is_not_waited_for)
{
    struct desk *desk = ready_desk(1);
    for (uint64_t i = 1; i <= SPEED_STRAYS + BATCH_LONELY; i++) { /* until it is known how quick one is, and then */
        submit(desk, "batchy", 10 * i, (struct wire_job){.fill = 1});
        submit(desk, "batchy", 10 * i + 1, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
        desk_wait(desk, 3000);
        cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2);
        desk_result_status(desk, 901, (struct job_id){0xA, 10 * i}, PEN_OK, 30);
        desk_result_status(desk, 901, (struct job_id){0xA, 10 * i + 1}, PEN_OK, 30);
        speed_learn(&(*desk->broker.fleet.all.tqh_first->offers[2]).speed, 1, 20, desk->broker.now_us);
    }
    submit(desk, "batchy", 500, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1);
    desk_free(desk);
}

/* A batch that may still grow goes as late as the slot allows: half of its time before the running one ends. */
Test(flow, a_batch_grows_until_its_slot_is_nearly_free)
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
    speed_seed(&desk->broker.fleet.all.tqh_first->offers[0]->speed, 8, 400);
    submit(desk, "net", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 1, "the slot was idle");
    for (uint64_t i = 2; i <= 4; i++)
        submit(desk, "net", i, (struct wire_job){.fill = 1});
    desk_wait(desk, 199);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0, "400 us from now it will still be early enough");
    submit(desk, "net", 5, (struct wire_job){.fill = 1});
    desk_wait(desk, 1);
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 4);
    for (uint64_t i = 6; i <= 12; i++)
        submit(desk, "net", i, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    submit(desk, "net", 13, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 8, "full: nothing is gained by waiting");
    desk_free(desk);
}

/* The broker learns that company costs what it saves, stops, says so, and finds out when that has changed. */
Test(flow, batches_that_do_not_pay_are_given_up_until_they_do)
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
    speed_seed(&desk->broker.fleet.all.tqh_first->offers[0]->speed, 8, 25000); /* a promise that is not kept */
    for (uint64_t round = 0; round < 2500 && full < 30; round++) {
        while (desk->broker.live < 20)
            submit(desk, "net", next++, (struct wire_job){.fill = 1});
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
Test(flow, only_whole_batches_teach_how_long_they_take)
{
    for (uint64_t jobs = 1; jobs <= 4; jobs++) {
        struct desk *desk = ready_desk(1);
        const struct speed *speed = &desk->broker.fleet.all.tqh_first->offers[2]->speed;
        for (uint64_t i = 1; i <= 4; i++)
            submit(desk, "batchy", i, (struct wire_job){.fill = 1});
        for (uint64_t i = 1; i <= 4; i++)
            result_of_batch(desk, i, 70000, jobs);
        cr_assert_eq(speed_expect_us(speed, 4), jobs == 4 ? 70000 : 4 * 50000, "%lu", (unsigned long)jobs);
        cr_assert_eq(desk->broker.stats.results_duplicate, 0);
        desk_free(desk);
    }
}

/* Another client is ahead by fairness or priority; whose time runs out decides when the batch closes. */
Test(flow, a_batch_closes_for_the_first_deadline_in_it_and_by_the_age_of_its_oldest)
{
    struct desk *desk = ready_desk(1);
    desk_client(desk, 2, 0xB);
    submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .priority = 1});
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
    submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .priority = 1});
    desk_wait(desk, 999);
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    desk_wait(desk, 1);
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2, "3 ms after the first of them came");
    desk_free(desk);
}

/* What config.json asks for reaches the decision. */
Test(flow, a_preferred_size_is_not_waited_beyond)
{
    struct desk *desk = ready_desk(1);
    uint32_t preferred[] = {2};
    Penstock__ModelOffer *meta = (Penstock__ModelOffer *)(uintptr_t)desk->broker.fleet.all.tqh_first->offers[2]->meta;
    submit(desk, "batchy", 1, (struct wire_job){.fill = 1});
    submit(desk, "batchy", 2, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 0);
    meta->preferred_batch_size = preferred;
    meta->n_preferred_batch_size = 1;
    submit(desk, "batchy", 3, (struct wire_job){.fill = 1});
    cr_assert_eq(sent_groups(desk_next(&desk->workers, FRAME_SUBMIT)), 2);
    meta->n_preferred_batch_size = 0;
    desk_free(desk);
}

Test(flow, rows_count_not_jobs)
{
    struct desk *desk = ready_desk(1);
    submit(desk, "batchy", 1, (struct wire_job){.fill = 1, .dims = {3, 4}});
    submit(desk, "batchy", 2, (struct wire_job){.fill = 1, .dims = {2, 4}});
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(first, "5 rows wait, 4 fill a batch");
    cr_assert_eq(sent_groups(first), 1, "3 + 2 are too many");
    desk_free(desk);
}

Test(flow, urgent_jobs_go_first)
{
    struct desk *desk = ready_desk(1);
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    submit(desk, "slow", 2, (struct wire_job){.fill = 1});
    submit(desk, "slow", 3, (struct wire_job){.fill = 1});
    submit(desk, "small", 4, (struct wire_job){.fill = 1, .priority = 1});
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_eq(sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0).sequence, 4, "across models too");
    desk_free(desk);
}

Test(flow, faster_worker_is_chosen_by_what_was_measured)
{
    struct desk *desk = ready_desk(1);
    struct wire_model quick = models[0];
    quick.warm_us = 2000;
    desk_worker(desk, 902,
                &(struct wire_worker){.uuid = 2, .name = "two", .slots = 1, .models = &quick, .models_count = 1});
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, 902);
    for (uint64_t i = 1; i <= SPEED_STRAYS; i++) {
        desk_result_status(desk, 902, (struct job_id){0xA, i}, PEN_OK, 200000); /* it was too optimistic */
        submit(desk, "slow", i + 1, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, i < SPEED_STRAYS ? 902 : 901,
                     "one time may be a stray");
    }
    desk_free(desk);
}

static enum pen_status refusal(struct desk *desk)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply);
    Penstock__ResultMeta *result = sent_result(reply);
    if (pen_status_retryable((enum pen_status)reply->env.status))
        cr_assert_gt(result->retry_after_us, 0);
    penstock__result_meta__free_unpacked(result, NULL);
    return (enum pen_status)reply->env.status;
}

Test(flow, full_queue_is_busy_with_a_hint)
{
    struct desk *desk = ready_desk(1);
    for (uint64_t i = 1; i <= 8; i++)
        submit(desk, "slow", i, (struct wire_job){.fill = 1}); /* 2 out, 5 wait */
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    for (uint64_t i = 11; i <= 13; i++)
        submit(desk, "small", i, (struct wire_job){.fill = 1}); /* its own limit is 2 */
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, queued_bytes_are_bounded)
{
    struct desk *desk = ready_desk(1);
    desk->options.queue_bytes = 30000;
    for (uint64_t i = 1; i <= 5; i++)
        submit(desk, "batchy", i, (struct wire_job){.dims = {1, 10000}, .raw = true});
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, model_default_timeout_applies)
{
    struct desk *desk = ready_desk(1);
    submit(desk, "timed", 1, (struct wire_job){.fill = 1});
    desk_wait(desk, 7000);
    cr_assert_eq(refusal(desk), PEN_ERR_DEADLINE);
    desk_free(desk);
}

Test(flow, unread_replies_are_held_back_and_come_after_the_pong)
{
    struct desk *desk = ready_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 5; i++)
        submit(desk, "slow", i, (struct wire_job){.fill = 1});
    for (uint64_t i = 1; i <= 5; i++)
        desk_result(desk, 901, (struct job_id){0xA, i}, 0, 1);
    size_t sent = desk_pending(&desk->clients, FRAME_RESULT);
    cr_assert_lt(sent, 5);
    cr_assert_eq(desk_pending(&desk->clients, FRAME_PING), 1);
    while (desk_pending(&desk->clients, FRAME_RESULT) < 5) {
        size_t before = desk->clients.count;
        desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
        cr_assert_gt(desk->clients.count, before, "each PONG makes room");
    }
    cr_assert_eq(desk->broker.sessions.all.tqh_first->unsent, 0);
    desk_free(desk);
}

Test(flow, answers_to_pings_count_as_unread_until_they_are_known_to_be_read)
{
    struct desk *desk = ready_desk(1);
    desk->options.peer_bytes = 500;
    for (int i = 0; i < 40; i++) {
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
        if (desk_next(&desk->clients, FRAME_PING))
            desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
    }
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESULT), "it reads all it gets, and must hear its result");
    desk_free(desk);
}

Test(flow, client_that_does_not_read_is_busy)
{
    struct desk *desk = ready_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 5; i++)
        submit(desk, "slow", i, (struct wire_job){.fill = 1});
    for (uint64_t i = 1; i <= 5; i++)
        desk_result(desk, 901, (struct job_id){0xA, i}, 0, 1);
    size_t before = desk_pending(&desk->clients, FRAME_RESULT);
    submit(desk, "slow", 6, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESULT), before + 1, "the refusal is told nevertheless");
    cr_assert_eq(desk->clients.sent[desk->clients.count - 1]->env.status, PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, drain_refuses_new_jobs_and_finishes_the_others)
{
    struct desk *desk = ready_desk(1);
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    broker_drain(&desk->broker);
    submit(desk, "slow", 2, (struct wire_job){.fill = 1});
    cr_assert_eq(refusal(desk), PEN_ERR_UNAVAILABLE);
    cr_assert_not(broker_drained(&desk->broker));
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK);
    cr_assert(broker_drained(&desk->broker));
    desk_free(desk);
}

Test(flow, drain_delay_still_takes_jobs_and_drain_timeout_answers_the_rest)
{
    struct desk *desk = ready_desk(1);
    desk->options.drain_delay_us = 100000;
    desk->options.drain_timeout_us = 200000;
    broker_drain(&desk->broker);
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(desk->broker.live, 1);
    desk_wait(desk, 299999);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_wait(desk, 1);
    cr_assert_eq(refusal(desk), PEN_ERR_UNAVAILABLE);
    cr_assert(broker_drained(&desk->broker));
    desk_free(desk);
}

static Penstock__ControlReply *ask(struct desk *desk, const char *verb, const char *argument)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, 1, envelope_make(FRAME_CONTROL), meta, wire_control(meta, verb, argument, 99), 0);
    struct sent *sent = desk_next(&desk->clients, FRAME_CONTROL_REPLY);
    cr_assert_not_null(sent);
    Penstock__ControlReply *reply = penstock__control_reply__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert_eq(reply->serial, 99);
    return reply;
}

Test(control, models_workers_and_stats_are_told)
{
    struct desk *desk = ready_desk(3);
    submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    Penstock__ControlReply *reply = ask(desk, "models", "");
    cr_assert_eq(reply->n_models, 5);
    cr_assert_str_eq(reply->models[0]->name, "slow");
    cr_assert_eq(reply->models[0]->running, 1);
    cr_assert_eq(reply->models[0]->n_offers, 1);
    cr_assert_str_eq(reply->models[0]->worker_names[0], "one");
    cr_assert_str_eq(reply->models[0]->inputs[0]->name, "x");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = ask(desk, "workers", "");
    cr_assert_eq(reply->n_workers, 1);
    cr_assert_str_eq(reply->workers[0]->state, "ready");
    cr_assert_eq(reply->workers[0]->jobs_running, 1);
    cr_assert_eq(reply->workers[0]->slots, 3);
    cr_assert_str_eq(reply->workers[0]->models[0], "slow:1");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = ask(desk, "stats", "");
    cr_assert_eq(reply->stats->jobs_admitted, 1);
    cr_assert_eq(reply->stats->running, 1);
    cr_assert_eq(reply->stats->workers, 1);
    cr_assert_eq(reply->stats->clients, 1);
    cr_assert_gt(reply->stats->rss_bytes, 0);
    cr_assert_str_eq(reply->stats->cache_kind, "memory");
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = ask(desk, "dance", "");
    cr_assert_not_null(strstr(reply->error, "unknown verb"));
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(control, drain_reaches_workers_by_name_and_the_broker)
{
    struct desk *desk = ready_desk(1);
    penstock__control_reply__free_unpacked(ask(desk, "drain", "one"), NULL);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_DRAIN));
    Penstock__ControlReply *reply = ask(desk, "drain", "nobody");
    cr_assert_not_null(strstr(reply->error, "no worker of that name"));
    penstock__control_reply__free_unpacked(reply, NULL);
    penstock__control_reply__free_unpacked(ask(desk, "drain", ""), NULL);
    cr_assert(desk->broker.draining);
    desk_free(desk);
}
