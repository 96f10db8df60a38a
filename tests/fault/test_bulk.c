/* Large payloads on their way when somebody is lost: every job still gets its own bytes back, once, and nothing stays behind. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/client.h>

#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

#define ROW   1024u
#define BYTES (4u * 1024u * 1024u)
#define JOBS  16

static char models[FOLDER_PATH_BYTES];
static struct pool pools[2];
static pen_client *client;
static uint8_t *data[JOBS];
static pen_job *jobs[JOBS];
static struct pen_error error;

static void connect_to(const char *endpoint)
{
    struct pen_client_options options;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint;
    options.connect_timeout_us = support_slow(10000) * (int64_t)1000;
    options.unreachable_us = support_slow(30000) * (int64_t)1000;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
}

static void begin(void)
{
    folder_new(models);
    onnx_identity_folder(models, "wide");
    pool_start(&pools[0], NULL);
    pool_add_worker(&pools[0], "reference", models, NULL);
    pool_add_worker(&pools[0], "reference", models, NULL);
    connect_to(pools[0].clients);
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pools[0]);
    folder_free(models);
}

static void submit_all(void)
{
    for (size_t i = 0; i < JOBS; i++) {
        struct pen_tensor tensor = {.name = "bytes", .dtype = PEN_DTYPE_U8, .rank = 2, .bytes = BYTES};
        struct pen_job_options options;
        uint64_t state = i + 1;
        data[i] = malloc(BYTES);
        cr_assert_not_null(data[i]);
        for (size_t k = 0; k < BYTES; k += 8) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            memcpy(data[i] + k, &state, 8);
        }
        tensor.data = data[i];
        tensor.dims[0] = BYTES / ROW;
        tensor.dims[1] = ROW;
        pen_job_options_init(&options, sizeof options);
        options.model = "wide";
        options.inputs = &tensor;
        options.inputs_count = 1;
        options.flags = PEN_JOB_NO_CACHE;
        cr_assert_eq(pen_client_submit(client, &options, &jobs[i], &error), PEN_OK, "%s", error.text);
    }
}

static void settle_all(size_t from)
{
    for (size_t i = from; i < JOBS; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], support_slow(60000) * (int64_t)1000, &result, &error), PEN_OK, "job %zu: %s",
                     i, error.text);
        cr_assert_eq(pen_result_status(result), PEN_OK, "job %zu: %s", i, pen_result_error(result));
        const struct pen_tensor *copy = pen_result_find(result, "copy");
        cr_assert(copy && copy->bytes == BYTES && memcmp(copy->data, data[i], BYTES) == 0, "job %zu came back changed",
                  i);
        pen_result_free(result);
        pen_job_free(jobs[i]);
        free(data[i]);
    }
}

/* The first is answered, so the others are somewhere on their ways. */
static void settle_first(void)
{
    pen_result *result = NULL;
    cr_assert_eq(pen_job_wait(jobs[0], support_slow(60000) * (int64_t)1000, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    pen_result_free(result);
    pen_job_free(jobs[0]);
    free(data[0]);
}

Test(bulk_loss, a_worker_killed_with_payloads_half_sent, .init = begin, .fini = end)
{
    submit_all();
    settle_first();
    process_signal(pools[0].workers[0], SIGKILL);
    settle_all(1);
}

Test(bulk_loss, a_broker_killed_and_started_again, .init = begin, .fini = end)
{
    submit_all();
    settle_first();
    process_signal(pools[0].broker, SIGKILL);
    process_wait(pools[0].broker, 5000);
    pool_restart_broker(&pools[0], NULL);
    settle_all(1);
}

static uint64_t waiting(void)
{
    struct pen_stats *stats;
    cr_assert_eq(pen_client_stats(client, support_slow(5000) * (int64_t)1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t jobs_waiting = stats->queued + stats->running + (stats->clients > 1);
    pen_client_stats_free(stats);
    return jobs_waiting;
}

Test(bulk_loss, a_killed_client_leaves_nothing, .init = begin, .fini = end)
{
    char file[FOLDER_PATH_BYTES + 32], input[FOLDER_PATH_BYTES + 64];
    static const char npy[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (4096, 1024), }";
    uint8_t *bytes = malloc(128 + BYTES);
    cr_assert_not_null(bytes);
    memset(bytes, ' ', 128);
    memcpy(bytes, npy, sizeof npy - 1);
    bytes[127] = '\n';
    memset(bytes + 128, 7, BYTES);
    snprintf(file, sizeof file, "%s/large.npy", models);
    file_write(file, bytes, 128 + BYTES);
    free(bytes);
    snprintf(input, sizeof input, "bytes=%s", file);
    struct process *load = process_start((const char *const[]){"penstock", "load", "--broker", pools[0].clients,
                                                               "--model", "wide", "--input", input, "--no-cache",
                                                               "--concurrency", "8", "--duration", "60s", NULL},
                                         NULL);
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(30000) * 1000u;
    while (waiting() < 2 && support_now_us() < until_us)
        support_sleep_ms(5);
    cr_assert(process_alive(load), "%s", process_err(load));
    process_signal(load, SIGKILL);
    until_us = support_now_us() + (uint64_t)support_slow(30000) * 1000u;
    while (waiting() != 0 && support_now_us() < until_us)
        support_sleep_ms(20);
    cr_expect_eq(waiting(), 0u);
    process_free(load);
    submit_all();
    settle_all(0);
}

static void begin_two(void)
{
    char both[2 * POOL_ENDPOINT_BYTES + 2], list[2 * POOL_ENDPOINT_BYTES + 2];
    folder_new(models);
    onnx_identity_folder(models, "wide");
    for (int i = 0; i < 2; i++)
        pool_start(&pools[i], NULL);
    snprintf(both, sizeof both, "%s,%s", pools[0].workers_endpoint, pools[1].workers_endpoint);
    snprintf(list, sizeof list, "%s,%s", pools[0].clients, pools[1].clients);
    const char *const extra[] = {"--broker", both, NULL};
    pool_add_worker(&pools[0], "reference", models, extra);
    connect_to(list);
}

static void end_two(void)
{
    pen_client_free(client);
    for (int i = 0; i < 2; i++)
        pool_stop(&pools[i]);
    folder_free(models);
}

Test(bulk_loss, another_broker_gets_what_the_killed_one_had_in_part, .init = begin_two, .fini = end_two)
{
    for (int i = 0; i < 2; i++) {
        submit_all();
        settle_first();
        if (i == 0) { /* one of them is the client's: its jobs come back either way */
            process_signal(pools[0].broker, SIGKILL);
            process_wait(pools[0].broker, 5000);
        }
        settle_all(1);
    }
}
