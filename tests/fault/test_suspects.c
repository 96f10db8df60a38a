/* Two brokers share workers, and one of their many jobs ends every worker that runs it: only that one is found guilty, all others are answered. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"
#include "pool.h"

#define JOBS    20000 /* per broker; most of them are never needed */
#define STEP    100
#define WINDOW  24
#define WORKERS 3

static struct pool pools[2];
static struct digits digits;
static pen_client *clients[2];
static struct ledger *ledgers[2];

static void begin(void)
{
    char both[2 * POOL_ENDPOINT_BYTES + 2];
    digits_load(&digits);
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i], (const char *const[]){"--restart-wait", "60s", NULL}); /* workers may be slow to start */
    snprintf(both, sizeof both, "%s,%s", pools[0].workers_endpoint, pools[1].workers_endpoint);
    pools[0].worker_program = PENSTOCK_PLANTED_WORKER;
    for (size_t i = 0; i < WORKERS; i++)
        pool_add_worker(&pools[0], "reference", NULL,
                        (const char *const[]){"--slots", "2", "--broker", both, "--supervise", NULL});
    for (int i = 0; i < 2; i++) {
        clients[i] = digits_client(pools[i].clients);
        ledgers[i] = ledger_new(clients[i], &digits, JOBS);
    }
}

static void end(void)
{
    for (int i = 0; i < 2; i++) {
        ledger_free(ledgers[i]);
        pen_client_free(clients[i]);
    }
    for (int i = 0; i < 2; i++)
        pool_stop(&pools[i]);
    digits_free(&digits);
}

TestSuite(suspects, .init = begin, .fini = end);

/* Innocent jobs at both brokers until that one is answered; its sentence is freed by the caller. */
static pen_result *load_until(pen_job *job)
{
    pen_result *result = NULL;
    for (size_t jobs = STEP; jobs <= JOBS; jobs += STEP) {
        for (int i = 0; i < 2; i++)
            ledger_submit(ledgers[i], ledger_sums(ledgers[i]).submitted + STEP, WINDOW);
        if (pen_job_wait(job, 0, &result, NULL) == PEN_OK)
            return result;
    }
    cr_assert_fail("the poisonous job was not answered while %d others were", 2 * JOBS);
    return NULL;
}

static size_t quarantined(int at)
{
    char *out = NULL;
    size_t lines = 0;
    cr_assert_eq(pool_cli(&pools[at], "quarantine", (const char *const[]){"list", NULL}, &out, NULL), 0);
    for (const char *line = out; (line = strstr(line, "digits")); line++)
        lines++;
    free(out);
    return lines;
}

static void settled(void)
{
    for (int i = 0; i < 2; i++) {
        ledger_settle(ledgers[i], 30000);
        ledger_check(ledgers[i]);
    }
}

/* The words that `penstock quarantine VERB JOB` must print; its exit code. */
static void quarantine_says(const char *verb, const char *job, const char *json, int code, const char *text)
{
    char *out = NULL, *err = NULL;
    int got = pool_cli(&pools[1], "quarantine", (const char *const[]){verb, job, json, NULL}, &out, &err);
    cr_expect_eq(got, code, "%s %s gave %d: %s", verb, job, got, err);
    cr_expect(strstr(out, text) || strstr(err, text), "%s %s: '%s' is not in '%s%s'", verb, job, text, out, err);
    free(out);
    free(err);
}

/* Looked at, asked for again, let out, run again. */
static void quarantine_is_used(const char *id)
{
    quarantine_says("show", id, NULL, 0, "deaths    3");
    quarantine_says("show", id, "--json", 0, "\"known\":true");
    quarantine_says("list", NULL, NULL, 0, id);
    pen_job *like = digits_planted(clients[1], &digits, "KILL", 0);
    pen_result *result = NULL;
    cr_assert_eq(pen_job_wait(like, (int64_t)support_slow(20000) * 1000, &result, NULL), PEN_OK);
    cr_expect_eq(pen_result_status(result), PEN_ERR_WORKER_LOST);
    pen_result_free(result);
    pen_job_free(like);
    quarantine_says("show", id, NULL, 0, "refused   1 equal job");
    quarantine_says("kick", "0123456789abcdef-9", NULL, 1, "no job of that id");
    quarantine_says("kick", id, "--json", 0, id);
    quarantine_says("kick", id, NULL, 1, "no job of that id");
    quarantine_says("list", NULL, NULL, 0, "no job is in quarantine");
    quarantine_says("free", id, NULL, 2, "list, show JOB, kick JOB");
}

Test(suspects, only_the_poisonous_job_of_two_brokers_is_found_guilty)
{
    pen_job *job = digits_planted(clients[1], &digits, "KILL", 0);
    pen_result *result = load_until(job);
    cr_expect_eq(pen_result_status(result), PEN_ERR_WORKER_LOST, "%s", pen_result_error(result));
    cr_expect_not_null(strstr(pen_result_error(result), "quarantine"), "%s", pen_result_error(result));
    settled();
    cr_expect_eq(quarantined(0), 0, "nothing at the broker that never had it");
    cr_expect_eq(quarantined(1), 1);
    char id[PEN_JOB_ID_BYTES];
    pen_job_id(job, id);
    quarantine_is_used(id);
    pen_result_free(result);
    pen_job_free(job);
}

Test(suspects, several_poisonous_jobs_at_both_brokers_blame_nobody_else)
{
    pen_job *jobs[4];
    for (uint8_t i = 0; i < 4; i++)
        jobs[i] = digits_planted(clients[i % 2], &digits, "KILL", i);
    for (int i = 0; i < 4; i++) {
        pen_result *result = load_until(jobs[i]);
        cr_expect_eq(pen_result_status(result), PEN_ERR_WORKER_LOST, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    settled();
    cr_expect_eq(quarantined(0), 2);
    cr_expect_eq(quarantined(1), 2);
}
