/* Credit, priorities, limits, what clients leave unread, drain. */
#include <criterion/criterion.h>

#include "flow_desk.h"

Test(flow, long_models_get_a_second_message_a_slot_when_the_first_is_nearly_done)
{
    struct desk *desk = flow_desk(2);
    for (uint64_t i = 1; i <= 6; i++)
        flow_submit(desk, "slow", i, (struct wire_job){.fill = 1});
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
    struct desk *desk = flow_desk(1);
    desk->broker.models.limit_jobs = 1000;
    for (uint64_t i = 1; i <= 22; i++)
        flow_submit(desk, "fast", i, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 20, "20 of 100 us");
    desk_result_status(desk, 901, (struct job_id){0xA, 1}, PEN_OK, 10); /* learnt: 10 us */
    for (uint64_t i = 30; i <= 130; i++)
        flow_submit(desk, "fast", i, (struct wire_job){.fill = 1});
    cr_assert_leq(desk->broker.fleet.all.tqh_first->jobs, 64);
    desk_free(desk);
}

Test(flow, urgent_jobs_go_first)
{
    struct desk *desk = flow_desk(1);
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    flow_submit(desk, "slow", 2, (struct wire_job){.fill = 1});
    flow_submit(desk, "slow", 3, (struct wire_job){.fill = 1});
    flow_submit(desk, "small", 4, (struct wire_job){.fill = 1, .priority = 1});
    while (desk_next(&desk->workers, FRAME_SUBMIT))
        ;
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_eq(sent_job(desk_next(&desk->workers, FRAME_SUBMIT), 0).sequence, 4, "across models too");
    desk_free(desk);
}

Test(flow, faster_worker_is_chosen_by_what_was_measured)
{
    struct desk *desk = flow_desk(1);
    struct wire_model quick = flow_models[0];
    quick.warm_us = 2000;
    desk_worker(desk, 902,
                &(struct wire_worker){.uuid = 2, .name = "two", .slots = 1, .models = &quick, .models_count = 1});
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, 902);
    for (uint64_t i = 1; i <= LATENCY_STRAYS; i++) {
        desk_result_status(desk, 902, (struct job_id){0xA, i}, PEN_OK, 200000); /* it was too optimistic */
        flow_submit(desk, "slow", i + 1, (struct wire_job){.fill = 1});
        cr_assert_eq(desk_next(&desk->workers, FRAME_SUBMIT)->peer, i < LATENCY_STRAYS ? 902 : 901,
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
    struct desk *desk = flow_desk(1);
    for (uint64_t i = 1; i <= 8; i++)
        flow_submit(desk, "slow", i, (struct wire_job){.fill = 1}); /* 2 out, 5 wait */
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    for (uint64_t i = 11; i <= 13; i++)
        flow_submit(desk, "small", i, (struct wire_job){.fill = 1}); /* its own limit is 2 */
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, queued_bytes_are_bounded)
{
    struct desk *desk = flow_desk(1);
    desk->options.queue_bytes = 30000;
    for (uint64_t i = 1; i <= 5; i++)
        flow_submit(desk, "batchy", i, (struct wire_job){.dims = {1, 10000}, .raw = true});
    cr_assert_eq(refusal(desk), PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, model_default_timeout_applies)
{
    struct desk *desk = flow_desk(1);
    flow_submit(desk, "timed", 1, (struct wire_job){.fill = 1});
    desk_wait(desk, 7000);
    cr_assert_eq(refusal(desk), PEN_ERR_DEADLINE);
    desk_free(desk);
}

Test(flow, unread_replies_are_held_back_and_come_after_the_pong)
{
    struct desk *desk = flow_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 5; i++)
        flow_submit(desk, "slow", i, (struct wire_job){.fill = 1});
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
    struct desk *desk = flow_desk(1);
    desk->options.peer_bytes = 500;
    for (int i = 0; i < 40; i++) {
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
        if (desk_next(&desk->clients, FRAME_PING))
            desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
    }
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESULT), "it reads all it gets, and must hear its result");
    desk_free(desk);
}

Test(flow, client_that_does_not_read_is_busy)
{
    struct desk *desk = flow_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 5; i++)
        flow_submit(desk, "slow", i, (struct wire_job){.fill = 1});
    for (uint64_t i = 1; i <= 5; i++)
        desk_result(desk, 901, (struct job_id){0xA, i}, 0, 1);
    size_t before = desk_pending(&desk->clients, FRAME_RESULT);
    flow_submit(desk, "slow", 6, (struct wire_job){.fill = 1});
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESULT), before + 1, "the refusal is told nevertheless");
    cr_assert_eq(desk->clients.sent[desk->clients.count - 1]->env.status, PEN_ERR_BUSY);
    desk_free(desk);
}

Test(flow, client_whose_refusal_found_no_room_is_asked_to_send_its_jobs_again)
{
    struct desk *desk = flow_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 20; i++)
        flow_submit(desk, "nowhere", i, (struct wire_job){.fill = 1});
    cr_assert_lt(desk_pending(&desk->clients, FRAME_RESULT), 20);
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESUME), 0, "it has not read yet");
    for (int i = 0; i < 8; i++) /* to more PINGs than come */
        desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESUME), 1, "once");
    desk_free(desk);
}

/* Both at once: results that wait, and a refusal that found no room. */
Test(flow, client_that_reads_again_gets_what_waits_and_then_the_question)
{
    struct desk *desk = flow_desk(1);
    desk->options.peer_bytes = 500;
    for (uint64_t i = 1; i <= 5; i++)
        flow_submit(desk, "slow", i, (struct wire_job){.fill = 1});
    for (uint64_t i = 1; i <= 5; i++)
        desk_result(desk, 901, (struct job_id){0xA, i}, 0, 1);
    for (uint64_t i = 6; i <= 20; i++)
        flow_submit(desk, "nowhere", i, (struct wire_job){.fill = 1});
    struct session *session = desk->broker.sessions.all.tqh_first;
    cr_assert(session->unsent > 0 && session->missed);
    for (unsigned i = 0; i < 40 && session->unsent > 0; i++)
        desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
    cr_assert_eq(session->unsent, 0);
    cr_assert(!link_full(&session->link, 500));
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESUME), 1, "at once: another PONG may not come");
    for (unsigned i = 0; i < 4; i++)
        desk_say_client(desk, 1, envelope_make(FRAME_PONG), NULL, 0, 0);
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESUME), 1, "once");
    desk_free(desk);
}

Test(flow, drain_refuses_new_jobs_and_finishes_the_others)
{
    struct desk *desk = flow_desk(1);
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    broker_drain(&desk->broker);
    flow_submit(desk, "slow", 2, (struct wire_job){.fill = 1});
    cr_assert_eq(refusal(desk), PEN_ERR_UNAVAILABLE);
    cr_assert_not(broker_drained(&desk->broker));
    desk_result(desk, 901, (struct job_id){0xA, 1}, 0, 1);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK);
    cr_assert(broker_drained(&desk->broker));
    desk_free(desk);
}

Test(flow, drain_delay_still_takes_jobs_and_drain_timeout_answers_the_rest)
{
    struct desk *desk = flow_desk(1);
    desk->options.drain_delay_us = 100000;
    desk->options.drain_timeout_us = 200000;
    broker_drain(&desk->broker);
    flow_submit(desk, "slow", 1, (struct wire_job){.fill = 1});
    cr_assert_eq(desk->broker.live, 1);
    desk_wait(desk, 299999);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_wait(desk, 1);
    cr_assert_eq(refusal(desk), PEN_ERR_UNAVAILABLE);
    cr_assert(broker_drained(&desk->broker));
    desk_free(desk);
}
