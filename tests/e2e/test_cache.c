/* The result cache through the whole path: in memory, in Redis, and with a Redis that misbehaves. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "pool.h"

struct fixture {
    struct pool pool;
    struct digits digits;
    pen_client *client;
};

static void setup(struct fixture *f, const char *const broker_extra[])
{
    digits_load(&f->digits);
    pool_start(&f->pool, broker_extra);
    pool_add_worker(&f->pool, "xnnpack", NULL, NULL);
    f->client = digits_client(f->pool.clients);
}

static void teardown(struct fixture *f)
{
    pen_client_free(f->client);
    pool_stop(&f->pool);
    digits_free(&f->digits);
}

static bool run(struct fixture *f, size_t index, unsigned flags)
{
    pen_result *result = digits_run(f->client, &f->digits, index, flags);
    bool cached = pen_result_info(result)->cached;
    digits_class(result); /* a cached answer is as whole as a fresh one */
    pen_result_free(result);
    return cached;
}

/* Storing comes after the reply, and Redis is asynchronous: the second answer may need a moment. */
static bool becomes_cached(struct fixture *f, size_t index, int timeout_ms)
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000u;
    while (!run(f, index, 0)) {
        if (support_now_us() > until) {
            return false;
        }
        support_sleep_ms(5);
    }
    return true;
}

Test(cache, second_answer_comes_from_memory_and_equals_the_first)
{
    struct fixture f;
    setup(&f, NULL);
    for (size_t i = 0; i < 20; i++) {
        float first[DIGITS_CLASSES], second[DIGITS_CLASSES];
        pen_result *result = digits_run(f.client, &f.digits, i, 0);
        cr_assert_not(pen_result_info(result)->cached);
        digits_probabilities(result, first);
        pen_result_free(result);
        cr_assert(becomes_cached(&f, i, 20000));
        result = digits_run(f.client, &f.digits, i, 0);
        cr_assert(pen_result_info(result)->cached);
        cr_assert_str_eq(pen_result_info(result)->backend, "xnnpack");
        digits_probabilities(result, second);
        cr_assert_arr_eq(first, second, sizeof first);
        pen_result_free(result);
    }
    teardown(&f);
}

Test(cache, job_that_opts_out_is_computed_and_not_stored)
{
    struct fixture f;
    setup(&f, NULL);
    cr_assert_not(run(&f, 0, PEN_JOB_NO_CACHE));
    cr_assert_not(run(&f, 0, PEN_JOB_NO_CACHE));
    support_sleep_ms(50);
    cr_assert_not(run(&f, 0, 0), "the opted-out answer was stored");
    teardown(&f);
}

Test(cache, none_means_none)
{
    struct fixture f;
    setup(&f, (const char *const[]){"--cache", "none", NULL});
    for (int i = 0; i < 5; i++) {
        cr_assert_not(run(&f, 0, 0));
        support_sleep_ms(5);
    }
    teardown(&f);
}

Test(cache, answer_of_one_backend_does_not_serve_a_job_that_names_another)
{
    struct fixture f;
    setup(&f, NULL);
    pool_add_worker(&f.pool, "reference", NULL, NULL);
    struct pen_tensor tensor = digits_tensor(&f.digits, 0);
    const char *backends[] = {"xnnpack", "reference"};
    for (int round = 0; round < 3; round++) {
        for (int b = 0; b < 2; b++) {
            struct pen_job_options options;
            struct pen_error error = {0};
            pen_result *result;
            digits_job(&tensor, &options);
            options.backend = backends[b];
            cr_assert_eq(pen_client_run(f.client, &options, &result, &error), PEN_OK, "%s", error.text);
            cr_assert_str_eq(pen_result_info(result)->backend, backends[b]);
            pen_result_free(result);
            support_sleep_ms(5);
        }
    }
    teardown(&f);
}

static void redis_url(int port, char url[64])
{
    snprintf(url, 64, "redis://127.0.0.1:%d/0", port);
}

Test(redis_cache, outlives_the_broker)
{
    int port = 0;
    char url[64];
    struct process *redis = redis_start(&port, NULL);
    redis_url(port, url);
    struct fixture f;
    setup(&f, (const char *const[]){"--cache", url, NULL});
    cr_assert(becomes_cached(&f, 3, 20000));
    teardown(&f);

    char *keys = redis_cli(port, (const char *const[]){"keys", "penstock:*", NULL}), *rest = keys, *key;
    size_t count = 0;
    while ((key = strsep(&rest, "\n")) != NULL) { /* nothing of ours stays for ever */
        if (!*key)
            continue;
        char *ttl = redis_cli(port, (const char *const[]){"ttl", key, NULL});
        cr_assert_gt(atoi(ttl), 0, "entry %s has no expiry: %s", key, ttl);
        free(ttl);
        count += strncmp(key, "penstock:1:", 11) == 0;
    }
    cr_assert_geq(count, 1, "Redis holds no result");
    free(keys);

    setup(&f, (const char *const[]){"--cache", url, NULL});
    cr_assert(becomes_cached(&f, 3, 20000));
    teardown(&f);
    process_free(redis);
}

Test(redis_cache, down_at_start_stops_no_job)
{
    char url[64];
    struct fixture f;
    redis_url(port_free(), url);
    setup(&f, (const char *const[]){"--cache", url, NULL});
    for (size_t i = 0; i < 50; i++) {
        cr_assert_not(run(&f, i % 5, 0));
    }
    teardown(&f);
}

Test(redis_cache, comes_back_into_use_when_redis_comes_up)
{
    int port = port_free();
    char url[64];
    struct fixture f;
    redis_url(port, url);
    setup(&f, (const char *const[]){"--cache", url, NULL});
    cr_assert_not(run(&f, 0, 0));
    struct process *redis = redis_start(&port, NULL);
    cr_assert(becomes_cached(&f, 0, 20000));
    teardown(&f);
    process_free(redis);
}

Test(redis_cache, dying_later_stops_no_job)
{
    int port = 0;
    char url[64];
    struct process *redis = redis_start(&port, NULL);
    redis_url(port, url);
    struct fixture f;
    setup(&f, (const char *const[]){"--cache", url, NULL});
    cr_assert(becomes_cached(&f, 0, 20000));
    process_signal(redis, SIGKILL);
    process_wait(redis, 1000);
    for (size_t i = 0; i < 50; i++) {
        run(&f, i % 5, 0);
    }
    teardown(&f);
    process_free(redis);
}

/* The slowest of `jobs` jobs in microseconds. */
static uint64_t slowest_us(struct fixture *f, size_t jobs)
{
    uint64_t worst = 0;
    for (size_t i = 0; i < jobs; i++) {
        pen_result *result = digits_run(f->client, &f->digits, i % f->digits.count, 0);
        uint64_t us = pen_result_info(result)->round_trip_us;
        worst = us > worst ? us : worst;
        pen_result_free(result);
    }
    return worst;
}

Test(redis_cache, hanging_stalls_no_job)
{
    int port = 0;
    char url[64];
    struct process *redis = redis_start(&port, NULL);
    redis_url(port, url);
    struct fixture f;
    setup(&f, (const char *const[]){"--cache", url, NULL});
    cr_assert(becomes_cached(&f, 0, 20000));
    process_signal(redis, SIGSTOP); /* accepts connections, answers nothing */
    uint64_t worst = slowest_us(&f, 100);
    /* Its deadline is 5 ms; what a busy machine adds is not the broker's, and a stall would last until Redis goes on. */
    cr_assert_leq(worst, (uint64_t)support_slow(15000) * 1000u, "a job waited %lu us for a hung Redis",
                  (unsigned long)worst);
    process_signal(redis, SIGCONT);
    cr_assert(becomes_cached(&f, 0, 20000), "the cache was not used again");
    teardown(&f);
    process_free(redis);
}

Test(redis_cache, full_or_evicting_stops_no_job)
{
    const char *policies[] = {"noeviction", "allkeys-lru"};
    for (size_t p = 0; p < 2; p++) {
        int port = 0;
        char url[64];
        struct process *redis =
            redis_start(&port, (const char *const[]){"--maxmemory", "1100kb", "--maxmemory-policy", policies[p], NULL});
        redis_url(port, url);
        struct fixture f;
        setup(&f, (const char *const[]){"--cache", url, NULL});
        slowest_us(&f, f.digits.count);
        slowest_us(&f, f.digits.count);
        teardown(&f);
        process_free(redis);
    }
}
