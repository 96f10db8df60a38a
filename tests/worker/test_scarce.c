/*
 * Allocations of the worker and its engine fail, each place's in its turn and again and again every so many-th, while it starts, serves jobs of every kind for a real broker,
 * unloads and loads a model and drains: it neither crashes nor hangs, each job ends once, in a typed answer, and it serves rightly when there is memory again.
 *
 * The worker is this process's own, on a thread; the client beside it never lacks memory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "lean.h"
#include "lean_jobs.h"
#include "lean_worker.h"
#include "penstock/admin.h"
#include "pool.h"

#define ASK_US      ((int64_t)support_slow(60000) * 1000)
#define START_LIVES 200u
#define LIVENESS    "10s" /* long: on a loaded machine nobody is lost for being slow */

static char folder[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;
static struct lean_tally tally;

/* ---- the worker -------------------------------------------------------------------------------------------------------------------- */

static int worker_join(void)
{
    uint64_t until_us = support_now_us() + (uint64_t)ASK_US * 2;
    while (!lean_worker_ended() && support_now_us() < until_us)
        support_sleep_ms(1);
    cr_assert(lean_worker_ended(), "the worker hangs");
    return lean_worker_join();
}

static bool worker_listed(void)
{
    struct pen_worker_list *list = NULL;
    cr_assert_eq(pen_client_workers(client, ASK_US, &list, NULL), PEN_OK);
    bool listed = list->count > 0;
    pen_client_workers_free(list);
    return listed;
}

/* The broker knows it, soon; false: it has ended instead. */
static bool worker_there(void)
{
    uint64_t until_us = support_now_us() + (uint64_t)ASK_US * 2;
    while (!lean_worker_ended()) {
        if (worker_listed())
            return true;
        pool_check(&pool);
        cr_assert(support_now_us() < until_us, "the worker neither serves nor ends");
        support_sleep_ms(1);
    }
    return false;
}

/* The broker has read its farewell, which is still under way when the worker has ended; else the next one would seem to be there. */
static void worker_gone(void)
{
    uint64_t until_us = support_now_us() + (uint64_t)ASK_US * 2;
    while (worker_listed()) {
        pool_check(&pool);
        cr_assert(support_now_us() < until_us, "the broker keeps a worker that has ended");
        support_sleep_ms(1);
    }
}

/* -1: it serves; else its exit code. */
static int worker_start(void)
{
    lean_worker_start();
    return worker_there() ? -1 : worker_join();
}

static void worker_stop(void)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(pen_client_drain(client, LEAN_WORKER_NAME, ASK_US, &error), PEN_OK, "%s", error.text);
    int code = worker_join();
    cr_expect_eq(code, 0, "%d", code);
}

static void begin(void)
{
    struct pen_client_options client_options;
    folder_new(folder);
    lean_models(folder);
    pool_start(&pool, (const char *const[]){"--http", "none", "--bulk-from", LEAN_BROKER_BULK, "--sealed-from",
                                            LEAN_BROKER_SEALED, "--heartbeat", "25ms", "--liveness", LIVENESS,
                                            "--worker-wait", "1s", NULL});
    cr_assert(lean_worker_init(pool.workers_endpoint, folder));
    pen_client_options_init(&client_options, sizeof client_options);
    client_options.endpoint = pool.clients;
    client_options.connect_timeout_us = ASK_US;
    cr_assert_eq(pen_client_connect(&client_options, &client, NULL), PEN_OK);
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    lean_worker_fini();
    folder_free(folder);
}

/* ---- what it goes through ---------------------------------------------------------------------------------------------------------- */

/* The outcome of an order is told in time, whatever it is. */
static void order_check(enum pen_status status, struct pen_outcome_list *outcomes, const char *what)
{
    bool typed = status == PEN_OK || status == PEN_ERR_NO_MEMORY || status == PEN_ERR_WORKER_LOST ||
                 status == PEN_ERR_NOT_FOUND || status == PEN_ERR_UNAVAILABLE;
    cr_expect(typed, "%s: %s %s", what, pen_status_name(status),
              outcomes && outcomes->count ? outcomes->outcomes[0].error : "");
    pen_outcomes_free(outcomes);
}

static void orders(void)
{
    struct pen_outcome_list *outcomes = NULL;
    enum pen_status status = pen_client_model_unload(client, "many", ASK_US, &outcomes, NULL);
    order_check(status, outcomes, "unload");
    outcomes = NULL;
    status = pen_client_model_load(client, "many", ASK_US, &outcomes, NULL);
    order_check(status, outcomes, "load");
}

/* With memory again: the model that an order may have left out comes back, and all serve. */
static void all_well(unsigned seed, const char *how, unsigned long number)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert(worker_there(), "%s %lu: the worker does not come back", how, number);
    uint64_t until_us = support_now_us() + (uint64_t)ASK_US * 2;
    enum pen_status loaded, wide, many;
    do { /* what was to be said again is soon said */
        loaded = pen_client_model_load(client, "many", ASK_US, NULL, &error);
        wide = lean_job_one(client, "wide", seed);
        many = lean_job_one(client, "many", seed);
    } while ((loaded != PEN_OK || wide != PEN_OK || many != PEN_OK) && support_now_us() < until_us);
    cr_expect(loaded == PEN_OK && wide == PEN_OK && many == PEN_OK, "%s %lu: load again %s (%s), jobs %s, %s", how,
              number, pen_status_name(loaded), error.text, pen_status_name(wide), pen_status_name(many));
}

static void verdict(const char *how, unsigned long number)
{
    unsigned answers = 0;
    pool_check(&pool);
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        answers += tally.ended[i];
    cr_expect_eq(tally.lost, 0u, "%s %lu: %u jobs did not end: %s", how, number, tally.lost, tally.sentence);
    cr_expect_eq(tally.twice, 0u, "%s %lu: %u ended twice", how, number, tally.twice);
    cr_expect_eq(tally.wrong, 0u, "%s %lu: %u wrong answers", how, number, tally.wrong);
    cr_expect_eq(tally.odd, PEN_OK, "%s %lu: %s: %s", how, number, pen_status_name(tally.odd), tally.sentence);
    cr_expect_eq(answers, tally.submitted, "%s %lu: %u of %u ended", how, number, answers, tally.submitted);
    if (tally.lost > 0)
        fprintf(stderr, "%s\n", process_err(pool.broker));
    cr_assert(tally.lost + tally.twice + tally.wrong == 0 && tally.odd == PEN_OK);
}

static void serve_once(unsigned seed, const char *how, unsigned long number)
{
    lean_jobs(client, seed, false, &tally);
    orders();
    lean_fail_none();
    all_well(seed, how, number);
    verdict(how, number);
}

/* A start without memory ends with a sentence, or serves all models: the mode is prod. The next start is well. */
static void start_once(void)
{
    int code = worker_start();
    lean_fail_none();
    if (code >= 0) {
        cr_expect(lean_worker_failed_start(code), "%d", code);
    } else {
        uint64_t until_us = support_now_us() + (uint64_t)ASK_US * 2;
        enum pen_status status;
        do { /* it may lack memory for the broker's welcome, and then says hello again within a second */
            status = lean_job_one(client, "many", 3);
        } while (status == PEN_ERR_UNAVAILABLE && support_now_us() < until_us);
        cr_assert_eq(status, PEN_OK, "%s", pen_status_name(status));
        worker_stop();
    }
    worker_gone();
}

Test(scarce, each_allocation_of_a_serving_worker_fails_in_its_turn, .init = begin, .fini = end, .timeout = 120)
{
    static const unsigned step = 3; /* of some hundreds; what falls between is made up for by place */
    unsigned long k = 1;
    unsigned long before;
    do { /* places of the start, which loading and connecting go through again */
        before = lean_failed();
        lean_fail_fresh(1000000);
        start_once();
    } while (lean_failed() > before);
    cr_assert_eq(worker_start(), -1);
    do {
        lean_fail_kth(k);
        serve_once((unsigned)k, "allocation", k);
    } while (lean_count() >= k && (k += step));
    for (unsigned i = 0; i < 20 && lean_places_failed() < lean_places(); i++) {
        lean_fail_fresh(23 + 4 * i);
        serve_once((unsigned)k + i, "fresh", i);
    }
    worker_stop();
    lean_places_print();
    unsigned rare = lean_places() / 16 + 2; /* reached once, by a coincidence that did not come again */
    cr_expect(lean_places_failed() + rare >= lean_places(), "%u places of %u never failed",
              lean_places() - lean_places_failed(), lean_places());
    cr_expect(tally.ended[PEN_OK] > 4 * tally.ended[PEN_ERR_NO_MEMORY] && tally.ended[PEN_ERR_NO_MEMORY] > 0,
              "%u and %u", tally.ended[PEN_OK], tally.ended[PEN_ERR_NO_MEMORY]);
}

Test(scarce, every_so_many_allocations_of_a_serving_worker_fail, .init = begin, .fini = end, .timeout = 120)
{
    static const unsigned rows[] = {3, 5, 7, 11, 17, 29, 47, 97, 199};
    cr_assert_eq(worker_start(), -1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lean_fail_every(rows[i], i % 2 ? rows[i] / 2 : 0);
        serve_once(1000 + rows[i], "every", rows[i]);
    }
    lean_fail_every(5, 0); /* and while it drains */
    worker_stop();
    lean_fail_none();
    cr_expect_gt(lean_failed(), 100u, "%lu allocations failed", lean_failed());
}

Test(scarce, a_start_without_memory_ends_or_serves, .init = begin, .fini = end, .timeout = 120)
{
    lean_fail_kth(1000000);
    start_once();
    unsigned long step = lean_count() / START_LIVES + 1;
    for (unsigned long k = 1; k <= START_LIVES; k++) {
        lean_fail_kth(k * step - k % step);
        start_once();
    }
    start_once();
    cr_expect_gt(lean_failed(), START_LIVES / 2);
}
