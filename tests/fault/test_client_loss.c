/* Clients that die or hang: their jobs go, and nobody else notices. */
#include <criterion/criterion.h>
#include <signal.h>

#include "ledger.h"
#include "pool.h"

static struct pen_stats *stats(pen_client *client)
{
    struct pen_stats *now;
    struct pen_error error = {0};
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(5000) * 1000, &now, &error), PEN_OK, "%s", error.text);
    return now;
}

static bool becomes_idle(pen_client *client, int timeout_ms)
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000u;
    for (;;) {
        struct pen_stats *now = stats(client);
        bool idle = now->queued + now->running == 0 && now->clients <= 1;
        pen_client_stats_free(now);
        if (idle || support_now_us() > until) {
            return idle;
        }
        support_sleep_ms(50);
    }
}

Test(client_loss, killed_clients_jobs_are_dropped_after_the_grace)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    struct process *load =
        process_start((const char *const[]){"penstock", "load", "--broker", pool.clients, "--model", "digits",
                                            "--no-cache", "--concurrency", "32", "--duration", "60s", NULL},
                      NULL);
    support_sleep_ms(500);
    pen_client *client = digits_client(pool.clients);
    cr_assert(process_alive(load), "%s", process_err(load));
    process_signal(load, SIGKILL);
    cr_assert(becomes_idle(client, 10000));
    struct ledger *ledger = ledger_new(client, &digits, 1000);
    ledger_submit(ledger, 1000, 64);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    ledger_free(ledger);
    pen_client_free(client);
    process_free(load);
    pool_stop(&pool);
    digits_free(&digits);
}

Test(client_loss, client_that_never_reads_costs_bounded_memory)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    struct process *load =
        process_start((const char *const[]){"penstock", "load", "--broker", pool.clients, "--model", "digits",
                                            "--no-cache", "--rate", "2000", "--duration", "60s", NULL},
                      NULL);
    support_sleep_ms(300);
    process_signal(load, SIGSTOP);
    support_sleep_ms(2000);
    pen_client *client = digits_client(pool.clients);
    struct ledger *ledger = ledger_new(client, &digits, 1000);
    ledger_submit(ledger, 1000, 64);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    cr_assert_lt(process_rss_bytes(pool.broker), (uint64_t)128 << 20);
    ledger_free(ledger);
    pen_client_free(client);
    process_free(load);
    pool_stop(&pool);
    digits_free(&digits);
}
