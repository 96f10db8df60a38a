/* Two brokers, workers that serve both, a client that lists both: one is killed, drained, brought back; every job gets exactly one answer. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "folder.h"
#include "ledger.h"
#include "pool.h"

#define JOBS   3000
#define WINDOW 32

static struct pool pools[2];
static struct digits digits;
static char list[2 * POOL_ENDPOINT_BYTES + 2];

static void begin(void)
{
    char both[2 * POOL_ENDPOINT_BYTES + 2];
    digits_load(&digits);
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i], NULL);
    snprintf(list, sizeof list, "%s,%s", pools[0].clients, pools[1].clients);
    snprintf(both, sizeof both, "%s,%s", pools[0].workers_endpoint, pools[1].workers_endpoint);
    const char *const extra[] = {"--broker", both, NULL};
    pool_add_worker(&pools[0], "xnnpack", NULL, extra);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        pool_stop(&pools[i]);
    digits_free(&digits);
}

TestSuite(two_brokers, .init = begin, .fini = end);

static uint64_t jobs_done(const struct pool *pool)
{
    struct pen_error error = {0};
    struct pen_stats *stats;
    pen_client *client = digits_client(pool->clients);
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(20000) * 1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t count = stats->jobs_done;
    pen_client_stats_free(stats);
    pen_client_free(client);
    return count;
}

/* The pool whose broker the client talks to. */
static int home(void)
{
    return jobs_done(&pools[1]) > jobs_done(&pools[0]);
}

Test(two_brokers, a_killed_broker_hands_over)
{
    pen_client *client = digits_client(list);
    struct ledger *ledger = ledger_new(client, &digits, JOBS);
    int killed = home();
    ledger_submit(ledger, JOBS / 2, WINDOW);
    process_signal(pools[killed].broker, SIGKILL);
    ledger_forget_slowest(ledger);
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    /* How soon is measured by tests/bench/failover.py; that it is no time-out of tens of seconds is settled above. */
    cr_log_info("slowest job over the change: %lu us", (unsigned long)ledger_sums(ledger).slowest_us);
    process_wait(pools[killed].broker, 1000);
    ledger_free(ledger);
    pen_client_free(client);
}

Test(two_brokers, each_can_be_upgraded_in_turn_and_no_job_is_refused)
{
    pen_client *client = digits_client(list);
    struct ledger *ledger = ledger_new(client, &digits, 4 * JOBS);
    for (size_t turn = 0; turn < 4; turn++) {
        struct pool *pool = &pools[turn % 2];
        ledger_submit(ledger, JOBS * turn + JOBS / 2, WINDOW);
        process_signal(pool->broker, SIGTERM);
        ledger_submit(ledger, JOBS * (turn + 1), WINDOW);
        cr_assert_eq(process_wait(pool->broker, 20000), 0, "%s", process_err(pool->broker));
        pool_restart_broker(pool, NULL);
        ledger_settle(ledger, 10000);
    }
    ledger_check(ledger);
    ledger_free(ledger);
    pen_client_free(client);
}

Test(two_brokers, both_use_the_worker_at_once)
{
    pen_client *clients[2];
    struct ledger *ledgers[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = digits_client(pools[i].clients);
        ledgers[i] = ledger_new(clients[i], &digits, JOBS);
    }
    for (size_t jobs = WINDOW; jobs <= JOBS; jobs += WINDOW)
        for (int i = 0; i < 2; i++)
            ledger_submit(ledgers[i], jobs, WINDOW);
    for (int i = 0; i < 2; i++) {
        ledger_settle(ledgers[i], 10000);
        ledger_check(ledgers[i]);
        ledger_free(ledgers[i]);
        pen_client_free(clients[i]);
    }
}

Test(two_brokers, a_frozen_broker_is_left_after_its_silence)
{
    pen_client *client = digits_client(list);
    struct ledger *ledger = ledger_new(client, &digits, JOBS);
    int frozen = home();
    ledger_submit(ledger, JOBS / 2, WINDOW);
    process_signal(pools[frozen].broker, SIGSTOP);
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 20000);
    process_signal(pools[frozen].broker, SIGCONT); /* its late answers find nobody */
    ledger_check(ledger);
    ledger_free(ledger);
    pen_client_free(client);
}
