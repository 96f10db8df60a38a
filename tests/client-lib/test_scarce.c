/*
 * Allocations of the client library fail, each in its turn and again and again every so many-th, while a client connects to a real pool, submits jobs of every kind, asks
 * questions and leaves: nothing crashes or hangs, each call says NO_MEMORY or succeeds, each job ends once, and the same client works when there is memory again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "lean.h"
#include "lean_jobs.h"
#include "penstock/admin.h"
#include "pool.h"

#define STRIDE   3 /* every third allocation has its turn; what falls between is made up for by place */
#define ASK_US   ((int64_t)support_slow(60000) * 1000)
#define LIVENESS "120s" /* nobody is lost for being slow, and what only a loss would make up for counts as a lost job */

static char folder[FOLDER_PATH_BYTES], journal[FOLDER_PATH_BYTES + 16];
static struct pool pool;
static struct lean_tally tally;
static unsigned lives, connected, answers_good, answers_without;

static void begin(void)
{
    folder_new(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    lean_models(folder);
    pool_start(&pool, (const char *const[]){"--http", "none", "--journal", journal, "--bulk-from", LEAN_BROKER_BULK,
                                            "--sealed-from", LEAN_BROKER_SEALED, "--heartbeat", "25ms", "--liveness",
                                            LIVENESS, NULL});
    pool_add_worker(&pool, "reference", folder, NULL);
}

static void end(void)
{
    pool_stop(&pool);
    folder_free(folder);
}

static enum pen_status connect_now(pen_client **ret_client)
{
    struct pen_client_options options;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.name = "lean";
    options.tenant = "somebody";
    options.connect_timeout_us = ASK_US;
    options.unreachable_us = 2 * ASK_US;
    return pen_client_connect(&options, ret_client, NULL);
}

/* A question ends with its answer, or without memory; never by its time limit. */
static bool answered(enum pen_status status, const char *what)
{
    cr_expect(status == PEN_OK || status == PEN_ERR_NO_MEMORY, "%s: %s", what, pen_status_name(status));
    answers_good += status == PEN_OK;
    answers_without += status == PEN_ERR_NO_MEMORY;
    return status == PEN_OK;
}

static void ask(pen_client *client)
{
    struct pen_model_list *models;
    struct pen_worker_list *workers;
    struct pen_stats *stats;
    struct pen_quarantine *quarantine;
    char *text = NULL;
    if (answered(pen_client_models(client, ASK_US, &models, NULL), "models")) {
        cr_expect_eq(models->count, 3u);
        pen_client_models_free(models);
    }
    if (answered(pen_client_workers(client, ASK_US, &workers, NULL), "workers")) {
        cr_expect_eq(workers->count, 1u);
        pen_client_workers_free(workers);
    }
    if (answered(pen_client_stats(client, ASK_US, &stats, NULL), "stats"))
        pen_client_stats_free(stats);
    if (answered(pen_client_quarantine(client, NULL, ASK_US, &quarantine, NULL), "quarantine"))
        pen_client_quarantine_free(quarantine);
    if (answered(pen_client_log_level(client, "warn", NULL, ASK_US, &text, NULL), "log-level"))
        pen_text_free(text);
    if (answered(pen_client_arrivals(client, "0", ASK_US, &text, NULL), "arrivals"))
        pen_text_free(text);
    struct pen_outcome_list *outcomes = NULL;
    answered(pen_client_model_load(client, "wide", ASK_US, &outcomes, NULL), "load");
    pen_outcomes_free(outcomes);
}

/* One client from its connection to its end. The allocations that are to fail are set by the caller; they fail until the last job has ended. */
static void life(unsigned seed)
{
    pen_client *client = NULL;
    struct pen_client_counters counters;
    lives++;
    lean_watch(true);
    enum pen_status status = connect_now(&client);
    cr_expect(status == PEN_OK || status == PEN_ERR_NO_MEMORY || status == PEN_ERR_UNAVAILABLE, "connect: %s",
              pen_status_name(status));
    if (status == PEN_OK) {
        connected++;
        lean_jobs(client, seed, true, &tally);
        ask(client);
    }
    lean_fail_none();
    if (status != PEN_OK)
        cr_assert_eq(connect_now(&client), PEN_OK, "with memory again");
    cr_expect_eq(lean_job_one(client, "wide", seed), PEN_OK, "with memory again");
    pen_client_counters(client, &counters, sizeof counters);
    cr_expect(counters.jobs_pending == 0 && counters.jobs_submitted == counters.jobs_ended, "%llu of %llu",
              (unsigned long long)counters.jobs_ended, (unsigned long long)counters.jobs_submitted);
    pen_client_free(client);
    lean_watch(false);
}

static void verdict(const char *how, unsigned long number)
{
    unsigned ended = 0;
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        ended += tally.ended[i];
    cr_expect_eq(tally.lost, 0u, "%s %lu: %u jobs did not end", how, number, tally.lost);
    cr_expect_eq(tally.twice, 0u, "%s %lu: %u ended twice", how, number, tally.twice);
    cr_expect_eq(tally.wrong, 0u, "%s %lu: %u wrong answers", how, number, tally.wrong);
    cr_expect_eq(tally.odd, PEN_OK, "%s %lu: %s: %s", how, number, pen_status_name(tally.odd), tally.sentence);
    cr_expect_eq(ended, tally.submitted, "%s %lu: %u of %u ended", how, number, ended, tally.submitted);
    if (tally.lost > 0)
        fprintf(stderr, "%s\n%s\n", tally.sentence, process_err(pool.broker));
    cr_assert(tally.lost + tally.twice + tally.wrong == 0 && tally.odd == PEN_OK);
}

Test(scarce, each_allocation_of_a_client_fails_in_its_turn, .init = begin, .fini = end, .timeout = 300)
{
    unsigned long k = 1;
    do {
        lean_fail_kth(k);
        life((unsigned)k);
        verdict("allocation", k);
    } while (lean_count() >= k && (k += STRIDE));
    for (unsigned i = 0; i < 20 && lean_places_failed() < lean_places(); i++) {
        lean_fail_fresh(19 + 4 * i);
        life((unsigned)k + i);
        verdict("fresh", i);
    }
    lean_places_print();
    unsigned rare = lean_places() / 16 + 2; /* reached once, by a coincidence that did not come again */
    cr_expect(lean_places_failed() + rare >= lean_places(), "%u places of %u never failed",
              lean_places() - lean_places_failed(), lean_places());
    cr_expect(lives >= k / STRIDE && connected > lives / 2, "%u of %u lives connected", connected, lives);
    cr_expect(tally.ended[PEN_ERR_NO_MEMORY] + tally.refused > 20, "without memory");
}

Test(scarce, every_so_many_allocations_of_a_client_fail, .init = begin, .fini = end, .timeout = 300)
{
    static const unsigned rows[] = {2, 3, 5, 7, 11, 17, 29, 47, 97, 199};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned from = 0; from < 2; from++) {
            lean_fail_every(rows[i], from * rows[i] / 2);
            life(rows[i] + from);
            verdict("every", rows[i]);
        }
    cr_expect_gt(lean_failed(), 50u, "%lu allocations failed", lean_failed());
}
