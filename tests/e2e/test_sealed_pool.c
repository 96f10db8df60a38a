/*
 * Sealed memory through the whole path, with real processes of one host: what comes back is what went in, little of it goes through sockets, caches and
 * identical jobs work, a killed worker costs nothing, and whoever cannot have it is served all the same.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <penstock/client.h>

#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

#define ROW   1024u
#define KIB   1024u
#define LARGE (2u * 1024u * KIB)

static char models[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;
static struct pen_error error;

static void begin_with(const char *const extra[])
{
    struct pen_client_options options;
    folder_new(models);
    onnx_identity_folder(models, "wide");
    pool_start(&pool, extra);
    pool_add_worker(&pool, "reference", models, (const char *const[]){"--slots", "2", NULL});
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.connect_timeout_us = support_slow(10000) * 1000;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_client_wait_ready(client, support_slow(10000) * 1000, &error), PEN_OK, "%s", error.text);
}

static void begin(void)
{
    begin_with((const char *const[]){"--log-level", "debug", NULL});
}

static void begin_off(void)
{
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", NULL});
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
}

static uint8_t *noise(size_t bytes, uint64_t seed)
{
    uint8_t *data = malloc(bytes);
    cr_assert_not_null(data);
    for (size_t i = 0; i < bytes; i += 8) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(data + i, &seed, 8);
    }
    return data;
}

static struct pen_job_options job_of(struct pen_tensor *tensor, const uint8_t *data, size_t bytes)
{
    struct pen_job_options options;
    *tensor = (struct pen_tensor){.name = "bytes", .dtype = PEN_DTYPE_U8, .rank = 2, .data = data, .bytes = bytes};
    tensor->dims[0] = (int64_t)(bytes / ROW);
    tensor->dims[1] = ROW;
    pen_job_options_init(&options, sizeof options);
    options.model = "wide";
    options.inputs = tensor;
    options.inputs_count = 1;
    options.deadline_us = (uint64_t)support_slow(60000) * 1000;
    return options;
}

static void expect_echo(pen_result *result, const uint8_t *data, size_t bytes)
{
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    const struct pen_tensor *copy = pen_result_find(result, "copy");
    cr_assert(copy && copy->bytes == bytes);
    cr_assert(memcmp(copy->data, data, bytes) == 0, "%zu bytes came back changed", bytes);
    pen_result_free(result);
}

/* Whether it was answered from the cache. */
static bool run_echo(size_t bytes, uint64_t seed, unsigned flags)
{
    struct pen_tensor tensor;
    uint8_t *data = noise(bytes, seed);
    struct pen_job_options options = job_of(&tensor, data, bytes);
    pen_result *result = NULL;
    options.flags = flags;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    bool cached = pen_result_info(result)->cached;
    expect_echo(result, data, bytes);
    free(data);
    return cached;
}

/* Bytes that went through the broker's sockets so far. */
static uint64_t bytes_moved(void)
{
    struct pen_stats *stats = NULL;
    cr_assert_eq(pen_client_stats(client, support_slow(10000) * 1000, &stats, &error), PEN_OK, "%s", error.text);
    uint64_t bytes = stats->bytes_in + stats->bytes_out;
    pen_client_stats_free(stats);
    return bytes;
}

/* The first jobs may come before the sockets are there. */
static void settle(void)
{
    for (uint64_t seed = 1000; seed < 1200; seed++) {
        uint64_t before = bytes_moved();
        run_echo(LARGE, seed, PEN_JOB_NO_CACHE);
        if (bytes_moved() - before < 64 * KIB)
            return;
    }
    cr_assert_fail("no job of 2 MiB travelled as sealed memory");
}

Test(sealed_pool, every_size_comes_back_and_only_small_ones_go_through_sockets, .init = begin, .fini = end)
{
    static const size_t sizes[] = {ROW, 128 * KIB, 128 * KIB + ROW, 512 * KIB, LARGE, LARGE + 3 * ROW, 9 * LARGE};
    settle();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before = bytes_moved();
        run_echo(sizes[i], i + 1, PEN_JOB_NO_CACHE);
        uint64_t moved = bytes_moved() - before;
        cr_expect(sizes[i] > 128 * KIB ? moved < 64 * KIB : moved >= 2 * sizes[i], "%zu bytes: %llu moved", sizes[i],
                  (unsigned long long)moved);
    }
}

Test(sealed_pool, the_setting_switches_it_off, .init = begin_off, .fini = end)
{
    uint64_t before = bytes_moved();
    for (uint64_t i = 0; i < 3; i++)
        run_echo(LARGE, i + 1, PEN_JOB_NO_CACHE);
    cr_expect_geq(bytes_moved() - before, UINT64_C(4) * 3 * LARGE, "in and out, twice");
    cr_expect_null(strstr(process_err(pool.broker), "evt=sealed_"));
}

Test(sealed_pool, equal_jobs_share_a_run_and_the_cache, .init = begin, .fini = end)
{
    settle();
    cr_expect_not(run_echo(LARGE, 7, 0));
    cr_expect(run_echo(LARGE, 7, 0), "the digest is that of the same bytes sent otherwise");
    cr_expect(run_echo(LARGE, 7, 0));
    cr_expect_not(run_echo(LARGE, 8, 0));
}

enum { MANY = 12 };

static void submit_many(uint8_t *data[MANY], pen_job *jobs[MANY])
{
    struct pen_tensor tensor;
    for (size_t i = 0; i < MANY; i++) {
        data[i] = noise(LARGE + i * ROW, 100 + i);
        struct pen_job_options options = job_of(&tensor, data[i], LARGE + i * ROW);
        options.flags = PEN_JOB_NO_CACHE;
        cr_assert_eq(pen_client_submit(client, &options, &jobs[i], &error), PEN_OK, "%s", error.text);
        memset((void *)(uintptr_t)tensor.data, 0, ROW); /* it was copied: the caller's bytes are the caller's again */
        free(data[i]);
        data[i] = noise(LARGE + i * ROW, 100 + i);
    }
}

static void expect_many(uint8_t *data[MANY], pen_job *jobs[MANY])
{
    for (size_t i = 0; i < MANY; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], support_slow(60000) * 1000, &result, &error), PEN_OK, "%s", error.text);
        expect_echo(result, data[i], LARGE + i * ROW);
        pen_job_free(jobs[i]);
        free(data[i]);
    }
}

Test(sealed_pool, many_at_once_all_come_back, .init = begin, .fini = end)
{
    uint8_t *data[MANY];
    pen_job *jobs[MANY];
    settle();
    submit_many(data, jobs);
    expect_many(data, jobs);
}

Test(sealed_pool, a_killed_worker_costs_no_job, .init = begin, .fini = end)
{
    uint8_t *data[MANY];
    pen_job *jobs[MANY];
    settle();
    process_signal(pool.workers[0], SIGSTOP);
    submit_many(data, jobs);
    support_sleep_ms(100);
    process_signal(pool.workers[0], SIGKILL);
    pool_add_worker(&pool, "reference", models, NULL);
    expect_many(data, jobs);
}

Test(sealed_pool, a_broker_that_is_killed_gets_all_again, .init = begin, .fini = end)
{
    uint8_t *data[MANY];
    pen_job *jobs[MANY];
    settle();
    process_signal(pool.workers[0], SIGSTOP);
    submit_many(data, jobs);
    process_signal(pool.broker, SIGKILL);
    process_signal(pool.workers[0], SIGCONT);
    pool_restart_broker(&pool, NULL);
    expect_many(data, jobs);
}

/* A client that may open few files has few blocks, and the rest goes as bytes. */
Test(sealed_pool, without_descriptors_jobs_go_as_bytes, .init = begin, .fini = end)
{
    uint8_t *data[MANY];
    pen_job *jobs[MANY];
    struct rlimit files = {.rlim_cur = 40, .rlim_max = 40};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    submit_many(data, jobs);
    expect_many(data, jobs);
}
