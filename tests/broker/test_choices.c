/* The pure decisions: when a batch closes, who runs it, what serves whom, and in which order jobs leave. */
#include <criterion/criterion.h>

#include "batch.h"
#include "job.h"
#include "match.h"
#include "queue.h"

static const struct batch_facts now_1000 = {
    .now_us = 1000, .rows_waiting = 3, .oldest_us = 900, .deadline_us = UINT64_MAX, .expect_us = 50};

Test(batch, models_without_a_batch_dimension_go_one_by_one)
{
    struct batch_rules rules = {.rows_max = 0};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 1);
    cr_assert_str_eq(choice.reason, "single");
}

Test(batch, without_a_delay_an_idle_slot_takes_what_is_there)
{
    struct batch_rules rules = {.rows_max = 8};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 3);
    cr_assert_str_eq(choice.reason, "idle");
}

Test(batch, closes_when_full_or_at_a_preferred_size)
{
    uint32_t preferred[] = {2, 4};
    struct batch_rules rules = {.rows_max = 3, .delay_us = 500};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 3);
    cr_assert_str_eq(choice.reason, "full");
    rules = (struct batch_rules){.rows_max = 8, .delay_us = 500, .preferred = preferred, .preferred_count = 2};
    choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 2, "the largest preferred size that is there");
    cr_assert_str_eq(choice.reason, "full");
}

Test(batch, waits_for_company_until_the_delay_has_passed)
{
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500};
    struct batch_facts facts = now_1000;
    struct batch_choice choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 0);
    cr_assert_eq(choice.wake_us, 1400);
    facts.now_us = 1400;
    choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 3);
    cr_assert_str_eq(choice.reason, "delay");
}

Test(batch, after_waiting_in_vain_it_does_not_wait)
{
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500};
    struct batch_facts facts = now_1000;
    facts.lonely = BATCH_LONELY - 1;
    cr_assert_eq(batch_close(&rules, &facts).rows, 0);
    facts.lonely = BATCH_LONELY;
    cr_assert_str_eq(batch_close(&rules, &facts).reason, "idle");
}

Test(batch, a_deadline_closes_it_earlier)
{
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500};
    struct batch_facts facts = now_1000;
    facts.deadline_us = 1250;
    struct batch_choice choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 0);
    cr_assert_eq(choice.wake_us, 1200, "deadline minus execution");
    facts.now_us = 1200;
    choice = batch_close(&rules, &facts);
    cr_assert_str_eq(choice.reason, "deadline");
}

Test(match, least_expected_completion_wins)
{
    struct match_candidate c[] = {{.backlog_us = 0, .expect_us = 900, .credit = true},
                                  {.backlog_us = 300, .expect_us = 300, .credit = true},
                                  {.backlog_us = 0, .expect_us = 500, .transfer_us = 200, .credit = true}};
    cr_assert_eq(match_choose(c, 3, 0, UINT64_MAX), 1);
}

Test(match, nobody_or_nobody_with_credit_means_wait)
{
    struct match_candidate c = {.expect_us = 10, .credit = false};
    cr_assert_eq(match_choose(NULL, 0, 5, UINT64_MAX), MATCH_WAIT);
    cr_assert_eq(match_choose(&c, 1, 5, UINT64_MAX), MATCH_WAIT);
}

Test(match, a_slow_worker_helps_only_when_the_queue_is_long_enough)
{
    struct match_candidate c[] = {{.backlog_us = 20, .expect_us = 10, .credit = false},
                                  {.expect_us = 100, .credit = true}};
    cr_assert_eq(match_choose(c, 2, 0, UINT64_MAX), MATCH_WAIT, "the fast one is done with it in 30");
    cr_assert_eq(match_choose(c, 2, 7, UINT64_MAX), 1, "the fast one needs 30 + 70 for all");
    cr_assert_eq(match_choose(c, 2, 7, 50), MATCH_WAIT, "but not at the cost of this job's deadline");
    cr_assert_eq(match_choose(c, 2, 7, 20), 1, "a deadline that nobody meets decides nothing");
}

Test(match, a_tie_goes_to_who_can_start_now)
{
    struct match_candidate c[] = {{.expect_us = 10, .credit = false}, {.expect_us = 10, .credit = true}};
    cr_assert_eq(match_choose(c, 2, 0, UINT64_MAX), 1);
}

Test(match, precision_never_falls_below_the_demand)
{
    static const struct {
        enum precision want, have;
        bool good;
    } cases[] = {
        {PRECISION_ANY, PRECISION_F32, true},           {PRECISION_ANY, PRECISION_INT8, true},
        {PRECISION_ANY, PRECISION_F16_MATH, false},     {PRECISION_ANY, PRECISION_BF16, false},
        {PRECISION_F32, PRECISION_F16_STORAGE, false},  {PRECISION_F32, PRECISION_INT8, false},
        {PRECISION_F16_MATH, PRECISION_F32, true},      {PRECISION_F16_MATH, PRECISION_F16_STORAGE, true},
        {PRECISION_F16_MATH, PRECISION_F16_MMA, true},  {PRECISION_F16_STORAGE, PRECISION_F16_MATH, false},
        {PRECISION_F16_MMA, PRECISION_F16_MATH, false}, {PRECISION_F16_MATH, PRECISION_BF16, false},
        {PRECISION_BF16, PRECISION_F16_MATH, false},    {PRECISION_INT8, PRECISION_INT8, true},
        {PRECISION_INT8, PRECISION_BF16, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(match_precision(cases[i].want, cases[i].have), cases[i].good, "%s from %s",
                     precision_name(cases[i].want), precision_name(cases[i].have));
}

Test(match, backend_and_every_tag_must_be_there)
{
    struct demand demand = {.backend = "xnnpack", .precision = PRECISION_ANY, .tags = "gpu\nbig\n"};
    cr_assert(match_capable(&demand, "xnnpack", PRECISION_F32, "big\ngpu\nred\n"));
    cr_assert_not(match_capable(&demand, "reference", PRECISION_F32, "big\ngpu\n"));
    cr_assert_not(match_capable(&demand, "xnnpack", PRECISION_F32, "big\n"));
    cr_assert_not(match_capable(&demand, "xnnpack", PRECISION_F32, "bigger\ngpu\n"));
    cr_assert_not(match_capable(&demand, "xnnpack", PRECISION_F32, NULL));
}

Test(job, order_is_priority_deadline_arrival)
{
    struct job a = {.priority = 5, .deadline_us = 100, .arrival = 1},
               b = {.priority = 4, .deadline_us = 900, .arrival = 2};
    cr_assert(job_before(&b, &a));
    b.priority = 5;
    cr_assert(job_before(&a, &b));
    b.deadline_us = 100;
    cr_assert(job_before(&a, &b));
    cr_assert_not(job_before(&b, &a));
    cr_assert_not(job_before(&a, &a));
}

Test(queue, lanes_are_shared_by_equal_demand_and_shape_only)
{
    struct lane_list active;
    struct queue queue;
    struct shares shares;
    struct demand any = {.precision = PRECISION_ANY}, f32 = {.precision = PRECISION_F32}, tagged = {.tags = "a\n"};
    TAILQ_INIT(&active);
    cr_assert_eq(shares_init(&shares), PEN_OK);
    cr_assert_eq(queue_init(&queue, &active, &shares, 2), PEN_OK);
    struct lane *one = queue_lane(&queue, NULL, &any, 7), *two = queue_lane(&queue, NULL, &any, 7);
    struct lane *three = queue_lane(&queue, NULL, &any, 8), *four = queue_lane(&queue, NULL, &f32, 7),
                *five = queue_lane(&queue, NULL, &tagged, 7);
    cr_assert_eq(one, two);
    cr_assert(three != one && four != one && five != one && five != three);
    struct job job = {.rows = 3, .priority = 5};
    cr_assert_eq(lane_push(three, &job), PEN_OK);
    cr_assert_eq(TAILQ_FIRST(&active), three);
    cr_assert_eq(three->rows, 3);
    lane_remove(three, &job);
    lane_remove(three, &job);
    cr_assert(TAILQ_EMPTY(&active));
    cr_assert_eq(three->rows, 0);
    lane_release(five);
    lane_release(four);
    lane_release(three);
    lane_release(two);
    cr_assert_eq(queue.lanes.count, 2, "the last idle lane stays for the next job");
    lane_release(one);
    queue_fini(&queue);
    shares_fini(&shares);
}

Test(queue, limit_is_busy)
{
    struct lane_list active;
    struct queue queue;
    struct shares shares;
    TAILQ_INIT(&active);
    cr_assert_eq(shares_init(&shares), PEN_OK);
    cr_assert_eq(queue_init(&queue, &active, &shares, 2), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_ERR_BUSY);
    queue_leave(&queue, 1, 10);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue.bytes, 20);
    queue_fini(&queue);
    shares_fini(&shares);
}
