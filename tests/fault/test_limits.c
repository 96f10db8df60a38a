/*
 * What a host runs out of: descriptors, memory, disk. New work is refused with a typed error, what runs goes on, and when the limit is lifted all is as before. Limits
 * are put on the running programs with prlimit(2).
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digits.h"
#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

/* On a busy machine nobody is to be thought lost: whoever must connect anew would meet the limit. */
#define PATIENT "--http", "none", "--heartbeat", "1s", "--liveness", "60s"

static struct pool pool;
static struct digits digits;
static pen_client *client;

static void begin(void)
{
    digits_load(&digits);
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(limits, .init = begin, .fini = end, .timeout = 240);

static void limit_pid(pid_t pid, int resource, rlim_t soft)
{
    struct rlimit value;
    cr_assert_eq(prlimit(pid, (__rlimit_resource_t)resource, NULL, &value), 0);
    value.rlim_cur = soft < value.rlim_max ? soft : value.rlim_max;
    cr_assert_eq(prlimit(pid, (__rlimit_resource_t)resource, &value, NULL), 0);
}

static void limit(const struct process *process, int resource, rlim_t soft)
{
    limit_pid(process_pid(process), resource, soft);
}

/* The number that the next descriptor would get: as the limit it means that there is none. */
static rlim_t next_descriptor(const struct process *process)
{
    char path[64];
    for (rlim_t fd = 0;; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%llu", (int)process_pid(process), (unsigned long long)fd);
        struct stat link;
        if (lstat(path, &link) != 0)
            return fd;
    }
}

/* Memory that the program may write: what RLIMIT_DATA limits. */
static uint64_t data_bytes(pid_t pid)
{
    char path[64], line[128];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    while (kib == 0 && fgets(line, sizeof line, file))
        sscanf(line, "VmData: %llu kB", &kib);
    fclose(file);
    return (uint64_t)kib << 10;
}

static void jobs_are_answered(size_t count)
{
    for (size_t i = 0; i < count; i++)
        pen_result_free(digits_run(client, &digits, i % digits.count, PEN_JOB_NO_CACHE));
}

/* ---- descriptors ---- */

Test(limits, broker_without_descriptors_serves_whom_it_knows_and_then_the_others)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client *late = NULL;
    pool_start(&pool, (const char *const[]){PATIENT, NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
    jobs_are_answered(20);
    limit(pool.broker, RLIMIT_NOFILE, next_descriptor(pool.broker));
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.connect_timeout_us = 500000;
    cr_assert_eq(pen_client_connect(&options, &late, &error), PEN_ERR_UNAVAILABLE);
    cr_assert_not_null(strstr(error.text, pool.clients), "%s", error.text);
    jobs_are_answered(200);
    limit(pool.broker, RLIMIT_NOFILE, RLIM_INFINITY);
    options.connect_timeout_us = (int64_t)support_slow(20000) * 1000;
    cr_assert_eq(pen_client_connect(&options, &late, &error), PEN_OK, "%s", error.text);
    pen_result_free(digits_run(late, &digits, 0, PEN_JOB_NO_CACHE));
    pen_client_free(late);
}

static enum pen_status load(struct pen_error *error)
{
    struct pen_outcome_list *outcomes = NULL;
    enum pen_status status =
        pen_client_model_load(client, "second", (int64_t)support_slow(20000) * 1000, &outcomes, error);
    pen_outcomes_free(outcomes);
    return status;
}

Test(limits, worker_without_descriptors_refuses_a_new_model_and_serves_the_old_one)
{
    char models[FOLDER_PATH_BYTES];
    struct pen_error error = {.status = PEN_OK};
    folder_new(models);
    char *config = file_read(POOL_DIGITS_MODELS "/digits/config.json", &(size_t){0});
    model_folder_make(models, "digits", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    pool_start(&pool, (const char *const[]){PATIENT, NULL});
    pool_add_worker(&pool, "reference", models, NULL);
    client = digits_client(pool.clients);
    model_folder_make(models, "second", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    limit(pool.workers[0], RLIMIT_NOFILE, next_descriptor(pool.workers[0]));
    enum pen_status status = load(&error);
    cr_assert(status != PEN_OK && *error.text, "%s", pen_status_name(status));
    jobs_are_answered(200);
    limit(pool.workers[0], RLIMIT_NOFILE, RLIM_INFINITY);
    cr_assert_eq(load(&error), PEN_OK, "%s", error.text);
    jobs_are_answered(20);
    free(config);
    folder_free(models);
}

/* ---- memory; not under sanitizers, whose own memory would be limited ---- */

#ifndef __SANITIZE_ADDRESS__

#define MIB        ((uint64_t)1 << 20)
#define ROWS       2048 /* of 1 KiB */
#define LARGE_ROWS 600

static pen_job *submit_rows(const uint8_t *bytes, uint32_t rows)
{
    struct pen_tensor input = {.name = "bytes", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {rows, 1024}, .data = bytes};
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_job *job = NULL;
    input.bytes = (size_t)rows * 1024;
    pen_job_options_init(&options, sizeof options);
    options.model = "wide";
    options.inputs = &input;
    options.inputs_count = 1;
    options.flags = PEN_JOB_NO_CACHE;
    options.deadline_us = (uint64_t)support_slow(40000) * 1000u; /* many wait behind each other */
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

static pen_job *submit_large(const uint8_t *bytes)
{
    return submit_rows(bytes, ROWS);
}

static void wide_models(char models[FOLDER_PATH_BYTES])
{
    folder_new(models);
    char *config = file_read(POOL_DIGITS_MODELS "/digits/config.json", &(size_t){0});
    model_folder_make(models, "digits", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    onnx_identity_folder(models, "wide");
    free(config);
}

/* A worker that has ended comes back after its supervisor's pause. */
static void is_served_again(void)
{
    struct pen_error error = {.status = PEN_OK};
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(60000) * 1000u;
    for (enum pen_status status = PEN_ERR_UNAVAILABLE; status != PEN_OK; support_sleep_ms(20)) {
        struct pen_tensor tensor = digits_tensor(&digits, 0);
        struct pen_job_options options;
        pen_result *result = NULL;
        digits_job(&tensor, &options);
        status = pen_client_run(client, &options, &result, &error);
        pen_result_free(result);
        cr_assert(status == PEN_OK || support_now_us() < until_us, "%s", error.text);
    }
}

static size_t answers(pen_job *jobs[], size_t count, size_t by_status[PEN_STATUS_COUNT])
{
    size_t ended = 0;
    for (size_t i = 0; i < count; i++) {
        pen_result *result = NULL;
        if (pen_job_wait(jobs[i], (int64_t)support_slow(60000) * 1000, &result, NULL) == PEN_OK) {
            by_status[pen_result_status(result)]++;
            cr_assert(pen_result_status(result) == PEN_OK || *pen_result_error(result), "an error says why");
            ended++;
        }
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    return ended;
}

static uint64_t connections(void)
{
    struct pen_client_counters counters;
    pen_client_counters(client, &counters, sizeof counters);
    return counters.connections;
}

Test(limits, broker_without_memory_ends_every_job_with_a_status_and_serves_again)
{
    enum { JOBS = 40 };
    static uint8_t bytes[ROWS * 1024];
    char models[FOLDER_PATH_BYTES];
    pen_job *jobs[JOBS];
    size_t by_status[PEN_STATUS_COUNT] = {0};
    wide_models(models);
    /* What is cut off in the middle of a payload is asked for anew after the liveness: shorter than elsewhere, longer than the worker stands still. */
    pool_start(&pool, (const char *const[]){"--http", "none", "--heartbeat", "1s", "--liveness", "8s", "--queue-bytes",
                                            "4GiB", NULL});
    pool_add_worker(&pool, "reference", models, NULL);
    client = digits_client(pool.clients);
    jobs_are_answered(20);
    process_signal(pool.workers[0], SIGSTOP); /* so that jobs pile up in the broker */
    limit(pool.broker, RLIMIT_DATA, data_bytes(process_pid(pool.broker)) + 16 * MIB);
    for (size_t i = 0; i < JOBS; i++)
        jobs[i] = submit_large(bytes);
    /* A payload that finds no memory is refused, or a message costs its connection. */
    uint64_t until_us = support_now_us() + 1000000u;
    while (connections() < 2 && support_now_us() < until_us)
        support_sleep_ms(10);
    process_signal(pool.workers[0], SIGCONT);
    cr_assert_eq(answers(jobs, JOBS, by_status), JOBS);
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        if (by_status[i])
            printf("broker: %s %zu\n", pen_status_name((enum pen_status)i), by_status[i]);
    cr_assert(process_alive(pool.broker), "%s", process_err(pool.broker));
    limit(pool.broker, RLIMIT_DATA, RLIM_INFINITY);
    is_served_again();
    jobs_are_answered(50);
    folder_free(models);
}

static pen_job *submit_small(size_t index)
{
    struct pen_tensor tensor = digits_tensor(&digits, index % digits.count);
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_job *job = NULL;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_NO_CACHE;
    options.deadline_us = (uint64_t)support_slow(50000) * 1000u;
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

static uint64_t jobs_admitted(void)
{
    struct pen_stats *stats;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(20000) * 1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t count = stats->jobs_admitted;
    pen_client_stats_free(stats);
    return count;
}

static size_t ended(pen_job *jobs[], size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += pen_job_poll(jobs[i]);
    return all;
}

/* Sends jobs, every so many-th a large one (0 = none), until many were refused; how many that were. */
static size_t send_until_refused(pen_job *jobs[], size_t count, size_t large_every)
{
    enum { REFUSED = 500 };
    static uint8_t bytes[LARGE_ROWS * 1024];
    size_t sent = 0, refused = 0;
    while (sent < count && refused < REFUSED) {
        jobs[sent] = large_every && sent % large_every == 0 ? submit_rows(bytes, LARGE_ROWS) : submit_small(sent);
        if (++sent % 500 == 0)
            refused = ended(jobs, sent); /* the worker stands still: what ends was refused */
    }
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(20000) * 1000u;
    while (refused == 0 && (refused = ended(jobs, sent)) == 0 && support_now_us() < until_us)
        support_sleep_ms(5);
    return sent;
}

static void tell_statuses(const char *whose, const size_t by_status[PEN_STATUS_COUNT])
{
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        if (by_status[i])
            printf("%s: %s %zu\n", whose, pen_status_name((enum pen_status)i), by_status[i]);
}

/*
 * Jobs wait because their worker stands still, and the broker has come to its limit; more jobs are sent until they are refused, then the worker goes on. The large ones
 * among them break connections where libzmq finds no memory to read them.
 */
static void flood_near_the_limit(size_t large_every)
{
    enum { BEFORE = 500, JOBS = 30000 };
    static pen_job *before[BEFORE], *jobs[JOBS];
    static uint8_t bytes[LARGE_ROWS * 1024];
    size_t by_status[PEN_STATUS_COUNT] = {0}, by_status_before[PEN_STATUS_COUNT] = {0};
    uint64_t admitted = jobs_admitted() + BEFORE;
    process_signal(pool.workers[0], SIGSTOP);
    for (size_t i = 0; i < BEFORE; i++)
        before[i] = large_every && i % 10 == 0 ? submit_rows(bytes, LARGE_ROWS) : submit_small(i);
    while (jobs_admitted() < admitted)
        support_sleep_ms(5);
    limit(pool.broker, RLIMIT_DATA, data_bytes(process_pid(pool.broker)) + MIB);
    size_t sent = send_until_refused(jobs, JOBS, large_every);
    process_signal(pool.workers[0], SIGCONT);
    cr_assert_eq(answers(jobs, sent, by_status), sent);
    cr_assert_eq(answers(before, BEFORE, by_status_before), (size_t)BEFORE);
    tell_statuses("near the limit", by_status);
    tell_statuses("before", by_status_before);
    cr_assert(process_alive(pool.broker), "%s", process_err(pool.broker));
    cr_expect_gt(by_status[PEN_ERR_BUSY], 0u, "near its limit the broker takes no new jobs");
    cr_expect_eq(by_status[PEN_OK] + by_status[PEN_ERR_BUSY], sent, "every job is done or refused, none is lost");
    cr_expect_eq(by_status_before[PEN_OK], (size_t)BEFORE, "those that it had go on");
    cr_expect_not_null(strstr(process_err(pool.broker), "evt=memory_short"), "%s", process_err(pool.broker));
    limit(pool.broker, RLIMIT_DATA, RLIM_INFINITY);
    uint64_t lifted_us = support_now_us();
    is_served_again();
    cr_expect_lt(support_now_us() - lifted_us, (uint64_t)support_slow(30000) * 1000u);
    jobs_are_answered(50);
}

static pen_client *client_of_many_jobs(void)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_client *many = NULL;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.jobs_max = 100000;
    options.bytes_max = (uint64_t)4 << 30;
    options.connect_timeout_us = (int64_t)support_slow(20000) * 1000;
    cr_assert_eq(pen_client_connect(&options, &many, &error), PEN_OK, "%s", error.text);
    return many;
}

/* libzmq ends a program whose queues find no memory: the broker must stop taking jobs before that, and say why. */
Test(limits, broker_near_its_memory_limit_refuses_new_jobs_keeps_those_it_has_and_takes_them_again)
{
    char models[FOLDER_PATH_BYTES];
    wide_models(models);
    pool_start(&pool, (const char *const[]){PATIENT, "--queue-bytes", "4GiB", NULL});
    pool_add_worker(&pool, "reference", models, NULL);
    client = client_of_many_jobs();
    jobs_are_answered(200);
    flood_near_the_limit(0);
    flood_near_the_limit(50);
    folder_free(models);
}

/* The worker proper below its supervisor. */
static pid_t child_of(const struct process *process)
{
    char path[64];
    int child = 0, pid = (int)process_pid(process);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "re");
    cr_assert(file && fscanf(file, "%d", &child) == 1);
    fclose(file);
    return child;
}

Test(limits, worker_without_memory_ends_every_job_with_a_status_and_serves_again)
{
    enum { JOBS = 32 };
    static uint8_t bytes[ROWS * 1024];
    char models[FOLDER_PATH_BYTES];
    pen_job *jobs[JOBS];
    size_t by_status[PEN_STATUS_COUNT] = {0};
    wide_models(models);
    pool_start(&pool, (const char *const[]){PATIENT, NULL});
    pool_add_worker(&pool, "reference", models, (const char *const[]){"--supervise", NULL});
    client = digits_client(pool.clients);
    jobs_are_answered(20);
    pid_t child = child_of(pool.workers[0]);
    limit_pid(child, RLIMIT_DATA, data_bytes(child) + MIB);
    for (size_t i = 0; i < JOBS; i++)
        jobs[i] = submit_large(bytes);
    cr_assert_eq(answers(jobs, JOBS, by_status), JOBS);
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        if (by_status[i])
            printf("worker: %s %zu\n", pen_status_name((enum pen_status)i), by_status[i]);
    cr_assert(process_alive(pool.workers[0]), "%s", process_err(pool.workers[0]));
    is_served_again();
    jobs_are_answered(50);
    folder_free(models);
}

#endif

/* ---- disk ---- */

static enum pen_status detach(size_t index, char sentence[PEN_ERROR_TEXT_BYTES])
{
    struct pen_tensor tensor = digits_tensor(&digits, index);
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_DETACHED;
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    snprintf(sentence, PEN_ERROR_TEXT_BYTES, "%s", error.text);
    pen_result_free(result);
    return status;
}

Test(limits, full_disk_refuses_detached_jobs_and_takes_them_again_when_there_is_room)
{
    char folder[FOLDER_PATH_BYTES], journal[FOLDER_PATH_BYTES + 16], sentence[PEN_ERROR_TEXT_BYTES];
    struct stat file;
    folder_new(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    pool_start(&pool, (const char *const[]){PATIENT, "--journal", journal, NULL});
    client = digits_client(pool.clients);
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(detach(i, sentence), PEN_OK, "%s", sentence);
    cr_assert_eq(stat(journal, &file), 0);
    limit(pool.broker, RLIMIT_FSIZE, (rlim_t)file.st_size + 100);
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(detach(i, sentence), PEN_ERR_UNAVAILABLE, "%s", sentence);
    cr_assert_neq(sentence[0], '\0');
    limit(pool.broker, RLIMIT_FSIZE, RLIM_INFINITY);
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(detach(i, sentence), PEN_OK, "%s", sentence);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    jobs_are_answered(20);
    folder_free(folder);
}
