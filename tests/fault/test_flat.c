/*
 * Memory and descriptors do not grow: over jobs, over cycles of loading and unloading a model, over connections of clients and workers that are cut and
 * come back. PENSTOCK_FLAT=full runs 10^6 jobs, 10^3 cycles and 10^4 connections of each; without it a hundredth to a fiftieth.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digits.h"
#include "folder.h"
#include "pool.h"
#include "torture_relay.h"

#define WINDOW 64
#define MIB    ((uint64_t)1 << 20)

struct size {
    uint64_t bytes;
    unsigned files;
};

static struct pool pool;
static struct digits digits;
static pen_client *client;

static void begin(void)
{
    digits_load(&digits);
    /* A worker whose connection was cut is asked for a new hello at its next heartbeat: soon. The ring of explanations is soon full. */
    pool_start(&pool, (const char *const[]){"--http", "none", "--explain-jobs", "64", "--heartbeat", "20ms",
                                            "--liveness", "10s", NULL});
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(flat, .init = begin, .fini = end, .timeout = 3600);

static size_t rounds(size_t full, size_t share)
{
    const char *asked = getenv("PENSTOCK_FLAT");
    return asked && strcmp(asked, "full") == 0 ? full : full / share;
}

static struct size size_of(pid_t pid)
{
    char path[64];
    struct size size = {.files = 0};
    unsigned long long resident = 0;
    struct stat link;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    cr_assert(file && fscanf(file, "%*u %llu", &resident) == 1);
    fclose(file);
    size.bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        size.files += lstat(path, &link) == 0;
    }
    return size;
}

static void check(const char *what, struct size before, struct size after, uint64_t slack)
{
    printf("%s: %.1f -> %.1f MiB, %u -> %u descriptors\n", what, (double)before.bytes / (double)MIB,
           (double)after.bytes / (double)MIB, before.files, after.files);
    cr_expect_leq(after.bytes, before.bytes + slack, "%s grew from %" PRIu64 " to %" PRIu64 " bytes", what,
                  before.bytes, after.bytes);
    cr_expect_leq(after.files, before.files + 2, "%s: %u descriptors, %u before", what, after.files, before.files);
}

/* ---- jobs ---- */

static void jobs_run(size_t count)
{
    pen_job *jobs[WINDOW] = {NULL};
    for (size_t i = 0; i < count + WINDOW; i++) {
        pen_job **job = &jobs[i % WINDOW];
        pen_result *result = NULL;
        struct pen_error error = {.status = PEN_OK};
        if (*job) {
            cr_assert_eq(pen_job_wait(*job, -1, &result, NULL), PEN_OK);
            cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
            pen_result_free(result);
            pen_job_free(*job);
            *job = NULL;
        }
        if (i < count) {
            struct pen_tensor tensor = digits_tensor(&digits, i % digits.count);
            struct pen_job_options options;
            digits_job(&tensor, &options);
            options.flags = PEN_JOB_NO_CACHE;
            cr_assert_eq(pen_client_submit(client, &options, job, &error), PEN_OK, "%s", error.text);
        }
    }
}

Test(flat, jobs_leave_nothing_behind)
{
    size_t count = rounds(1000000, 50);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
    jobs_run(10000);
    pid_t pids[] = {process_pid(pool.broker), process_pid(pool.workers[0]), getpid()};
    struct size before[3];
    for (size_t i = 0; i < 3; i++)
        before[i] = size_of(pids[i]);
    jobs_run(count);
    printf("after %zu jobs\n", count);
    check("broker", before[0], size_of(pids[0]), 4 * MIB);
    check("worker", before[1], size_of(pids[1]), 4 * MIB);
    check("client", before[2], size_of(pids[2]), 4 * MIB);
}

/* ---- models ---- */

static void cycles_run(size_t count)
{
    struct pen_error error = {.status = PEN_OK};
    int64_t patience = (int64_t)support_slow(30000) * 1000;
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(pen_client_model_load(client, "second", patience, NULL, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_client_model_unload(client, "second", patience, NULL, &error), PEN_OK, "%s", error.text);
    }
}

Test(flat, loading_and_unloading_leaves_nothing_behind)
{
    char models[FOLDER_PATH_BYTES];
    size_t count = rounds(1000, 20);
    folder_new(models);
    char *config = file_read(POOL_DIGITS_MODELS "/digits/config.json", &(size_t){0});
    model_folder_make(models, "digits", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    model_folder_make(models, "second", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    free(config);
    client = digits_client(pool.clients);
    cycles_run(20);
    struct size broker = size_of(process_pid(pool.broker)), worker = size_of(process_pid(pool.workers[0]));
    cycles_run(count);
    printf("after %zu cycles\n", count);
    check("broker", broker, size_of(process_pid(pool.broker)), 4 * MIB);
    check("worker", worker, size_of(process_pid(pool.workers[0])), 4 * MIB);
    folder_free(models);
}

/* ---- connections ---- */

/* New clients, one after the other, each with a job. */
static void clients_run(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pen_client *one = digits_client(pool.clients);
        pen_result_free(digits_run(one, &digits, i % digits.count, 0));
        pen_client_free(one);
    }
}

Test(flat, clients_that_come_and_go_leave_nothing_behind)
{
    size_t count = rounds(10000, 50);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
    clients_run(300);
    struct size broker = size_of(process_pid(pool.broker)), own = size_of(getpid());
    clients_run(count);
    printf("after %zu clients\n", count);
    check("broker", broker, size_of(process_pid(pool.broker)), 4 * MIB);
    check("client", own, size_of(getpid()), 4 * MIB);
}

/* The connections of a client and a worker are cut, and each job finds its way all the same. */
static void cuts_run(struct relay *relay, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        relay_reset(relay, (int)(i % 2));
        pen_result_free(digits_run(client, &digits, i % digits.count, PEN_JOB_NO_CACHE));
    }
}

Test(flat, connections_that_are_cut_and_come_back_leave_nothing_behind)
{
    size_t count = rounds(20000, 100);
    char endpoint[2][64];
    struct relay *relay = relay_new();
    const char *ports[2] = {pool.clients, pool.workers_endpoint};
    cr_assert_not_null(relay);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(relay_add(relay, atoi(strrchr(ports[i], ':') + 1)), i);
        snprintf(endpoint[i], sizeof endpoint[i], "tcp://127.0.0.1:%d", relay_port(relay, i));
    }
    struct process *worker =
        process_start((const char *const[]){"penstock-worker", "--broker", endpoint[1], "--models", POOL_DIGITS_MODELS,
                                            "--backend", "xnnpack", "--slots", "1", "--threads", "1", NULL},
                      NULL);
    cr_assert(process_wait_text(worker, "evt=welcome", 20000), "%s", process_err(worker));
    client = digits_client(endpoint[0]);
    cuts_run(relay, 200);
    struct size broker = size_of(process_pid(pool.broker)), remote = size_of(process_pid(worker));
    struct size own = size_of(getpid());
    cuts_run(relay, count);
    printf("after %zu cuts\n", count);
    check("broker", broker, size_of(process_pid(pool.broker)), 4 * MIB);
    check("worker", remote, size_of(process_pid(worker)), 4 * MIB);
    check("client", own, size_of(getpid()), 4 * MIB);
    pen_client_free(client);
    client = NULL;
    cr_expect_eq(process_stop(worker, 20000), 0);
    process_free(worker);
    relay_free(relay);
}
