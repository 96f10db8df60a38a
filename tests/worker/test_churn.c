/* Workers that come and go at any moment of their greeting: whatever the broker has sent them by then runs elsewhere. */
#include <criterion/criterion.h>
#include <signal.h>

#include "ledger.h"
#include "pool.h"

#define ROUNDS 12
#define WINDOW 48

Test(churn, sigterm_around_the_welcome_loses_nothing, .timeout = 120)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "reference", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    struct ledger *ledger = ledger_new(client, &digits, ROUNDS * 1000);
    for (int round = 0; round < ROUNDS; round++) {
        const char *const argv[] = {"penstock-worker",  "--broker",  pool.workers_endpoint, "--models",
                                    POOL_DIGITS_MODELS, "--backend", "reference",           NULL};
        struct process *worker = process_start(argv, NULL);
        cr_assert(process_wait_text(worker, "evt=ready", 20000)); /* the hello is on its way, the WELCOME is not read */
        support_sleep_ms(round % 4);
        process_signal(worker, SIGTERM);
        ledger_submit(ledger, (size_t)(round + 1) * 500, WINDOW);
        cr_expect(process_wait(worker, 10000) == 0, "%s", process_err(worker));
        process_free(worker);
    }
    ledger_settle(ledger, 20000);
    ledger_check(ledger);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_expect(sums.refused == 0 && sums.twice == 0 && sums.answered == sums.submitted);
    ledger_free(ledger);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}
