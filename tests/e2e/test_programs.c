/* Programs that cannot start or must not go on: one clear sentence, a non-zero exit, nothing left behind. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

/* The program ends by itself with a non-zero status and says every word, on stderr. */
static void expect_end(struct process *process, const char *const words[])
{
    int status = process_wait(process, 30000);
    const char *log = process_err(process);
    cr_assert(status > 0 && status < 128, "ended with %d (-1: still runs); its log:\n%s", status, log);
    for (size_t i = 0; words[i]; i++) {
        cr_assert_not_null(strstr(log, words[i]), "the log does not say '%s':\n%s", words[i], log);
    }
    process_free(process);
}

Test(programs, second_broker_on_a_port_says_so)
{
    struct pool pool;
    pool_start(&pool, NULL);
    struct process *second = process_start((const char *const[]){"penstock-broker", "--listen-clients", pool.clients,
                                                                 "--listen-workers", "tcp://127.0.0.1:*", NULL},
                                           NULL);
    expect_end(second, (const char *const[]){strrchr(pool.clients, ':') + 1, "taken", NULL});
    pool_stop(&pool);
}

Test(programs, unknown_option_is_named_with_the_nearest)
{
    struct process *broker =
        process_start((const char *const[]){"penstock-broker", "--listen-client", "tcp://127.0.0.1:*", NULL}, NULL);
    expect_end(broker, (const char *const[]){"--listen-client", "--listen-clients", NULL});
}

Test(programs, malformed_cache_is_named)
{
    struct process *broker =
        process_start((const char *const[]){"penstock-broker", "--listen-clients", "tcp://127.0.0.1:*",
                                            "--listen-workers", "tcp://127.0.0.1:*", "--cache", "disk:/tmp", NULL},
                      NULL);
    expect_end(broker, (const char *const[]){"disk:/tmp", "redis://", NULL});
}

Test(programs, unknown_backend_is_named_with_those_there_are)
{
    struct pool pool;
    pool_start(&pool, NULL);
    struct process *worker = pool_start_worker(&pool, "cuda", NULL, NULL);
    expect_end(worker, (const char *const[]){"cuda", "xnnpack", "reference", NULL});
    pool.workers_count = 0;
    pool_stop(&pool);
}

Test(programs, backend_this_host_lacks_is_named)
{
    struct pool pool;
    pool_start(&pool, NULL);
    struct process *worker = pool_start_worker(&pool, "vulkan", NULL, NULL);
    expect_end(worker, (const char *const[]){"vulkan", NULL});
    pool.workers_count = 0;
    pool_stop(&pool);
}

Test(programs, models_folder_that_is_absent_is_named)
{
    struct pool pool;
    pool_start(&pool, NULL);
    struct process *worker = pool_start_worker(&pool, "xnnpack", "/nowhere/models", NULL);
    expect_end(worker, (const char *const[]){"/nowhere/models", NULL});
    pool.workers_count = 0;
    pool_stop(&pool);
}

Test(programs, command_without_a_broker_ends_soon_and_says_where_it_looked)
{
    char endpoint[64], *err;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port_free());
    uint64_t begin = support_now_us();
    int status =
        process_run((const char *const[]){"penstock", "models", "--broker", endpoint, NULL}, 20000, NULL, &err);
    cr_assert(status > 0 && status < 128);
    cr_assert_not_null(strstr(err, endpoint), "%s", err);
    cr_assert_lt(support_now_us() - begin, (uint64_t)support_slow(15000) * 1000u);
    free(err);
}

Test(programs, text_that_is_no_job_id_is_wrong_usage_before_any_broker_is_asked)
{
    char *out, *err;
    cr_assert_eq(process_run((const char *const[]){"penstock", "fetch", "zzz", "--json", NULL}, 20000, &out, &err), 2);
    cr_assert(strstr(err, "\"zzz\" is no job id") && strstr(out, "{\"error\":{\"code\":\"INVALID\""), "%s%s", out, err);
    free(out);
    free(err);
}

/* libzmq ends a program whose descriptors it cannot have. */
Test(programs, worker_with_too_few_descriptors_says_so)
{
    for (int limit = 10; limit < 20; limit += 5) {
        char script[512];
        snprintf(script, sizeof script,
                 "ulimit -n %d; exec %s/penstock-worker --backend reference --models %s --broker tcp://127.0.0.1:9",
                 limit, PENSTOCK_BIN, POOL_DIGITS_MODELS);
        struct process *worker = process_start_path((const char *const[]){"sh", "-c", script, NULL}, NULL);
        cr_assert_eq(process_wait(worker, 10000), 1, "%d: %s", limit, process_err(worker));
        cr_assert_not_null(strstr(process_err(worker), "error="), "%s", process_err(worker));
        process_free(worker);
    }
}

Test(programs, all_print_help_and_version)
{
    const char *programs[] = {"penstock-broker", "penstock-worker", "penstock", "penstock-engine"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *out;
        cr_assert_eq(process_run((const char *const[]){programs[i], "--help", NULL}, 30000, &out, NULL), 0, "%s --help",
                     programs[i]);
        cr_assert_not_null(strstr(out, programs[i]));
        free(out);
        cr_assert_eq(process_run((const char *const[]){programs[i], "--version", NULL}, 30000, &out, NULL), 0,
                     "%s --version", programs[i]);
        cr_assert_not_null(strstr(out, "0.1.0"), "%s --version says %s", programs[i], out);
        free(out);
    }
}

/* Ctrl-C, SIGTERM and a terminal that is closed end idle programs with 0, at once. */
Test(programs, idle_broker_and_worker_end_cleanly_on_each_signal)
{
    const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct pool pool;
        pool_start(&pool, NULL);
        pool_add_worker(&pool, "xnnpack", NULL, NULL);
        process_signal(pool.workers[0], signals[i]);
        cr_assert_eq(process_wait(pool.workers[0], 20000), 0, "worker, signal %d: %s", signals[i],
                     process_err(pool.workers[0]));
        process_signal(pool.broker, signals[i]);
        cr_assert_eq(process_wait(pool.broker, 20000), 0, "broker, signal %d: %s", signals[i],
                     process_err(pool.broker));
        pool_stop(&pool);
    }
}

/* A worker may be there first: it waits for the broker. */
Test(programs, worker_started_before_the_broker_serves_once_it_is_there)
{
    struct pool pool = {0};
    struct digits digits;
    digits_load(&digits);
    snprintf(pool.clients, sizeof pool.clients, "tcp://127.0.0.1:%d", port_free());
    snprintf(pool.workers_endpoint, sizeof pool.workers_endpoint, "tcp://127.0.0.1:%d", port_free());
    pool_start_worker(&pool, "xnnpack", NULL, NULL);
    support_sleep_ms(300);
    pool_restart_broker(&pool, NULL);
    cr_assert(process_wait_text(pool.workers[0], "evt=welcome", 30000), "%s", process_err(pool.workers[0]));
    pen_client *client = digits_client(pool.clients);
    pen_result_free(digits_run(client, &digits, 0, 0));
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}
