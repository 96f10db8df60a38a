/*
 * A slot's thread that stands still outside of a run, in a dispatch or between two: the watchdog ends the process, and no job is lost. So does an invariant
 * that does not hold.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "ledger.h"
#include "pool.h"

#define JOBS   400
#define WINDOW 8

static struct pool pool;
static struct digits digits;
static pen_client *client;

static void begin(void)
{
    digits_load(&digits);
    pool_start(&pool, NULL);
    client = digits_client(pool.clients);
    pool.worker_program = PENSTOCK_PLANTED_WORKER;
    pool_add_worker(&pool, "reference", NULL, (const char *const[]){"--watchdog", "500ms", "--supervise", NULL});
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(wedged, .init = begin, .fini = end);

static enum pen_status run(const char word[5])
{
    struct pen_error error = {0};
    pen_result *result = NULL;
    pen_job *job = digits_planted(client, &digits, word, 0);
    cr_assert_eq(pen_job_wait(job, (int64_t)support_slow(60000) * 1000, &result, &error), PEN_OK, "%s\n%s", error.text,
                 process_err(pool.workers[0]));
    enum pen_status status = pen_result_status(result);
    pen_result_free(result);
    pen_job_free(job);
    return status;
}

static void others_are_answered(void)
{
    struct ledger *ledger = ledger_new(client, &digits, JOBS);
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 30000);
    ledger_check(ledger);
    ledger_free(ledger);
}

Test(wedged, thread_that_hangs_before_its_run_ends_the_worker_and_the_job_is_found_out)
{
    cr_expect_eq(run("HANG"), PEN_ERR_WORKER_LOST);
    cr_expect_not_null(strstr(process_err(pool.workers[0]), "stands still between runs"), "%s",
                       process_err(pool.workers[0]));
    others_are_answered();
}

Test(wedged, thread_that_takes_no_more_ends_the_worker_and_what_waited_runs_on_the_next)
{
    cr_expect_eq(run("LAST"), PEN_OK);
    others_are_answered();
    cr_expect_not_null(strstr(process_err(pool.workers[0]), "does not take what waits"), "%s",
                       process_err(pool.workers[0]));
}

Test(wedged, invariant_that_does_not_hold_ends_the_worker_with_its_sentence_and_its_supervisor_starts_it_again)
{
    cr_expect_eq(run("FAIL"), PEN_ERR_WORKER_LOST);
    const char *log = process_err(pool.workers[0]);
    cr_expect_not_null(strstr(log, "level=error evt=assertion_failed at="), "%s", log);
    cr_expect_not_null(strstr(log, "invariant=\"no job is planted\""), "%s", log);
    cr_expect_not_null(strstr(log, "evt=child_died code=134 signal=6"), "%s", log);
    others_are_answered();
}
