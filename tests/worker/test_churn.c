/* Workers and models that come and go under load, in a pool with a real broker: every job is answered once and rightly. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
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

static void version_put(const char *root, int version)
{
    char folder[FOLDER_PATH_BYTES + 32], part[FOLDER_PATH_BYTES + 64], whole[FOLDER_PATH_BYTES + 64];
    snprintf(folder, sizeof folder, "%s/digits/%d", root, version);
    snprintf(part, sizeof part, "%s/part", folder);
    snprintf(whole, sizeof whole, "%s/model.onnx", folder);
    folder_make(folder);
    file_copy(POOL_DIGITS_MODELS "/digits/1/model.onnx", part);
    cr_assert(rename(part, whole) == 0);
}

Test(churn, versions_that_come_and_go_under_load_lose_nothing, .timeout = 280)
{
    struct pool pool;
    struct digits digits;
    char root[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32], text[96];
    folder_new(root);
    version_put(root, 1);
    snprintf(path, sizeof path, "%s/digits/config.json", root);
    file_copy(POOL_DIGITS_MODELS "/digits/config.json", path);
    digits_load(&digits);
    pool_start(&pool, NULL);
    size_t worker = pool_add_worker(&pool, "reference", root, (const char *const[]){"--watch", "50ms", NULL});
    pen_client *client = digits_client(pool.clients);
    struct ledger *ledger = ledger_new(client, &digits, 200000);
    size_t jobs = 0;
    for (int version = 2; version < 6; version++) {
        version_put(root, version);
        snprintf(text, sizeof text, "evt=model_unloaded model=digits version=%d models=1", version - 1);
        while (!strstr(process_err(pool.workers[worker]), text)) {
            ledger_submit(ledger, jobs += 200, WINDOW);
            support_sleep_ms(
                20); /* loading makes way for whatever computes: leave it a moment, longer than the window lasts */
            cr_assert(jobs < 200000, "%s", process_err(pool.workers[worker]));
        }
        snprintf(path, sizeof path, "%s/digits/%d", root, version - 1);
        folder_free(path);
    }
    ledger_settle(ledger, 20000);
    ledger_check(ledger);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_expect(sums.refused == 0 && sums.twice == 0 && sums.answered == sums.submitted, "%s", sums.last_sentence);
    ledger_free(ledger);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
    folder_free(root);
}
