/*
 * Payloads above --bulk-from through the whole path: in chunks both ways, shared by the cache and by equal jobs, with keys, and beside small ones. The
 * model is an Identity whose first dimension is free: what comes back must be what went in.
 */
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
#define MIB   (1024u * 1024u)
#define LARGE (6 * MIB)

static char models[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;
static struct pen_error error;

static void begin_with(const char *const extra[])
{
    const char *const slots[] = {"--slots", "2", NULL};
    struct pen_client_options options;
    folder_new(models);
    onnx_identity_folder(models, "wide");
    pool_start(&pool, extra);
    pool_add_worker(&pool, "reference", models, slots);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.connect_timeout_us = support_slow(10000) * 1000;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
}

static void begin(void)
{
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", NULL});
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
}

/* `bytes` in whole rows, none like another job's of another seed. */
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

static void expect_echo(const pen_result *result, const uint8_t *data, size_t bytes)
{
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    const struct pen_tensor *copy = pen_result_find(result, "copy");
    cr_assert(copy && copy->bytes == bytes);
    cr_assert(memcmp(copy->data, data, bytes) == 0, "%zu bytes came back changed", bytes);
}

static bool echo_cached(size_t bytes, uint64_t seed, unsigned flags)
{
    struct pen_tensor tensor;
    uint8_t *data = noise(bytes, seed);
    struct pen_job_options options = job_of(&tensor, data, bytes);
    pen_result *result = NULL;
    options.flags = flags;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    expect_echo(result, data, bytes);
    bool cached = pen_result_info(result)->cached;
    pen_result_free(result);
    free(data);
    return cached;
}

static void run_echo(size_t bytes, uint64_t seed, unsigned flags, bool cached)
{
    cr_expect_eq(echo_cached(bytes, seed, flags), cached);
}

static size_t logged(const char *event)
{
    size_t count = 0;
    for (const char *at = process_err(pool.broker); (at = strstr(at, event)) != NULL; at += strlen(event))
        count++;
    return count;
}

Test(bulk, every_size_around_the_limits_comes_back_as_it_went, .init = begin, .fini = end)
{
    static const size_t sizes[] = {ROW,     MIB - ROW,         MIB,         MIB + ROW,      MIB + MIB / 4,
                                   2 * MIB, 2 * MIB + 3 * ROW, 5 * MIB / 2, LARGE + 5 * ROW};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run_echo(sizes[i], i + 1, PEN_JOB_NO_CACHE, false);
    /* Above 1 MiB: into the broker from client and worker, out to both. */
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    while (logged("evt=transfer_out ") < 2 * 6 && support_now_us() < until_us)
        support_sleep_ms(5); /* the last line is written when its last chunk has left */
    cr_expect_eq(logged("evt=transfer_in "), 2 * 6);
    cr_expect_eq(logged("evt=transfer_out "), 2 * 6);
}

static void begin_whole(void)
{
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", "--bulk-from", "0", NULL});
}

Test(bulk, a_broker_without_it_gets_and_gives_whole_frames, .init = begin_whole, .fini = end)
{
    run_echo(LARGE, 1, PEN_JOB_NO_CACHE, false);
    cr_expect_eq(logged("evt=transfer_"), 0);
}

static void begin_cached(void)
{
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", "--cache", "memory:64MiB", NULL});
}

Test(bulk, equal_large_jobs_share_one_run_and_then_the_cache, .init = begin_cached, .fini = end)
{
    struct pen_tensor tensor;
    uint8_t *data = noise(LARGE, 7);
    struct pen_job_options options = job_of(&tensor, data, LARGE);
    pen_job *jobs[3];
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pen_client_submit(client, &options, &jobs[i], &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < 3; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], (int64_t)options.deadline_us, &result, &error), PEN_OK, "%s", error.text);
        expect_echo(result, data, LARGE);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    free(data);
    cr_expect_eq(logged("evt=job_dispatched"), 1);
    run_echo(LARGE, 7, 0, true);
}

/* Bytes that the broker has received so far. */
static uint64_t bytes_in(void)
{
    struct pen_stats *stats = NULL;
    cr_assert_eq(pen_client_stats(client, support_slow(10000) * 1000, &stats, &error), PEN_OK, "%s", error.text);
    uint64_t bytes = stats->bytes_in;
    pen_client_stats_free(stats);
    return bytes;
}

#define MIDDLE (300 * 1024u) /* small enough to go whole, large enough for --digest-first */

Test(bulk, what_the_cache_has_is_answered_without_its_payload, .init = begin_cached, .fini = end)
{
    static const size_t sizes[] = {MIDDLE, LARGE};
    for (size_t i = 0; i < 2; i++) {
        run_echo(sizes[i], 30 + i, 0, false);
        uint64_t before = bytes_in();
        run_echo(sizes[i], 30 + i, 0, true);
        cr_expect_lt(bytes_in() - before, 64 * 1024, "%zu bytes: only the digest went", sizes[i]);
        run_echo(sizes[i], 30 + i, PEN_JOB_NO_CACHE, false);
    }
}

static size_t announced(unsigned jobs, uint64_t seed)
{
    size_t before = logged("evt=transfer_in ");
    for (unsigned i = 0; i < jobs; i++)
        run_echo(MIDDLE, seed + i, 0, false);
    return logged("evt=transfer_in ") - before;
}

/* Each digest in vain costs a round trip: a client whose jobs are never known stops, and takes it up again when one is. */
Test(bulk, digests_that_nobody_knows_are_soon_not_sent_ahead, .init = begin_cached, .fini = end)
{
    cr_expect_eq(announced(12, 1000), 4);
    cr_expect_eq(announced(50, 2000), 1, "now and then one is tried");
    for (unsigned i = 0; i < 32; i++) /* one of them is tried, and known */
        run_echo(MIDDLE, 1000, 0, true);
    cr_expect_eq(announced(12, 3000), 4, "as at first");
}

/* Redis answers later: the payload waits for it, but not longer than the cache's deadline. */
Test(bulk, redis_is_asked_by_the_digest_too, .fini = end)
{
    char url[64];
    int port = 0;
    struct process *redis = redis_start(&port, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0", port);
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", "--cache", url, "--cache-deadline",
                                     "1s", NULL});
    run_echo(MIDDLE, 40, 0, false);
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    for (char *keys = NULL; support_now_us() < until_us; support_sleep_ms(5)) { /* stored behind the reply */
        keys = redis_cli(port, (const char *const[]){"dbsize", NULL});
        bool there = atoi(keys) == 1;
        free(keys);
        if (there)
            break;
    }
    uint64_t before;
    int again = 5; /* a busy machine may keep Redis longer than the deadline */
    do
        before = bytes_in();
    while (!echo_cached(MIDDLE, 40, 0) && again-- > 0);
    cr_expect_lt(bytes_in() - before, 64 * 1024, "only the digest went");
    process_signal(redis, SIGSTOP);
    run_echo(MIDDLE, 41, 0, false);
    process_signal(redis, SIGCONT);
    process_free(redis);
}

static void begin_unasked(void)
{
    begin_with((const char *const[]){"--log-level", "debug", "--sealed-from", "0", "--cache", "memory:64MiB",
                                     "--digest-first", "0", NULL});
}

Test(bulk, without_digest_first_payloads_below_the_limit_go_whole, .init = begin_unasked, .fini = end)
{
    cr_expect_eq(announced(2, 1), 0);
    run_echo(MIDDLE, 1, 0, true);
}

Test(bulk, many_large_jobs_at_once_all_come_back, .init = begin, .fini = end)
{
    enum { COUNT = 24 };
    struct pen_tensor tensor;
    uint8_t *data[COUNT];
    pen_job *jobs[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        data[i] = noise(2 * MIB + i * ROW, 100 + i);
        struct pen_job_options options = job_of(&tensor, data[i], 2 * MIB + i * ROW);
        cr_assert_eq(pen_client_submit(client, &options, &jobs[i], &error), PEN_OK, "%s", error.text);
    }
    for (size_t i = 0; i < COUNT; i++) {
        pen_result *result = NULL;
        cr_assert_eq(pen_job_wait(jobs[i], support_slow(60000) * 1000, &result, &error), PEN_OK, "%s", error.text);
        expect_echo(result, data[i], 2 * MIB + i * ROW);
        pen_result_free(result);
        pen_job_free(jobs[i]);
        free(data[i]);
    }
}

Test(bulk, a_large_job_may_be_cancelled_and_the_next_one_runs, .init = begin, .fini = end)
{
    struct pen_tensor tensor;
    uint8_t *data = noise(16 * MIB, 9);
    struct pen_job_options options = job_of(&tensor, data, 16 * MIB);
    for (int i = 0; i < 8; i++) {
        pen_job *job = NULL;
        pen_result *result = NULL;
        cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
        for (int k = 0; k < i * 3; k++)
            pen_job_poll(job); /* moves the transfer a little, further each time */
        pen_job_cancel(job);
        cr_assert_eq(pen_job_wait(job, (int64_t)options.deadline_us, &result, &error), PEN_OK, "%s", error.text);
        enum pen_status status = pen_result_status(result);
        cr_expect(status == PEN_ERR_CANCELLED || status == PEN_OK, "%s", pen_result_error(result));
        pen_result_free(result);
        pen_job_free(job);
    }
    free(data);
    run_echo(LARGE, 10, PEN_JOB_NO_CACHE, false);
}

struct told {
    size_t count;
    size_t order[64];
};

static struct told told;

static void on_end(pen_job *job, pen_result *result, void *arg)
{
    (void)job;
    cr_expect_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    told.order[told.count++] = (size_t)(uintptr_t)arg;
    pen_result_free(result);
}

/* The small ones are answered long before the large one that was submitted first. */
Test(bulk, ordered_jobs_are_told_as_they_were_submitted, .init = begin, .fini = end)
{
    enum { SMALL = 20 };
    struct pen_tensor tensor;
    uint8_t *data = noise(16 * MIB, 11);
    for (size_t i = 0; i <= SMALL; i++) {
        struct pen_job_options options = job_of(&tensor, data, i == 0 ? 16 * MIB : ROW);
        options.flags = PEN_JOB_ORDERED | PEN_JOB_NO_CACHE;
        options.callback = on_end;
        options.callback_arg = (void *)(uintptr_t)i;
        cr_assert_eq(pen_client_submit(client, &options, NULL, &error), PEN_OK, "%s", error.text);
    }
    run_echo(ROW, 12, PEN_JOB_NO_CACHE, false); /* one without the flag waits for nobody */
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(60000) * 1000u;
    while (told.count <= SMALL && support_now_us() < until_us)
        pen_client_dispatch(client, 100000);
    cr_assert_eq(told.count, SMALL + 1u);
    for (size_t i = 0; i <= SMALL; i++)
        cr_expect_eq(told.order[i], i, "the end of job %zu was told as the %zuth", told.order[i], i);
    free(data);
}

Test(bulk, an_ordered_job_given_up_does_not_hold_the_others, .init = begin, .fini = end)
{
    struct pen_tensor tensor;
    uint8_t *data = noise(16 * MIB, 13);
    struct pen_job_options options = job_of(&tensor, data, 16 * MIB);
    pen_job *first = NULL, *second = NULL;
    pen_result *result = NULL;
    options.flags = PEN_JOB_ORDERED | PEN_JOB_NO_CACHE;
    cr_assert_eq(pen_client_submit(client, &options, &first, &error), PEN_OK, "%s", error.text);
    tensor.bytes = ROW;
    tensor.dims[0] = 1;
    cr_assert_eq(pen_client_submit(client, &options, &second, &error), PEN_OK, "%s", error.text);
    pen_job_free(first);
    cr_assert_eq(pen_job_wait(second, (int64_t)options.deadline_us, &result, &error), PEN_OK, "%s", error.text);
    expect_echo(result, data, ROW);
    pen_result_free(result);
    pen_job_free(second);
    free(data);
}
