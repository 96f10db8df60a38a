/* What a model's default timeout does: ends a job, or puts it behind; and whether a job may have a deadline of its own. */
#include <criterion/criterion.h>

#include "desk.h"

static const struct wire_model model = {.name = "net",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 50000,
                                        .timeout_us = 20000,
                                        .digest = 1};

static struct desk *open_desk(bool delays, bool fixed)
{
    struct desk *desk = desk_new();
    struct wire_model own = model;
    own.timeout_delays = delays;
    own.timeout_fixed = fixed;
    desk_open(desk);
    desk_worker(desk, 900,
                &(struct wire_worker){.uuid = 7, .name = "w", .slots = 1, .models = &own, .models_count = 1});
    desk_client(desk, 1, 0xA);
    return desk;
}

static void submit(struct desk *desk, uint64_t sequence, uint64_t deadline_us)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xA, sequence}, .model = "net", .no_digest = true, .deadline_us = deadline_us});
}

/* The sequence of the next job that a worker gets; 0 = none. */
static uint64_t next(struct desk *desk)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    return sent ? sent_job(sent, 0).sequence : 0;
}

static void done(struct desk *desk, uint64_t sequence)
{
    desk_result_status(desk, 900, (struct job_id){0xA, sequence}, PEN_OK, 50000);
}

Test(expiry, with_delay_a_job_that_waited_too_long_goes_behind_and_is_still_run)
{
    struct desk *desk = open_desk(true, false);
    submit(desk, 1, 0);
    cr_expect_eq(next(desk), 1);
    submit(desk, 2, 0);
    desk_wait(desk, 15000);
    submit(desk, 3, 0);
    desk_wait(desk, 10000); /* 2 has waited 25 ms, 3 only 10 */
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0, "nobody is told DEADLINE, neither 1 that runs");
    done(desk, 1);
    cr_expect_eq(next(desk), 3);
    done(desk, 3);
    cr_expect_eq(next(desk), 2);
    done(desk, 2);
    desk_free(desk);
}

Test(expiry, without_delay_it_ends)
{
    struct desk *desk = open_desk(false, false);
    submit(desk, 1, 0);
    submit(desk, 2, 0);
    desk_wait(desk, 21000);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_DEADLINE);
    desk_free(desk);
}

Test(expiry, a_deadline_of_its_own_ends_a_job_in_spite_of_delay)
{
    struct desk *desk = open_desk(true, false);
    submit(desk, 1, 0);
    submit(desk, 2, 30000);
    desk_wait(desk, 31000);
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_expect(sent->env.status == PEN_ERR_DEADLINE && sent->env.job.sequence == 2);
    desk_free(desk);
}

Test(expiry, without_override_only_the_models_timeout_counts)
{
    struct desk *desk = open_desk(false, true);
    submit(desk, 1, 1000000);
    submit(desk, 2, 1000000);
    desk_wait(desk, 21000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 2, "their own second did not count");
    desk_free(desk);
    desk = open_desk(false, false);
    submit(desk, 1, 1000000);
    submit(desk, 2, 1000000);
    desk_wait(desk, 21000);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0);
    desk_free(desk);
}
