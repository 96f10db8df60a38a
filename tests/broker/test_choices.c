/* The pure decisions: when a batch closes, who runs it, what serves whom, and in which order jobs leave. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "batch.h"
#include "job.h"
#include "match.h"
#include "queue.h"

static const struct latency_model unknown = {.count = 0};
static const struct batch_facts now_1000 = {
    .now_us = 1000, .rows_waiting = 3, .oldest_us = 900, .deadline_us = UINT64_MAX};

Test(batch, models_without_a_batch_dimension_go_one_by_one)
{
    struct batch_rules rules = {.rows_max = 0, .latency = &unknown};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 1);
    cr_assert_eq(choice.reason, CLOSE_SINGLE);
}

Test(batch, without_a_delay_an_idle_slot_takes_what_is_there)
{
    struct batch_rules rules = {.rows_max = 8, .latency = &unknown};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 3);
    cr_assert_eq(choice.reason, CLOSE_IDLE);
}

Test(batch, closes_when_full_or_at_a_preferred_size)
{
    uint32_t preferred[] = {2, 4};
    struct batch_rules rules = {.rows_max = 3, .delay_us = 500, .latency = &unknown};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 3);
    cr_assert_eq(choice.reason, CLOSE_FULL);
    rules = (struct batch_rules){
        .rows_max = 8, .delay_us = 500, .preferred = preferred, .preferred_count = 2, .latency = &unknown};
    choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 2, "the largest preferred size that is there");
    cr_assert_eq(choice.reason, CLOSE_FULL);
    struct batch_facts many = now_1000;
    many.rows_waiting = 20;
    cr_assert_eq(batch_close(&rules, &many).rows, 8,
                 "never more than the model takes, and all of that when it is there");
}

Test(batch, waits_for_company_until_the_delay_has_passed)
{
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500, .latency = &unknown};
    struct batch_facts facts = now_1000;
    struct batch_choice choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 0);
    cr_assert_eq(choice.wake_us, 1400);
    facts.now_us = 1400;
    choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 3);
    cr_assert_eq(choice.reason, CLOSE_DELAY);
}

Test(batch, after_waiting_in_vain_it_does_not_wait)
{
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500, .latency = &unknown};
    struct batch_facts facts = now_1000;
    facts.solo_batches = BATCH_SOLO_MAX - 1;
    cr_assert_eq(batch_close(&rules, &facts).rows, 0);
    facts.solo_batches = BATCH_SOLO_MAX;
    cr_assert_eq(batch_close(&rules, &facts).reason, CLOSE_IDLE);
}

static struct latency_model latency_of(const uint32_t *rows, const uint64_t *us, size_t count)
{
    struct latency_model latency = {.count = 0};
    for (size_t i = 0; i < count; i++)
        latency_seed(&latency, rows[i], us[i]);
    return latency;
}

Test(batch, waiting_was_in_vain_when_less_was_saved_than_waited)
{
    struct latency_model latency = latency_of((uint32_t[]){1, 8}, (uint64_t[]){1000, 2000}, 2);
    cr_assert_not(batch_wait_paid(&latency, 1, 0), "alone");
    cr_assert(batch_wait_paid(&latency, 2, 499));
    cr_assert_not(batch_wait_paid(&latency, 2, 500), "one run of 1 ms saved, twice half of it waited");
    cr_assert(batch_wait_paid(&latency, 8, 800));
}

Test(batch, a_deadline_closes_it_earlier)
{
    struct latency_model latency = latency_of((uint32_t[]){1, 3, 8}, (uint64_t[]){30, 40, 90}, 3);
    struct batch_rules rules = {.rows_max = 8, .delay_us = 500, .latency = &latency};
    struct batch_facts facts = now_1000;
    facts.deadline_us = 1250;
    struct batch_choice choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 0);
    cr_assert_eq(choice.wake_us, 1200, "deadline minus execution with one row more");
    facts.now_us = 1200;
    choice = batch_close(&rules, &facts);
    cr_assert_eq(choice.rows, 3);
    cr_assert_eq(choice.reason, CLOSE_DEADLINE);
    facts.deadline_us = 5000;
    facts.now_us = 1000;
    cr_assert_eq(batch_close(&rules, &facts).wake_us, 1400, "a late one does not make it later than the delay");
}

/* What a row costs, by what was measured, decides; made-up times of every kind. */
struct kind {
    const char *name;
    uint64_t us[6]; /* of 1, 2, 4, 8, 16, 32 rows */
    uint32_t waiting, rows;
    enum close_reason reason;
};

static const struct kind kinds[] = {
    {"a GPU's: one row takes as long as all", {900, 900, 910, 920, 950, 1000}, 100, 32, CLOSE_FULL},
    {"a GPU's, few are there", {900, 900, 910, 920, 950, 1000}, 5, 5, CLOSE_IDLE},
    {"dense layers on a CPU", {114, 133, 134, 167, 199, 266}, 100, 32, CLOSE_FULL},
    {"convolutions: all rows cost the same", {300, 600, 1200, 2400, 4800, 9600}, 100, 1, CLOSE_UNPAID},
    {"beyond the cache", {300, 620, 1300, 2900, 7000, 18000}, 100, 1, CLOSE_UNPAID},
    {"as much as one more message", {2000, 3980, 7950, 15900, 31700, 63400}, 100, 1, CLOSE_UNPAID},
    {"best in the middle", {300, 400, 600, 1000, 3000, 9000}, 100, 8, CLOSE_BEST},
    {"best in the middle, fewer are there", {300, 400, 600, 1000, 3000, 9000}, 6, 6, CLOSE_IDLE},
    {"two are worse than one, many are better", {300, 800, 900, 1000, 1100, 1200}, 100, 32, CLOSE_FULL},
    {"two are worse than one, two are there", {300, 800, 900, 1000, 1100, 1200}, 2, 1, CLOSE_BEST},
    {"tiny: the message is what it costs", {2, 4, 8, 16, 32, 64}, 100, 32, CLOSE_FULL},
};

Test(batch, has_the_size_with_the_most_rows_per_second)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16, 32};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct latency_model latency = latency_of(sizes, kinds[i].us, 6);
        struct batch_rules rules = {.rows_max = 32, .latency = &latency};
        struct batch_facts facts = now_1000;
        facts.rows_waiting = kinds[i].waiting;
        struct batch_choice choice = batch_close(&rules, &facts);
        cr_assert_eq(choice.rows, kinds[i].rows, "%s: %u rows", kinds[i].name, choice.rows);
        cr_assert_eq(choice.reason, kinds[i].reason, "%s: %s", kinds[i].name, close_reason_name(choice.reason));
    }
}

Test(batch, never_gives_fewer_rows_per_second_than_one_by_one)
{
    uint64_t state = 42;
    static const uint32_t sizes[] = {1, 2, 4, 8, 16, 32};
    for (int round = 0; round < 2000; round++) {
        uint64_t us[6];
        for (size_t i = 0; i < 6; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            us[i] = 1 + (state >> 40) % 10000;
        }
        struct latency_model latency = latency_of(sizes, us, 6);
        for (uint32_t waiting = 1; waiting <= 33; waiting++) {
            struct batch_rules rules = {.rows_max = 32, .latency = &latency};
            struct batch_facts facts = now_1000;
            facts.rows_waiting = waiting;
            uint32_t rows = batch_close(&rules, &facts).rows;
            uint64_t took_us = latency_expect_us(&latency, rows) + LATENCY_MESSAGE_US;
            cr_assert_leq(rows, waiting);
            cr_assert_leq(took_us, rows * (us[0] + LATENCY_MESSAGE_US), "%u of %u waiting", rows, waiting);
        }
    }
}

Test(batch, does_not_wait_for_company_that_does_not_pay)
{
    struct latency_model latency = latency_of((uint32_t[]){1, 8}, (uint64_t[]){1000, 8000}, 2);
    uint32_t preferred[] = {2};
    struct batch_rules rules = {
        .rows_max = 8, .delay_us = 500, .preferred = preferred, .preferred_count = 1, .latency = &latency};
    struct batch_choice choice = batch_close(&rules, &now_1000);
    cr_assert_eq(choice.rows, 1);
    cr_assert_eq(choice.reason, CLOSE_UNPAID, "not even to a preferred size");
}

Test(batch, what_nobody_has_tried_is_tried)
{
    struct latency_model latency = latency_of((uint32_t[]){1}, (uint64_t[]){1000}, 1);
    struct batch_rules rules = {.rows_max = 8, .latency = &latency};
    cr_assert_eq(batch_close(&rules, &now_1000).rows, 3);
    latency_learn(&latency, 3, 3500, 1000);
    cr_assert_eq(batch_close(&rules, &now_1000).rows, 1, "and not again");
    struct batch_facts more = now_1000;
    more.rows_waiting = 9;
    cr_assert_eq(batch_close(&rules, &more).rows, 8, "but more of them");
    latency_learn(&latency, 8, 9000, 1000);
    cr_assert_eq(batch_close(&rules, &more).reason, CLOSE_UNPAID);
}

/* A worker that was disturbed while it warmed up: eight rows seem slow and are not. */
Test(batch, what_was_measured_in_a_bad_moment_is_tried_again_within_bounds)
{
    struct latency_model latency = latency_of((uint32_t[]){1, 8}, (uint64_t[]){1000, 9000}, 2);
    struct batch_rules rules = {.rows_max = 8, .latency = &latency};
    uint64_t spent_us = 0, now_us = 1000000, tries = 0, paid_at_us = 0;
    while (now_us < 60000000) {
        struct batch_facts facts = {.now_us = now_us, .rows_waiting = 20, .deadline_us = UINT64_MAX};
        cr_assert(batch_may_explore(&rules, &facts));
        struct batch_choice choice = batch_close(&rules, &facts);
        uint32_t other = latency_explore(&latency, 8, now_us), rows = other ? other : choice.rows;
        uint64_t us = rows == 1 ? 1000 : 2000 + 100 * rows;
        if (other) {
            cr_assert_neq(other, choice.rows);
            tries++;
            spent_us += us;
        }
        if (choice.reason == CLOSE_FULL && !paid_at_us)
            paid_at_us = now_us;
        now_us += us;
        latency_learn(&latency, rows, us, now_us);
    }
    cr_assert_geq(tries, 2);
    cr_assert_lt(spent_us, 59000000 / LATENCY_EXPLORE);
    cr_assert(paid_at_us > 0 && paid_at_us < 10000000, "found after %lu us", (unsigned long)paid_at_us);
}

Test(batch, urgent_jobs_are_no_guinea_pigs)
{
    struct latency_model latency = latency_of((uint32_t[]){1, 8}, (uint64_t[]){1000, 2000}, 2);
    struct batch_rules rules = {.rows_max = 8, .latency = &latency};
    struct batch_facts facts = {.now_us = 1000, .rows_waiting = 8, .deadline_us = 1000 + BATCH_SLACK * 2000 - 1};
    cr_assert_not(batch_may_explore(&rules, &facts));
    facts.deadline_us++;
    cr_assert(batch_may_explore(&rules, &facts));
    facts.rows_waiting = 1;
    cr_assert_not(batch_may_explore(&rules, &facts), "nothing to choose from");
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

static bool capable(const struct demand *demand, const char *backend, const char *tags)
{
    const struct capability have = {.backend = backend, .tags = tags, .precision = PRECISION_F32};
    return match_capable(demand, &have);
}

Test(match, backend_and_every_tag_must_be_there)
{
    struct demand demand = {.backend = "xnnpack", .precision = PRECISION_ANY, .tags = "gpu\nbig\n"};
    cr_assert(capable(&demand, "xnnpack", "big\ngpu\nred\n"));
    cr_assert_not(capable(&demand, "reference", "big\ngpu\n"));
    cr_assert_not(capable(&demand, "xnnpack", "big\n"));
    cr_assert_not(capable(&demand, "xnnpack", "bigger\ngpu\n"));
    cr_assert_not(capable(&demand, "xnnpack", NULL));
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
    struct fair_queue fair_queue;
    struct demand any = {.precision = PRECISION_ANY}, f32 = {.precision = PRECISION_F32}, tagged = {.tags = "a\n"};
    TAILQ_INIT(&active);
    cr_assert_eq(fair_queue_init(&fair_queue), PEN_OK);
    cr_assert_eq(queue_init(&queue, &active, &fair_queue, 2), PEN_OK);
    struct lane *one = queue_lane(&queue, NULL, &any, 7), *two = queue_lane(&queue, NULL, &any, 7);
    struct lane *three = queue_lane(&queue, NULL, &any, 8), *four = queue_lane(&queue, NULL, &f32, 7),
                *five = queue_lane(&queue, NULL, &tagged, 7);
    cr_assert_eq(one, two);
    cr_assert(three != one && four != one && five != one && five != three);
    struct job job = {.rows = 3, .priority = 5};
    job.lane = three;
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
    fair_queue_fini(&fair_queue);
}

Test(match, who_is_aside_is_done_no_later_than_in_the_queue)
{
    uint64_t rank;
    struct match_candidate c[] = {{.backlog_us = 8, .expect_us = 4}, {.expect_us = 20, .credit = true}};
    cr_expect_eq(match_aside(c, 2, 2, &rank), MATCH_WAIT, "the fast one does three by 20");
    cr_expect_eq(match_aside(c, 2, 3, &rank), 1);
    cr_expect_eq(rank, 3);
    c[0].slots = 2;
    cr_expect_eq(match_aside(c, 2, 5, &rank), MATCH_WAIT, "in two slots six");
    cr_expect_eq(match_aside(c, 2, 6, &rank), 1);
    cr_expect_eq(rank, 6);
    c[1].credit = false;
    cr_expect_eq(match_aside(c, 2, 100, &rank), MATCH_WAIT, "nobody has credit");
}

struct numbered {
    uint32_t number, place;
};

static bool number_before(const void *a, const void *b)
{
    return ((const struct numbered *)a)->number < ((const struct numbered *)b)->number;
}

Test(heap, the_first_come_in_order)
{
    struct heap heap;
    struct numbered items[100];
    void *first[HEAP_FIRST_MAX];
    heap_init(&heap, number_before, offsetof(struct numbered, place));
    cr_expect_eq(heap_first(&heap, 5, first), 0);
    for (uint32_t i = 0; i < 100; i++) {
        items[i] = (struct numbered){.number = i * 37 % 101};
        cr_assert_eq(heap_push(&heap, &items[i]), PEN_OK);
    }
    cr_assert_eq(heap_first(&heap, 1000, first), HEAP_FIRST_MAX);
    for (size_t i = 1; i < HEAP_FIRST_MAX; i++)
        cr_assert_lt(((struct numbered *)first[i - 1])->number, ((struct numbered *)first[i])->number);
    cr_assert_eq(((struct numbered *)first[0])->number, 0);
    cr_assert_leq(((struct numbered *)first[HEAP_FIRST_MAX - 1])->number, HEAP_FIRST_MAX);
    cr_expect_eq(heap.count, 100);
    heap_fini(&heap);
}

Test(queue, limit_is_busy)
{
    struct lane_list active;
    struct queue queue;
    struct fair_queue fair_queue;
    TAILQ_INIT(&active);
    cr_assert_eq(fair_queue_init(&fair_queue), PEN_OK);
    cr_assert_eq(queue_init(&queue, &active, &fair_queue, 2), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_ERR_BUSY);
    queue_leave(&queue, 1, 10);
    cr_assert_eq(queue_enter(&queue, "m", 1, 10, NULL), PEN_OK);
    cr_assert_eq(queue.bytes, 20);
    queue_fini(&queue);
    fair_queue_fini(&fair_queue);
}

/* ---- contracts ----------------------------------------------------------------------------------------------------------- */

static bool keeps(struct demand demand, enum precision precision, double error, bool repeatable)
{
    const struct capability have = {
        .backend = "vulkan", .precision = precision, .error = error, .repeatable = repeatable};
    return match_contract(&demand, &have);
}

Test(match, a_bound_takes_any_precision_whose_measured_error_is_within_it)
{
    const struct demand bound = {.error_max = 1e-2};
    cr_expect(keeps(bound, PRECISION_F16_MMA, 9.9e-3, false));
    cr_expect(keeps(bound, PRECISION_F16_MMA, 1e-2, false), "the bound itself is within it");
    cr_expect_not(keeps(bound, PRECISION_F16_MMA, 1.01e-2, false));
    cr_expect_not(keeps(bound, PRECISION_F32, (double)INFINITY, false), "what nobody has measured keeps no bound");
    cr_expect_not(keeps(bound, PRECISION_F32, (double)NAN, false));
    cr_expect_not(keeps((struct demand){.precision = PRECISION_ANY}, PRECISION_F16_MMA, 0.0, true),
                  "without a bound f16 is below what any means");
}

Test(match, a_bound_beside_a_class_needs_both)
{
    const struct demand both = {.error_max = 1e-2, .precision = PRECISION_F16_STORAGE};
    cr_expect(keeps(both, PRECISION_F16_STORAGE, 1e-3, false));
    cr_expect_not(keeps(both, PRECISION_BF16, 1e-3, false));
    cr_expect_not(keeps(both, PRECISION_F16_STORAGE, 2e-2, false));
}

Test(match, f32_exact_needs_f32_and_equal_bits)
{
    const struct demand exact = {.exact = true, .precision = PRECISION_F32};
    cr_expect(keeps(exact, PRECISION_F32, (double)INFINITY, true));
    cr_expect_not(keeps(exact, PRECISION_F32, 0.0, false));
    cr_expect_not(keeps(exact, PRECISION_F16_STORAGE, 0.0, true));
}

Test(match, a_contract_is_written_as_people_state_it)
{
    char text[96];
    struct demand demand = {.error_max = 0.01};
    cr_expect_str_eq(match_contract_text(&demand, text, sizeof text), "max_relative_error=0.01");
    demand.precision = PRECISION_F32;
    demand.exact = true;
    cr_expect_str_eq(match_contract_text(&demand, text, sizeof text), "f32-exact and max_relative_error=0.01");
}
