/* What a worker may be given, when it is free and how long its work takes: functions of its record alone. And which jobs shared a run, as a result tells it. */
#include <criterion/criterion.h>

#include "fleet.h"

enum { SLOTS = 2 };

static Penstock__WorkerHello hello;
static struct worker worker;
static struct dispatch first, second, third, fourth;
static struct dispatch *const held[] = {&first, &second, &third, &fourth};

/* A ready worker of two slots that holds nothing. */
static void begin(void)
{
    penstock__worker_hello__init(&hello);
    worker = (struct worker){.state = WORKER_READY, .slots = SLOTS, .hello = &hello};
    TAILQ_INIT(&worker.dispatches);
}

TestSuite(credit, .init = begin);

/* It holds messages of one job each that were sent at 1000 and should end at these times. */
static void holds(const uint64_t *end_us, uint32_t count, uint64_t expect_us, size_t bytes)
{
    begin();
    for (uint32_t i = 0; i < count; i++) {
        *held[i] = (struct dispatch){.sent_us = 1000 + i, .end_us = end_us[i]};
        TAILQ_INSERT_TAIL(&worker.dispatches, held[i], in_worker);
    }
    worker.messages = worker.jobs = count;
    worker.expect_us = expect_us;
    worker.bytes = bytes;
}

static const uint64_t ends[] = {60000, 50000, 70000, 80000};

Test(credit, a_free_slot_is_given_work_and_a_busy_one_shortly_before_it_is_free)
{
    static const struct {
        uint32_t messages;
        uint64_t now_us, expect_us, prepare_us;
        bool grows, given;
        uint64_t when_us; /* UINT64_MAX: nobody knows */
    } cases[] = {
        {0, 10000, 90000, 0, false, true, UINT64_MAX},
        {1, 10000, 90000, 0, false, true, UINT64_MAX},
        {2, 10000, 90000, 0, false, false, 49000}, /* PREFETCH_US before the first end */
        {2, 48999, 90000, 0, false, false, 49000},
        {2, 49000, 90000, 0, false, true, UINT64_MAX},
        {2, 10000, 90000, 5000, false, false, 44000}, /* what takes long to prepare comes so much earlier */
        {2, 44000, 90000, 5000, false, true, UINT64_MAX},
        {2, 10000, 90000, 0, true, false, 49000},
        {2, 10000, 1000, 0, true, false, 49500}, /* short work that grows: half of it */
        {2, 49499, 1000, 0, true, false, 49500},
        {2, 49500, 1000, 0, true, true, UINT64_MAX},
        {2, 10000, 1998, 0, true, false, 49001},
        {2, 10000, 2000, 0, true, false, 49000},
        {2, 10000, 2900, 0, true, false, 49000}, /* but never earlier than other work */
        {3, 10000, 90000, 0, false, false, 49000},
        {4, 49999, 90000, 0, false, false, UINT64_MAX}, /* two messages per slot are enough */
        {4, 50000, 90000, 0, false, false, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t when_us = 0;
        holds(ends, cases[i].messages, 90000, 0);
        bool given = worker_credit(&worker, cases[i].now_us, cases[i].expect_us, cases[i].prepare_us, 100,
                                   cases[i].grows, &when_us);
        cr_expect_eq(given, cases[i].given, "case %zu", i);
        cr_expect_eq(when_us, cases[i].when_us, "case %zu: %lu", i, (unsigned long)when_us);
    }
}

/* Of short jobs a slot may hold 64, or 2 ms of work. */
Test(credit, short_jobs_are_given_ahead)
{
    static const struct {
        uint32_t jobs, credit;
        uint64_t held_us, expect_us, prepare_us;
        bool grows, given;
    } cases[] = {
        {127, 0, 3000, 1000, 0, false, true},   {128, 0, 3000, 1000, 0, false, false},
        {127, 0, 3000, 1001, 0, false, false},  {127, 0, 3000, 1000, 0, true, false},
        {127, 0, 3000, 1300, 150, false, true}, {127, 0, 3000, 1301, 150, false, false},
        {127, 1, 1000, 1000, 0, false, true},   {127, 1, 1000, 1001, 0, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t when_us = 0;
        holds(ends, 4, cases[i].held_us, 0);
        worker.jobs = cases[i].jobs;
        worker.credit = cases[i].credit;
        bool given =
            worker_credit(&worker, 10000, cases[i].expect_us, cases[i].prepare_us, 100, cases[i].grows, &when_us);
        cr_expect_eq(given, cases[i].given, "case %zu", i);
        cr_expect_eq(when_us, UINT64_MAX, "case %zu", i);
    }
}

Test(credit, a_worker_of_several_brokers_takes_fewer_messages)
{
    uint64_t when_us = 0;
    holds(ends, 2, 90000, 0);
    cr_expect_not(worker_credit(&worker, 10000, 90000, 0, 100, false, &when_us));
    cr_expect_eq(when_us, 49000u);
    worker.credit = 1;
    cr_expect_not(worker_credit(&worker, 49500, 90000, 0, 100, false, &when_us));
    cr_expect_eq(when_us, UINT64_MAX, "it has its one per slot");
}

Test(credit, who_leaves_runs_a_suspect_or_is_paused_is_given_nothing)
{
    uint64_t when_us = 0;
    cr_expect(worker_credit(&worker, 10000, 1, 0, 1, false, &when_us));
    worker.isolated = true;
    cr_expect_not(worker_credit(&worker, 10000, 1, 0, 1, false, &when_us));
    worker.isolated = false;
    worker.paused = true;
    cr_expect_not(worker_credit(&worker, 10000, 1, 0, 1, false, &when_us));
    worker.paused = false;
    worker.state = WORKER_DRAINING;
    cr_expect_not(worker_credit(&worker, 10000, 1, 0, 1, false, &when_us));
}

Test(credit, bytes_are_within_what_the_worker_says)
{
    static const struct {
        uint64_t told;
        size_t most, held, bytes;
        bool given;
    } cases[] = {
        {0, CREDIT_BYTES, CREDIT_BYTES - 10, 10, true},
        {0, CREDIT_BYTES, CREDIT_BYTES - 10, 11, false},
        {6400, 6300, 6000, 300, true},
        {6400, 6300, 6000, 301, false},
        {UINT64_C(1) << 40, CREDIT_BYTES, 0, 1, true},
        {CREDIT_BYTES, CREDIT_BYTES - CREDIT_BYTES / 64, 0, 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t when_us = 0;
        holds(ends, 1, 100, cases[i].held);
        hello.queue_bytes = cases[i].told;
        cr_expect_eq(worker_bytes_max(&worker), cases[i].most, "case %zu", i);
        cr_expect_eq(worker_credit(&worker, 10000, 1, 0, cases[i].bytes, false, &when_us), cases[i].given, "case %zu",
                     i);
    }
    holds(ends, 0, 0, 0);
    hello.queue_bytes = 6400;
    uint64_t when_us = 0;
    cr_expect(worker_credit(&worker, 10000, 1, 0, 1u << 30, false, &when_us), "who holds nothing may get a larger job");
}

Test(credit, a_slot_is_free_when_the_first_message_ends)
{
    holds(ends, 1, 100, 0);
    cr_expect_eq(worker_free_us(&worker, 10000), 0u, "the other slot is");
    holds(ends, 2, 100, 0);
    cr_expect_eq(worker_free_us(&worker, 10000), 40000u);
    cr_expect_eq(worker_free_us(&worker, 49999), 1u);
    cr_expect_eq(worker_free_us(&worker, 50000), 0u);
    cr_expect_eq(worker_free_us(&worker, 60000), 0u, "it is late");
}

Test(credit, what_it_holds_counts_per_slot_and_a_stuck_one_looks_ever_worse)
{
    holds(ends, 2, 5000, 0);
    worker.elsewhere_us = 70;
    cr_expect_eq(worker_backlog_us(&worker, 2000), 2500u + 70);
    cr_expect_eq(worker_backlog_us(&worker, 1000 + 4 * 2500), 2500u + 70);
    cr_expect_eq(worker_backlog_us(&worker, 1000 + 4 * 2500 + 1), 4 * 2500u + 1 + 70);
    cr_expect_eq(worker_backlog_us(&worker, 500), 2500u + 70, "it was sent later than that");
    holds(ends, 0, 0, 0);
    cr_expect_eq(worker_backlog_us(&worker, 1000000), 0u);
}

/* ---- runs ---- */

Test(credit, jobs_that_shared_a_run_are_as_the_result_tells_within_what_may_run)
{
    static const struct {
        uint32_t count, open, rows, rows_max; /* of the dispatch */
        uint32_t batch, batch_rows, batch_place;
        struct shared_run run;
    } cases[] = {
        /* Older workers: what was sent together, counted by the first result. */
        {3, 3, 5, 8, 0, 0, 0, {3, 5, true}},
        {3, 2, 5, 8, 0, 0, 0, {3, 5, false}},
        {3, 3, 5, 8, 3, 0, 0, {3, 5, true}},
        {3, 3, 5, 8, 2, 0, 0, {3, 5, false}},
        /* Those that tell rows: counted by the first place. */
        {3, 3, 5, 8, 4, 6, 0, {4, 6, true}},
        {3, 1, 5, 8, 4, 6, 1, {4, 6, false}},
        {3, 3, 5, 8, 9, 8, 0, {8, 8, true}},
        {3, 3, 5, 8, 4, 9, 0, {4, 8, true}},
        {3, 3, 5, 4, 4, 9, 0, {4, 5, true}},
        {3, 3, 5, 8, 0, 1, 0, {1, 1, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct offer offer = {.rows_max = cases[i].rows_max};
        struct dispatch dispatch = {
            .offer = &offer, .count = cases[i].count, .open = cases[i].open, .rows = cases[i].rows};
        struct result_facts facts = {
            .batch = cases[i].batch, .batch_rows = cases[i].batch_rows, .batch_place = cases[i].batch_place};
        struct shared_run run = dispatch_run(&dispatch, &facts);
        cr_expect(run.jobs == cases[i].run.jobs && run.rows == cases[i].run.rows && run.counts == cases[i].run.counts,
                  "case %zu: %u jobs, %u rows, %d", i, run.jobs, run.rows, run.counts);
        dispatch.offer = NULL; /* withdrawn: no more than was sent */
        if (cases[i].batch_rows > 0)
            cr_expect_leq(dispatch_run(&dispatch, &facts).rows, cases[i].rows, "case %zu", i);
    }
}

Test(credit, the_time_of_preparing_is_a_mean_within_bounds)
{
    struct offer offer = {.prepare_us = 0};
    offer_prepared(&offer, 8000);
    cr_expect_eq(offer.prepare_us, 8000u, "the first");
    offer_prepared(&offer, 16000);
    cr_expect_eq(offer.prepare_us, 9000u);
    offer_prepared(&offer, 1000);
    cr_expect_eq(offer.prepare_us, 8000u);
    offer.prepare_us = 0;
    offer_prepared(&offer, UINT64_MAX);
    cr_expect_eq(offer.prepare_us, PREPARE_US_MAX);
}
