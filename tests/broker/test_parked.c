/* Jobs that come before their workers do: after a restart clients are often back first. */
#include <criterion/criterion.h>

#include "desk.h"

#define WAIT_US 1000000

static const struct wire_model plain = {.name = "plain",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 100,
                                        .digest = 1,
                                        .max_batch = 8};
static const struct wire_worker one = {.uuid = 1, .name = "one", .slots = 1, .models = &plain, .models_count = 1};

static struct desk *young_desk(void)
{
    struct desk *desk = desk_new();
    desk->options.restart_wait_us = WAIT_US;
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, uint64_t deadline_us)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xABC, sequence}, .model = "plain", .deadline_us = deadline_us, .no_digest = true});
}

static enum pen_status answer(struct desk *desk)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply);
    return (enum pen_status)reply->env.status;
}

Test(parked, job_that_came_first_runs_when_its_worker_comes)
{
    struct desk *desk = young_desk();
    submit(desk, 1, 0);
    desk_wait(desk, WAIT_US / 2);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    desk_worker(desk, 901, &one);
    desk_run(desk);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, 901, (struct job_id){0xABC, 1}, 0, 7);
    cr_assert_eq(answer(desk), PEN_OK);
    desk_free(desk);
}

Test(parked, job_whose_worker_never_comes_is_told_when_the_wait_is_over)
{
    struct desk *desk = young_desk();
    submit(desk, 1, 0);
    desk_wait(desk, WAIT_US + 500000);
    cr_assert_eq(answer(desk), PEN_ERR_UNAVAILABLE);
    cr_assert_eq(desk->broker.parked.count, 0u);
    submit(desk, 2, 0); /* the broker is no longer young */
    cr_assert_eq(answer(desk), PEN_ERR_UNAVAILABLE);
    desk_free(desk);
}

Test(parked, waiting_job_can_be_cancelled)
{
    struct desk *desk = young_desk();
    submit(desk, 1, 0);
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    cr_assert_eq(answer(desk), PEN_ERR_CANCELLED);
    desk_worker(desk, 901, &one);
    desk_run(desk);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

Test(parked, waiting_counts_against_the_deadline)
{
    struct desk *desk = young_desk();
    submit(desk, 1, WAIT_US / 4);
    desk_wait(desk, WAIT_US / 2);
    desk_worker(desk, 901, &one);
    desk_run(desk);
    cr_assert_eq(answer(desk), PEN_ERR_DEADLINE);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

Test(parked, fresh_job_for_a_model_that_the_workers_here_do_not_have_is_refused_at_once)
{
    struct desk *desk = young_desk();
    desk_worker(desk, 901, &one);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "other", .no_digest = true});
    cr_assert_eq(answer(desk), PEN_ERR_NOT_FOUND);
    desk_free(desk);
}

Test(parked, drain_tells_those_who_wait)
{
    struct desk *desk = young_desk();
    submit(desk, 1, 0);
    broker_drain(&desk->broker);
    desk_run(desk);
    cr_assert_eq(answer(desk), PEN_ERR_UNAVAILABLE);
    desk_free(desk);
}

Test(parked, what_still_waits_at_the_end_is_freed)
{
    struct desk *desk = young_desk();
    submit(desk, 1, 0);
    desk_free(desk);
}

/* A worker may still answer the CANCEL of an earlier run of the same id, from before the broker was restarted. */
Test(parked, cancelled_from_a_worker_for_a_job_that_nobody_cancelled_here_runs_it_again)
{
    struct desk *desk = young_desk();
    struct job_id id = {0xABC, 1};
    submit(desk, 1, 0);
    desk_worker(desk, 901, &one);
    desk_run(desk);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result_status(desk, 901, id, PEN_ERR_CANCELLED, 0);
    desk_run(desk);
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, 901, id, 0, 7);
    cr_assert_eq(answer(desk), PEN_OK);
    desk_free(desk);
}
