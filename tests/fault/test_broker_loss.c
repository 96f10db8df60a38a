/* A broker that dies or leaves under load: clients and workers come back by themselves, every job gets exactly one answer. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "ledger.h"
#include "onnx_file.h"
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
    process_signal(pool.broker, SIGSTOP); /* so that some are under way for certain */
    ledger_submit(ledger, JOBS / 2 + WINDOW, 2 * WINDOW + 1);
    process_signal(pool.broker, SIGKILL);
    process_wait(pool.broker, 1000);
    pool_restart_broker(&pool, NULL);
    uint64_t back = support_now_us();
    ledger_settle(ledger, 30000);
    uint64_t resumed_us = support_now_us() - back;
    ledger_submit(ledger, JOBS, WINDOW);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    pen_client_counters(client, &counters, sizeof counters);
    cr_assert_gt(counters.jobs_resent, 0u);
    /* How soon is measured by tests/bench/failover.py: here it would be the machine that is judged. */
    cr_log_info("answers again %lu us after the broker was back", (unsigned long)resumed_us);
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

#define SLOW_JOBS 12

/* A model of some 10 ms, so that the signal finds jobs queued, dispatched and running. */
static pen_job *submit_slow(pen_client *to, float *values, size_t count)
{
    struct pen_tensor x = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 16, 64, 64}};
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job;
    x.data = values;
    x.bytes = count * sizeof *values;
    pen_job_options_init(&options, sizeof options);
    options.model = "slow";
    options.inputs = &x;
    options.inputs_count = 1;
    options.flags = PEN_JOB_NO_CACHE;
    cr_assert_eq(pen_client_submit(to, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

static uint64_t admitted(void)
{
    struct pen_error error = {0};
    struct pen_stats *stats;
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(20000) * 1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t count = stats->jobs_admitted;
    pen_client_stats_free(stats);
    return count;
}

Test(broker_loss, terminated_broker_answers_what_it_holds_and_exits_with_0)
{
    static float values[16 * 64 * 64];
    char models[FOLDER_PATH_BYTES], path[512];
    pen_job *jobs[SLOW_JOBS];
    folder_new(models);
    snprintf(path, sizeof path, "%s/slow/1", models);
    folder_make(path);
    snprintf(path, sizeof path, "%s/slow/1/model.onnx", models);
    onnx_write_slow(path, 40);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    uint64_t before = admitted();
    for (size_t i = 0; i < SLOW_JOBS; i++) {
        jobs[i] = submit_slow(client, values, sizeof values / sizeof *values);
    }
    while (admitted() < before + SLOW_JOBS) /* all are the broker's now, not all are done */
        support_sleep_ms(1);
    process_signal(pool.broker, SIGTERM);
    for (size_t i = 0; i < SLOW_JOBS; i++) {
        struct pen_error error = {0};
        pen_result *result;
        cr_assert_eq(pen_job_wait(jobs[i], (int64_t)support_slow(10000) * 1000, &result, &error), PEN_OK, "%s",
                     error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK, "job %zu: %s", i, pen_result_error(result));
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    cr_assert_eq(process_wait(pool.broker, 10000), 0, "%s", process_err(pool.broker));
    folder_free(models);
}

Test(broker_loss, terminated_broker_tells_latecomers_and_no_job_stays_without_an_answer)
{
    ledger_submit(ledger, WINDOW, WINDOW + 1);
    process_signal(pool.broker, SIGTERM);
    cr_assert_eq(process_wait(pool.broker, 10000), 0, "%s", process_err(pool.broker));
    ledger_settle(ledger, 30000); /* longer than the client waits for a broker */
    struct ledger_sums sums = ledger_sums(ledger);
    cr_assert_eq(sums.twice + sums.wrong, 0u);
    cr_assert_eq(sums.answered + sums.refused, sums.submitted);
    cr_assert(sums.refused == 0 || sums.last_refusal == PEN_ERR_UNAVAILABLE, "%s", pen_status_name(sums.last_refusal));
}

/* As an upgrade does it, under load and with no other broker: what it refuses on its way out waits for the one that comes. */
Test(broker_loss, terminated_and_restarted_broker_refuses_nobody)
{
    const char *const argv[] = {"penstock",   "load",       "--model", "digits",     "--broker",
                                pool.clients, "--duration", "3s",      "--no-cache", "--concurrency",
                                "64",         "--unique",   "--json",  NULL};
    struct process *load = process_start(argv, NULL);
    unsigned errors = 1, requests = 0;
    for (int i = 0; i < 4; i++) {
        support_sleep_ms(600);
        process_signal(pool.broker, SIGTERM);
        cr_assert_eq(process_wait(pool.broker, 20000), 0, "%s", process_err(pool.broker));
        pool_restart_broker(&pool, NULL);
    }
    cr_assert_eq(process_wait(load, 60000), 0, "%s %s", process_out(load), process_err(load));
    const char *out = process_out(load);
    cr_assert(strstr(out, "\"errors\":") && sscanf(strstr(out, "\"errors\":"), "\"errors\":%u", &errors) == 1, "%s",
              out);
    cr_assert(strstr(out, "\"requests\":") && sscanf(strstr(out, "\"requests\":"), "\"requests\":%u", &requests) == 1);
    cr_assert_gt(requests, 500u, "%s", out);
    cr_assert_eq(errors, 0u, "%s", out);
    process_free(load);
}

/* The worker sleeps on a job, so that the broker drains for as long as it is looked at. */
Test(broker_loss, who_asks_to_be_told_of_a_drain_is_told)
{
    char *out = NULL, *err = NULL;
    process_signal(pool.workers[0], SIGSTOP);
    ledger_submit(ledger, 1, 2);
    while (admitted() == 0)
        support_sleep_ms(1);
    process_signal(pool.broker, SIGTERM);
    cr_assert(process_wait_text(pool.broker, "evt=drain ", 5000));
    const char *const argv[] = {"--model", "digits", "--duration", "50ms", "--tell-drain", "--json", NULL};
    pool_cli(&pool, "load", argv, &out, &err);
    cr_assert_null(strstr(out, "\"errors\":0,"), "%s", out);
    cr_assert_not_null(strstr(err, "the broker is draining"), "%s", err);
    process_signal(pool.workers[0], SIGCONT);
    ledger_settle(ledger, 20000);
    free(out);
    free(err);
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
