/*
 * Two brokers that know each other: a client that comes to a busy one is sent to the other, and comes back when that one dies; a broker that drains gives its
 * waiting jobs and their clients away, and each job ends once. Workers have no engine (bench_echo_worker).
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "penstock/admin.h"
#include "penstock/client.h"
#include "pool.h"

#define SECOND  INT64_C(1000000)
#define WAIT_MS 30000
#define CROWD   3
#define JOBS    200

static struct pool pools[2];
static struct process *echoes[2];
static pen_client *crowd[CROWD];

/* service_us: what its worker takes for a job; 0 = nothing. */
static void start(int i, const char *service_us, const char *const more[])
{
    struct pool *pool = &pools[i];
    const char *extra[24] = {"--neighbours", pools[1 - i].clients, "--cache", "none",        "--http",
                             "none",         "--drain-timeout",    "60s",     "--log-level", "debug"};
    size_t count = 10;
    for (size_t k = 0; more && more[k]; k++)
        extra[count++] = more[k];
    pool_restart_broker(pool, extra);
    echoes[i] = process_start_path(
        (const char *const[]){BENCH_ECHO_WORKER, "broker", pool->workers_endpoint, "0", service_us, NULL}, NULL);
    cr_assert(process_wait_text(pool->broker, "evt=worker_ready", WAIT_MS), "%s", process_err(pool->broker));
}

static void begin(void)
{
    for (int i = 0; i < 2; i++) {
        snprintf(pools[i].clients, sizeof pools[i].clients, "tcp://127.0.0.1:%d", port_free());
        snprintf(pools[i].workers_endpoint, sizeof pools[i].workers_endpoint, "tcp://127.0.0.1:%d", port_free());
    }
}

static void end(void)
{
    for (int i = 0; i < CROWD; i++)
        pen_client_free(crowd[i]);
    for (int i = 0; i < 2; i++) {
        pool_stop(&pools[i]);
        process_free(echoes[i]);
    }
}

TestSuite(neighbours, .init = begin, .fini = end, .timeout = 120);

static void know_each_other(void)
{
    for (int i = 0; i < 2; i++)
        cr_assert(process_wait_text(pools[i].broker, "evt=neighbour ", WAIT_MS), "%s", process_err(pools[i].broker));
}

static pen_client *connect_to(const char *endpoint, bool stays)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint;
    options.connect_timeout_us = 20 * SECOND;
    options.unreachable_us = 60 * SECOND;
    options.stays = stays;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
    return client;
}

static uint64_t redirects(pen_client *client)
{
    struct pen_client_counters counters;
    pen_client_counters(client, &counters, sizeof counters);
    return counters.redirects;
}

static pen_job *submit_to(pen_client *client, const char *model, const struct pen_tensor *in)
{
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_job *job = NULL;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = in;
    options.flags = PEN_JOB_NO_CACHE;
    options.inputs_count = 1;
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

static pen_job *submit(pen_client *client, const uint8_t *byte)
{
    struct pen_tensor in = {
        .name = "bytes", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {1, 1}, .data = byte, .bytes = 1};
    return submit_to(client, "null", &in);
}

/* Jobs leave the client's thread one after the other, and a question comes behind them: its answer says that the broker has read them all. Who drains sooner
   refuses the rest as new. */
static void wait_admitted(pen_client *client)
{
    struct pen_error error = {.status = PEN_OK};
    struct pen_model_list *list = NULL;
    cr_assert_eq(pen_client_models(client, 20 * SECOND, &list, &error), PEN_OK, "%s", error.text);
    pen_client_models_free(list);
}

/* It ends well, with the answer that is its own. */
static void expect_answer(pen_job *job, uint8_t byte)
{
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    cr_assert_eq(pen_job_wait(job, 60 * SECOND, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    cr_expect_eq(*(const uint8_t *)pen_result_output(result, 0)->data, byte);
    pen_result_free(result);
    pen_job_free(job);
}

Test(neighbours, a_client_that_comes_to_a_busy_broker_is_sent_to_the_other_and_comes_back_when_that_dies)
{
    static const uint8_t byte = 7;
    start(1, "0", NULL);
    start(0, "0", (const char *const[]){"--busy-clients", "3", NULL});
    know_each_other();
    for (int i = 0; i < CROWD; i++)
        crowd[i] = connect_to(pools[0].clients, true);
    pen_client *client = connect_to(pools[0].clients, false);
    cr_expect_eq(redirects(client), 1);
    expect_answer(submit(client, &byte), byte);
    cr_expect_not_null(strstr(process_err(pools[1].broker), "evt=client_hello"), "it is there");
    for (int i = 0; i < CROWD; i++)
        cr_expect_eq(redirects(crowd[i]), 0, "who wants to stay stays");

    process_signal(pools[1].broker, SIGKILL);
    process_wait(pools[1].broker, WAIT_MS);
    expect_answer(submit(client, &byte), byte);
    pen_client_free(client);
}

Test(neighbours, a_broker_that_drains_gives_its_waiting_jobs_and_their_client_to_the_other)
{
    static uint8_t bytes[JOBS];
    pen_job *jobs[JOBS];
    struct pen_client_counters counters;
    start(0, "100000", NULL); /* all of them would take 20 s here */
    start(1, "0", NULL);
    know_each_other();
    pen_client *client = connect_to(pools[0].clients, false);
    for (int i = 0; i < JOBS; i++) {
        bytes[i] = (uint8_t)i;
        jobs[i] = submit(client, &bytes[i]);
    }
    wait_admitted(client);
    process_signal(pools[0].broker, SIGTERM);
    cr_expect_eq(process_wait(pools[0].broker, 15000), 0, "its jobs are elsewhere: %s", process_err(pools[0].broker));
    for (int i = 0; i < JOBS; i++)
        expect_answer(jobs[i], (uint8_t)i);
    pen_client_counters(client, &counters, sizeof counters);
    cr_expect_eq(counters.jobs_ended, JOBS);
    cr_expect_eq(counters.redirects, 1);
    cr_expect_not_null(strstr(process_err(pools[0].broker), "evt=job_handed"));
    cr_expect_null(strstr(process_err(pools[1].broker), "evt=handover_refused"));
    pen_client_free(client);
}

/* ---- with keys ---- */

#define KEY_TEXT 65

static char folder[FOLDER_PATH_BYTES], broker_key[KEY_TEXT];

static const char *file_of(const char *name)
{
    static char paths[4][FOLDER_PATH_BYTES + 16];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Makes FOLDER/NAME; its line goes to the list of keys. */
static void keygen(FILE *list, const char *name, const char *roles)
{
    char *out = NULL, *err = NULL;
    const char *const argv[] = {"penstock", "keygen", file_of(name), "--name", name, "--roles", roles, NULL};
    cr_assert_eq(process_run(argv, WAIT_MS, &out, &err), 0, "%s", err);
    fputs(out, list);
    if (strcmp(name, "broker") == 0)
        memcpy(broker_key, out, KEY_TEXT - 1);
    free(out);
    free(err);
}

/* roles: of the brokers' own key. */
static void start_with_keys(const char *roles)
{
    folder_new(folder);
    FILE *list = fopen(file_of("keys"), "w");
    cr_assert_not_null(list);
    keygen(list, "broker", roles);
    keygen(list, "worker", "worker");
    keygen(list, "alice", "submit");
    fclose(list);
    for (int i = 0; i < 2; i++) {
        pool_restart_broker(&pools[i],
                            (const char *const[]){"--neighbours", pools[1 - i].clients, "--key", file_of("broker"),
                                                  "--keys", file_of("keys"), "--http", "none", "--cache", "none",
                                                  "--liveness", "20s", "--log-level", "debug", NULL});
    }
}

static pen_client *alice_connects(void)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client *client = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pools[0].clients;
    options.key_file = file_of("alice");
    options.broker_key = broker_key;
    options.connect_timeout_us = 20 * SECOND;
    options.unreachable_us = 60 * SECOND;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
    return client;
}

/* The first broker's worker stands still, so its jobs wait. */
Test(neighbours, a_hand_over_between_brokers_with_keys_keeps_whose_jobs_they_are)
{
    static const uint8_t image[64];
    const struct pen_tensor in = {
        .name = "image", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {1, 8, 8, 1}, .data = image, .bytes = 64};
    pen_job *jobs[JOBS];
    start_with_keys("admin");
    for (int i = 0; i < 2; i++)
        pool_add_worker(&pools[i], "xnnpack", NULL,
                        (const char *const[]){"--key", file_of("worker"), "--broker-key", broker_key, NULL});
    know_each_other();
    pen_client *client = alice_connects();
    process_signal(pools[0].workers[0], SIGSTOP);
    for (int i = 0; i < JOBS; i++)
        jobs[i] = submit_to(client, "digits", &in);
    wait_admitted(client);
    process_signal(pools[0].broker, SIGTERM);
    for (int i = 0; i < JOBS; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], 60 * SECOND, &result, NULL), PEN_OK);
        cr_expect_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    cr_expect_eq(process_wait(pools[0].broker, 15000), 0, "%s", process_err(pools[0].broker));
    cr_expect_not_null(strstr(process_err(pools[0].broker), "evt=job_handed"));
    cr_expect_null(strstr(process_err(pools[1].broker), "evt=handover_refused"));
    process_signal(pools[0].workers[0], SIGKILL);
    pen_client_free(client);
    folder_free(folder);
}

Test(neighbours, a_broker_whose_key_lacks_the_role_is_no_neighbour)
{
    start_with_keys("observe");
    cr_expect(process_wait_text(pools[0].broker, "evt=neighbour_denied", WAIT_MS), "%s", process_err(pools[0].broker));
    cr_expect_null(strstr(process_err(pools[0].broker), "evt=neighbour "));
    folder_free(folder);
}
