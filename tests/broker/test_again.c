/* Replies that could not leave the first time reach their clients in the end. Found by tests/sim. */
#include <criterion/criterion.h>

#include "desk.h"

static const struct wire_model fast = {.name = "fast",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 1,
                                       .max_batch = 8};

static struct desk *ready_desk(int64_t peer_bytes, int64_t replies_bytes)
{
    struct desk *desk = desk_new();
    struct wire_worker one = {.uuid = 1, .name = "one", .slots = 4, .models = &fast, .models_count = 1};
    desk->options.peer_bytes = peer_bytes;
    desk->options.replies_bytes = replies_bytes;
    desk_open(desk);
    desk_worker(desk, 901, &one);
    desk_client(desk, 1, 0xABC);
    return desk;
}

static void run(struct desk *desk, uint32_t peer, uint64_t sequence)
{
    struct job_id id = {0xABC, sequence};
    desk_submit(desk, peer, &(struct wire_job){.id = id, .model = "fast", .no_digest = true});
    desk_result(desk, 901, id, 0, 1);
}

static void pong(struct desk *desk, uint32_t peer)
{
    desk_say_client(desk, peer, envelope_make(FRAME_PONG), NULL, 0, 0);
}

Test(again, reply_that_does_not_fit_when_asked_for_again_goes_out_when_the_client_has_read)
{
    struct desk *desk = ready_desk(1 << 20, 1 << 20);
    for (uint64_t i = 1; i <= 64; i++)
        run(desk, 1, i);
    desk->options.peer_bytes = 4096;
    desk_client(desk, 2, 0xABC); /* a new connection, on which all are asked for at once */
    for (uint64_t i = 1; i <= 64; i++)
        desk_submit(desk, 2, &(struct wire_job){.id = {0xABC, i}, .model = "fast", .no_digest = true});
    size_t told = desk_pending(&desk->clients, FRAME_RESULT);
    while (desk_next(&desk->clients, FRAME_RESULT))
        ;
    cr_assert_lt(told, 64, "the cap holds the rest back");
    for (int i = 0; i < 64; i++) {
        pong(desk, 2);
        for (struct sent *sent; (sent = desk_next(&desk->clients, FRAME_RESULT));)
            told += sent->peer == 2;
    }
    cr_assert_eq(told, 64);
    desk_free(desk);
}

Test(again, the_end_of_a_cancelled_run_is_not_that_of_the_run_of_the_job_sent_again)
{
    struct desk *desk = ready_desk(1 << 20, 1 << 20);
    struct job_id id = {0xABC, 1};
    struct wire_job job = {.id = id, .model = "fast", .no_digest = true};
    desk->options.max_attempts = 1;
    desk_submit(desk, 1, &job);
    desk_say_client(desk, 1, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &job);
    cr_assert_eq(fleet_by_peer(&desk->broker.fleet, 901)->jobs, 2u, "the first run was told to stop");
    desk_result_status(desk, 901, id, PEN_ERR_CANCELLED, 0);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_result(desk, 901, id, 0, 1);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, 901)->messages, 0u);
    desk_free(desk);
}

Test(again, a_run_from_before_a_restart_that_is_cancelled_does_not_end_the_jobs_last_attempt)
{
    struct desk *desk = ready_desk(1 << 20, 1 << 20);
    struct job_id id = {0xABC, 1};
    struct wire_job job = {.id = id, .model = "fast", .no_digest = true};
    desk->options.max_attempts = 1;
    desk_submit(desk, 1, &job);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result_status(desk, 901, id, PEN_ERR_CANCELLED,
                       0); /* of the run that the worker had reported with its hello */
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "nobody has cancelled it");
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, 901, id, 0, 1);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
    desk_free(desk);
}

Test(again, a_worker_that_cancels_without_end_is_not_asked_without_end)
{
    struct desk *desk = ready_desk(1 << 20, 1 << 20);
    struct job_id id = {0xABC, 1};
    struct wire_job job = {.id = id, .model = "fast", .no_digest = true};
    struct sent *result = NULL;
    desk->options.max_attempts = 1;
    desk_submit(desk, 1, &job);
    int runs = 0;
    for (; runs < 10 && !(result = desk_next(&desk->clients, FRAME_RESULT)); runs++)
        desk_result_status(desk, 901, id, PEN_ERR_CANCELLED, 0);
    cr_assert(result && result->env.status == PEN_ERR_UNAVAILABLE);
    cr_expect_eq(runs, 4, "its only attempt, and three that do not count");
    desk_free(desk);
}

/* A worker that leaves sends its jobs back. */
Test(again, a_job_that_is_sent_back_runs_as_often_as_it_may)
{
    struct desk *desk = ready_desk(1 << 20, 1 << 20);
    struct job_id id = {0xABC, 1};
    struct sent *result = NULL;
    int runs = 0;
    desk->options.max_attempts = 3;
    desk_submit(desk, 1, &(struct wire_job){.id = id, .model = "fast", .no_digest = true});
    for (; runs < 10 && !(result = desk_next(&desk->clients, FRAME_RESULT)); runs++) {
        cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT), "run %d", runs);
        desk_result_status(desk, 901, id, PEN_ERR_BUSY, 0);
    }
    cr_assert(result && result->env.status == PEN_ERR_BUSY);
    cr_expect_eq(runs, 3);
    cr_expect_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

Test(again, client_that_was_thought_lost_is_asked_to_send_again)
{
    struct desk *desk = ready_desk(1 << 20, 0);
    struct job_id id = {0xABC, 1};
    desk->options.grace_us = desk->options.liveness_us * 2;
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &(struct wire_job){.id = id, .model = "fast", .no_digest = true});
    for (int i = 0; i < 25; i++) { /* the worker lives, the client is silent */
        desk_wait(desk, 100000);
        desk_say_worker(desk, 901, envelope_make(FRAME_HEARTBEAT), NULL, 0);
    }
    desk_result(desk, 901, id, 0, 1);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT), "nobody there, and nothing is kept");
    pong(desk, 1);
    desk->clients.first = 0;
    cr_assert_not_null(desk_next(&desk->clients, FRAME_RESUME), "what it missed is gone: it must ask again");
    desk_free(desk);
}
