/* A broker that dies or leaves under load: clients and workers come back by themselves, every job gets exactly one answer. */
#include <criterion/criterion.h>
#include <signal.h>

#include "ledger.h"
#include "pool.h"

#define JOBS   2000
#define WINDOW 64

static struct pool pool;
static struct digits digits;
static pen_client *client;
static struct ledger *ledger;

static void begin(void)
{
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
    ledger = ledger_new(client, &digits, JOBS);
}

static void end(void)
{
    ledger_free(ledger);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(broker_loss, .init = begin, .fini = end);

Test(broker_loss, killed_and_restarted_broker_loses_no_job)
{
    struct pen_client_counters counters;
    ledger_submit(ledger, JOBS / 2, WINDOW);
    process_signal(pool.broker, SIGKILL);
    process_wait(pool.broker, 1000);
    pool_restart_broker(&pool, NULL);
    uint64_t back = support_now_us();
    ledger_submit(ledger, JOBS / 2 + 1, 1); /* returns when all that were under way have their answers */
    ledger_settle(ledger, 10000);
    uint64_t resumed_us = support_now_us() - back;
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    pen_client_counters(client, &counters, sizeof counters);
    cr_assert_gt(counters.jobs_resent, 0u);
    cr_log_info("answers again %lu us after the broker was back", (unsigned long)resumed_us);
    cr_assert_leq(resumed_us, (uint64_t)support_slow(3000) * 1000u);
}

Test(broker_loss, jobs_submitted_while_there_is_no_broker_are_answered_later)
{
    process_signal(pool.broker, SIGKILL);
    process_wait(pool.broker, 1000);
    ledger_submit(ledger, WINDOW, WINDOW + 1);
    support_sleep_ms(1500);
    pool_restart_broker(&pool, NULL);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
}

Test(broker_loss, terminated_broker_answers_what_it_holds_and_exits_with_0)
{
    ledger_submit(ledger, WINDOW, WINDOW + 1);
    process_signal(pool.broker, SIGTERM);
    cr_assert_eq(process_wait(pool.broker, 10000), 0, "%s", process_err(pool.broker));
    ledger_settle(ledger, 2000);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_assert_eq(sums.twice + sums.wrong, 0u);
    cr_assert_eq(sums.answered, sums.submitted, "%zu of %zu answered, %zu refused", sums.answered, sums.submitted,
                 sums.refused);
}

Test(broker_loss, frozen_broker_is_waited_for)
{
    ledger_submit(ledger, JOBS / 2, WINDOW);
    process_signal(pool.broker, SIGSTOP);
    support_sleep_ms(500);
    process_signal(pool.broker, SIGCONT);
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
}
