/*
 * Detached jobs in a real Redis: brokers, workers and Redis itself are killed with SIGKILL, and every accepted job has its one result in the end,
 * at whichever broker it is asked for.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "folder.h"
#include "pool.h"

#define JOBS 250

static char folder[FOLDER_PATH_BYTES], url[64];
static struct pool pools[2];
static struct process *redis;
static int port;
static struct digits digits;

static void redis_up(void)
{
    redis = redis_start(&port,
                        (const char *const[]){"--appendonly", "yes", "--appendfsync", "always", "--dir", folder, NULL});
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0", port);
}

static void redis_kill(void)
{
    process_signal(redis, SIGKILL);
    process_wait(redis, 5000);
    process_free(redis);
    redis = NULL;
}

static const char *const *options(void)
{
    static const char *list[] = {"--detached", url, "--detached-lease", "1s", "--http", "none", NULL};
    return list;
}

static void begin(void)
{
    folder_new(folder);
    port = 0;
    redis_up();
    digits_load(&digits);
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i], options());
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        pool_stop(&pools[i]);
    digits_free(&digits);
    process_free(redis);
    folder_free(folder);
}

TestSuite(streams, .init = begin, .fini = end, .timeout = 200);

static void await_up(int broker)
{
    cr_assert(process_wait_text(pools[broker].broker, "evt=detached_up", support_slow(10000)), "%s",
              process_err(pools[broker].broker));
}

static enum pen_status try_submit(pen_client *client, size_t index, char id[PEN_JOB_ID_BYTES])
{
    struct pen_tensor tensor = digits_tensor(&digits, index % 10);
    struct pen_job_options job_options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    pen_result *result = NULL;
    digits_job(&tensor, &job_options);
    job_options.flags = PEN_JOB_DETACHED;
    cr_assert_eq(pen_client_submit(client, &job_options, &job, &error), PEN_OK, "%s", error.text);
    pen_job_id(job, id);
    cr_assert_eq(pen_job_wait(job, (int64_t)support_slow(20000) * 1000, &result, &error), PEN_OK, "%s", error.text);
    enum pen_status status = pen_result_status(result);
    pen_result_free(result);
    pen_job_free(job);
    return status;
}

/* Redis or a broker may be gone for a while: what is not accepted is sent again, as a job of its own. */
static void submit(pen_client *client, size_t index, char id[PEN_JOB_ID_BYTES])
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(20000) * 1000;
    enum pen_status status;
    while ((status = try_submit(client, index, id)) != PEN_OK) {
        cr_assert_eq(status, PEN_ERR_UNAVAILABLE);
        cr_assert_lt(support_now_us(), end_us);
        support_sleep_ms(20);
    }
}

static void fetch(pen_client *client, const char *id)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(30000) * 1000;
    struct pen_job_options job_options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    enum pen_status status;
    do {
        pen_job_options_init(&job_options, sizeof job_options);
        job_options.detached = id;
        job_options.deadline_us = (uint64_t)support_slow(30000) * 1000u;
        status = pen_client_run(client, &job_options, &result, &error);
    } while (status == PEN_ERR_UNAVAILABLE && support_now_us() < end_us);
    cr_assert_eq(status, PEN_OK, "%s: %s", id, error.text);
    cr_assert_eq(pen_result_outputs(result), 1u);
    pen_result_free(result);
}

static void fetch_all(int broker, char ids[][PEN_JOB_ID_BYTES], size_t count)
{
    pen_client *client = digits_client(pools[broker].clients);
    for (size_t i = 0; i < count; i++)
        fetch(client, ids[i]);
    pen_client_free(client);
}

static uint64_t jobs_done(int broker)
{
    struct pen_error error = {0};
    struct pen_stats *stats;
    pen_client *client = digits_client(pools[broker].clients);
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(20000) * 1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t count = stats->jobs_done;
    pen_client_stats_free(stats);
    pen_client_free(client);
    return count;
}

Test(streams, another_broker_finishes_what_a_killed_one_accepted_and_what_it_had_begun)
{
    char ids[JOBS][PEN_JOB_ID_BYTES];
    await_up(0);
    await_up(1);
    cr_assert_not_null(strstr(process_err(pools[0].broker), "appendfsync always"), "%s", process_err(pools[0].broker));
    pool_add_worker(&pools[0], "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pools[0].clients);
    for (size_t i = 0; i < JOBS; i++)
        submit(client, i, ids[i]);
    process_signal(pools[0].workers[0], SIGSTOP); /* what it has will not be done by it */
    char more[JOBS][PEN_JOB_ID_BYTES];
    for (size_t i = 0; i < JOBS; i++)
        submit(client, i, more[i]);
    process_signal(pools[0].broker, SIGKILL);
    process_signal(pools[0].workers[0], SIGKILL);
    pen_client_free(client);
    pool_add_worker(&pools[1], "xnnpack", NULL, NULL);
    fetch_all(1, ids, JOBS);
    fetch_all(1, more, JOBS);
    process_wait(pools[0].broker, 5000);
    pool_restart_broker(&pools[0], options());
    fetch_all(0, ids, JOBS);
    fetch_all(0, more, JOBS);
}

Test(streams, accepted_jobs_and_results_survive_kill_9_of_redis)
{
    char ids[JOBS][PEN_JOB_ID_BYTES];
    await_up(0);
    await_up(1);
    pen_client *client = digits_client(pools[0].clients);
    for (size_t i = 0; i < JOBS; i++) {
        if (i == JOBS / 4)
            pool_add_worker(&pools[0], "xnnpack", NULL, NULL);
        if (i == JOBS / 2) {
            redis_kill();
            redis_up();
        }
        if (i == JOBS * 3 / 4)
            pool_add_worker(&pools[1], "xnnpack", NULL, NULL);
        submit(client, i, ids[i]);
    }
    pen_client_free(client);
    redis_kill();
    redis_up();
    fetch_all(1, ids, JOBS);
    fetch_all(0, ids, JOBS);
}

Test(streams, brokers_take_turns)
{
    char ids[4 * JOBS][PEN_JOB_ID_BYTES];
    await_up(0);
    await_up(1);
    pen_client *client = digits_client(pools[0].clients);
    for (size_t i = 0; i < 4 * JOBS; i++)
        submit(client, i, ids[i]);
    pen_client_free(client);
    for (int i = 0; i < 2; i++) {
        pool_add_worker(&pools[i], "xnnpack", NULL, NULL);
        process_signal(pools[i].workers[0], SIGSTOP);
    }
    for (int i = 0; i < 2; i++)
        process_signal(pools[i].workers[0], SIGCONT);
    fetch_all(1, ids, 4 * JOBS);
    uint64_t done[2] = {jobs_done(0), jobs_done(1)};
    cr_log_info("done by each: %lu %lu", (unsigned long)done[0], (unsigned long)done[1]);
    cr_assert_geq(done[0] + done[1], 4 * JOBS);
}

/* The second broker keeps detached jobs in a journal while Redis is gone; the first has nothing else. */
static void second_falls_back(void)
{
    char path[FOLDER_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/journal", folder);
    await_up(0);
    process_signal(pools[1].broker, SIGTERM);
    cr_assert_eq(process_wait(pools[1].broker, 20000), 0, "%s", process_err(pools[1].broker));
    pool_restart_broker(&pools[1], (const char *const[]){"--detached", url, "--journal", path, "--http", "none", NULL});
    await_up(1);
}

Test(streams, without_redis_a_typed_error_or_the_journal_as_the_setting_says)
{
    char id[PEN_JOB_ID_BYTES];
    second_falls_back();
    redis_kill();
    for (int i = 0; i < 2; i++)
        cr_assert(process_wait_text(pools[i].broker, "evt=detached_down", support_slow(10000)));
    pen_client *plain = digits_client(pools[0].clients), *fallen = digits_client(pools[1].clients);
    cr_assert_eq(try_submit(plain, 0, id), PEN_ERR_UNAVAILABLE);
    pool_add_worker(&pools[1], "xnnpack", NULL, NULL);
    cr_assert_eq(try_submit(fallen, 0, id), PEN_OK);
    fetch(fallen, id);
    pen_client_free(plain);
    pen_client_free(fallen);
    redis_up();
}

/* A replica answers and writes nothing: it came up and went with every job, which was refused as if nobody knew what had become of it. */
Test(streams, redis_that_writes_nothing_counts_as_gone)
{
    char id[PEN_JOB_ID_BYTES];
    second_falls_back();
    pool_add_worker(&pools[1], "xnnpack", NULL, NULL);
    free(redis_cli(port, (const char *const[]){"replicaof", "127.0.0.1", "1", NULL}));
    pen_client *plain = digits_client(pools[0].clients), *fallen = digits_client(pools[1].clients);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(try_submit(plain, 0, id), PEN_ERR_UNAVAILABLE);
        cr_assert_eq(try_submit(fallen, 0, id), PEN_OK, "%s", process_err(pools[1].broker));
        fetch(fallen, id);
        support_sleep_ms(40); /* longer, together, than it takes to try again */
    }
    for (int i = 0; i < 2; i++)
        cr_assert(process_wait_text(pools[i].broker, "READONLY", 0), "%s", process_err(pools[i].broker));
    cr_assert_null(strstr(process_err(pools[0].broker), "may have been accepted"), "a refusal is no doubt");
    free(redis_cli(port, (const char *const[]){"replicaof", "no", "one", NULL}));
    submit(plain, 0, id);
    pen_client_free(plain);
    pen_client_free(fallen);
}

/* In an empty Redis, too: to be told BUSY would let its client try for ever. */
Test(streams, job_beyond_the_cap_by_itself_is_too_large)
{
    char value[5008] = "x=", *out, *err;
    memset(value + 2, 'a', sizeof value - 3);
    process_signal(pools[1].broker, SIGTERM);
    cr_assert_eq(process_wait(pools[1].broker, 20000), 0, "%s", process_err(pools[1].broker));
    pool_restart_broker(&pools[1],
                        (const char *const[]){"--detached", url, "--detached-bytes", "4KiB", "--http", "none", NULL});
    await_up(1);
    pool_add_worker(&pools[1], "xnnpack", NULL, NULL);
    const char *const job[] = {"digits",      PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png",
                               "--detach",    "--json",
                               "--parameter", value,
                               NULL};
    cr_assert_eq(pool_cli(&pools[1], "submit", job, &out, &err), 1, "%s", err);
    cr_assert_not_null(strstr(out, "TOO_LARGE"), "%s", out);
    cr_assert_not_null(strstr(out, "--detached-bytes"), "%s", out);
    free(out);
    free(err);
}

Test(streams, cancelled_at_another_broker)
{
    char id[PEN_JOB_ID_BYTES];
    struct pen_error error = {0};
    struct pen_job_options job_options;
    pen_result *result = NULL;
    await_up(0);
    await_up(1);
    pen_client *here = digits_client(pools[0].clients), *there = digits_client(pools[1].clients);
    submit(here, 0, id);
    cr_assert_eq(pen_client_cancel(there, id, (int64_t)support_slow(20000) * 1000, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_client_cancel(there, id, (int64_t)support_slow(20000) * 1000, &error), PEN_ERR_NOT_FOUND);
    pen_job_options_init(&job_options, sizeof job_options);
    job_options.detached = id;
    cr_assert_eq(pen_client_run(here, &job_options, &result, &error), PEN_ERR_CANCELLED, "%s", error.text);
    pen_client_free(here);
    pen_client_free(there);
}

/* A broker that ends tells Redis what it gives back and waits for an answer; the second signal waits for nothing. */
Test(streams, second_signal_ends_a_broker_at_once_whose_redis_answers_nothing)
{
    char id[PEN_JOB_ID_BYTES];
    await_up(0);
    pen_client *client = digits_client(pools[0].clients);
    submit(client, 0, id);
    process_signal(redis, SIGSTOP);
    process_signal(pools[0].broker, SIGTERM);
    cr_assert(process_wait_text(pools[0].broker, "evt=stopped", 20000), "%s", process_err(pools[0].broker));
    uint64_t start_us = support_now_us();
    process_signal(pools[0].broker, SIGTERM);
    cr_assert_eq(process_wait(pools[0].broker, 20000), 4, "%s", process_err(pools[0].broker));
    cr_expect_lt(support_now_us() - start_us, (uint64_t)support_slow(4000) * 1000);
    process_signal(redis, SIGCONT);
    pen_client_free(client);
}

/* Two detached jobs' values change places in Redis. */
static void swap(const char *field, char ids[2][PEN_JOB_ID_BYTES])
{
    static const char script[] =
        "local a, b = 'penstock:detached:job:' .. ARGV[1], 'penstock:detached:job:' .. ARGV[2] "
        "local x, y = redis.call('HGET', a, ARGV[3]), redis.call('HGET', b, ARGV[3]) "
        "if not (x and y) then return 'none' end "
        "redis.call('HSET', a, ARGV[3], y) redis.call('HSET', b, ARGV[3], x) return 'swapped'";
    char *text = redis_cli(port, (const char *const[]){"EVAL", script, "0", ids[0], ids[1], field, NULL});
    cr_assert(strstr(text, "swapped"), "%s", text);
    free(text);
}

static enum pen_status fetch_once(pen_client *client, const char *id, char text[PEN_ERROR_TEXT_BYTES])
{
    struct pen_job_options job_options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    pen_job_options_init(&job_options, sizeof job_options);
    job_options.detached = id;
    job_options.deadline_us = (uint64_t)support_slow(5000) * 1000u;
    enum pen_status status = pen_client_run(client, &job_options, &result, &error);
    snprintf(text, PEN_ERROR_TEXT_BYTES, "%s", error.text);
    pen_result_free(result);
    return status;
}

Test(streams, what_lies_under_another_jobs_id_is_not_believed)
{
    char ids[2][PEN_JOB_ID_BYTES], done[2][PEN_JOB_ID_BYTES], text[PEN_ERROR_TEXT_BYTES];
    await_up(0);
    pen_client *client = digits_client(pools[0].clients);
    for (size_t i = 0; i < 2; i++)
        submit(client, i, ids[i]);
    swap("request", ids);
    pool_add_worker(&pools[0], "xnnpack", NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        cr_expect_eq(fetch_once(client, ids[i], text), PEN_ERR_INTERNAL, "%s", text);
        cr_expect(strstr(text, "is another job"), "%s", text);
    }
    for (size_t i = 0; i < 2; i++) {
        submit(client, i, done[i]);
        fetch(client, done[i]);
    }
    swap("reply", done);
    for (size_t i = 0; i < 2; i++)
        cr_expect_eq(fetch_once(client, done[i], text), PEN_ERR_INTERNAL, "another job's answer: %s", text);
    pen_client_free(client);
}
