/*
 * A real control group with little memory: the broker finds its limit by itself and refuses before the kernel kills; what was accepted is answered; with more
 * memory all is as before. A worker in one answers what does not fit with a typed error. Skipped where no such group can be made (root, version 1 or 2).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digits.h"
#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

#define MIB          ((uint64_t)1 << 20)
#define TOGETHER_MAX 40
#define PATIENT      "--http", "none", "--heartbeat", "1s", "--liveness", "60s"
#define NO_SEALED    "--sealed-from", "0" /* sealed memory would count in the group of the client that wrote it */

static struct pool pool;
static struct digits digits;
static pen_client *client;

/* ---- a group of our own ---- */

static struct group {
    char folder[512], home[512]; /* ours, and the one to go back to; "" = none */
    const char *limit;
} group;

static bool group_write(const char *folder, const char *name, const char *text)
{
    char path[640];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    bool good = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0)
        good = false;
    return good;
}

static bool group_set_limit(uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    return group_write(group.folder, group.limit, text);
}

static bool group_try(const char *mount, const char *own, const char *limit_name, uint64_t bytes)
{
    snprintf(group.home, sizeof group.home, "%s%.200s", mount, own);
    snprintf(group.folder, sizeof group.folder, "%.300s/penstock-test-%d", group.home, (int)getpid());
    group.limit = limit_name;
    if (mkdir(group.folder, 0755) != 0)
        return false;
    if (group_set_limit(bytes))
        return true;
    rmdir(group.folder);
    return false;
}

/* Below our own group, or below the mount. */
static bool group_make(uint64_t bytes)
{
    char line[512];
    bool made = false;
    FILE *own = fopen("/proc/self/cgroup", "re");
    while (own && !made && fgets(line, sizeof line, own)) {
        line[strcspn(line, "\n")] = '\0';
        const char *v1 = strstr(line, ":memory:");
        if (v1)
            made = group_try("/sys/fs/cgroup/memory", v1 + strlen(":memory:"), "memory.limit_in_bytes", bytes) ||
                   group_try("/sys/fs/cgroup/memory", "", "memory.limit_in_bytes", bytes);
        else if (strncmp(line, "0::", 3) == 0)
            made = group_try("/sys/fs/cgroup", line + 3, "memory.max", bytes) ||
                   group_try("/sys/fs/cgroup", "", "memory.max", bytes);
    }
    if (own)
        fclose(own);
    if (!made)
        group.folder[0] = '\0';
    return made;
}

/* This process, so that what it starts is in it from the first moment on. */
static bool group_move(const char *folder)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return group_write(folder, "cgroup.procs", pid);
}

static void group_remove(void)
{
    for (int tries = 0; *group.folder && rmdir(group.folder) != 0 && errno == EBUSY && tries < 200; tries++)
        support_sleep_ms(10); /* its last process is just ending */
}

/* ---- the pool ---- */

static void begin(void)
{
    digits_load(&digits);
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
    group_remove();
}

TestSuite(group, .init = begin, .fini = end, .timeout = 240);

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
    options.deadline_us = (uint64_t)support_slow(60000) * 1000u;
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    return job;
}

static void jobs_are_answered(size_t count)
{
    for (size_t i = 0; i < count; i++)
        pen_result_free(digits_run(client, &digits, i % digits.count, PEN_JOB_NO_CACHE));
}

static void models_make(char models[FOLDER_PATH_BYTES])
{
    folder_new(models);
    char *config = file_read(POOL_DIGITS_MODELS "/digits/config.json", &(size_t){0});
    model_folder_make(models, "digits", POOL_DIGITS_MODELS "/digits/1/model.onnx", config);
    onnx_identity_folder(models, "wide");
    free(config);
}

struct tally {
    size_t by_status[PEN_STATUS_COUNT];
    char sentence[PEN_ERROR_TEXT_BYTES]; /* of the last error */
};

static pen_result *answer(pen_job *job, struct tally *tally)
{
    pen_result *result = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_job_wait(job, (int64_t)support_slow(90000) * 1000, &result, &error), PEN_OK, "%s", error.text);
    tally->by_status[pen_result_status(result)]++;
    if (pen_result_status(result) != PEN_OK)
        snprintf(tally->sentence, sizeof tally->sentence, "%s", pen_result_error(result));
    pen_job_free(job);
    return result;
}

static void answers(pen_job *jobs[], size_t count, struct tally *tally)
{
    for (size_t i = 0; i < count; i++)
        pen_result_free(answer(jobs[i], tally));
    for (size_t i = 0; i < PEN_STATUS_COUNT; i++)
        if (tally->by_status[i])
            printf("%s %zu\n", pen_status_name((enum pen_status)i), tally->by_status[i]);
}

/* So many at once, all: what the last flood has left behind goes back to the system a little later, and a new limit is seen at the next look. */
static void are_taken(const uint8_t *bytes, uint32_t rows, size_t count)
{
    pen_job *jobs[TOGETHER_MAX];
    struct tally tally;
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(40000) * 1000u;
    do {
        tally = (struct tally){.sentence = ""};
        support_sleep_ms(20);
        for (size_t i = 0; i < count; i++)
            jobs[i] = submit_rows(bytes, rows);
        answers(jobs, count, &tally);
    } while (tally.by_status[PEN_OK] < count && support_now_us() < until_us);
    cr_assert_eq(tally.by_status[PEN_OK], count, "%s", tally.sentence);
}

static bool any_ended(pen_job *jobs[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pen_job_poll(jobs[i]))
            return true;
    return false;
}

static void flood_once(const uint8_t *bytes, uint32_t rows, size_t count, struct tally *tally)
{
    enum { JOBS_MAX = 600 };
    static pen_job *jobs[JOBS_MAX];
    are_taken(bytes, rows, 1);
    process_signal(pool.workers[0], SIGSTOP);
    for (size_t i = 0; i < count; i++)
        jobs[i] = submit_rows(bytes, rows);
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    while (!any_ended(jobs, count) && support_now_us() < until_us) /* the worker stands still: what ends was refused */
        support_sleep_ms(10);
    process_signal(pool.workers[0], SIGCONT);
    answers(jobs, count, tally);
}

/* More than the group may have, many times over: rows of 1 KiB, so below and above what goes in chunks. Again where all of one flood met what the last one left. */
static void flood(uint32_t rows, size_t count)
{
    static uint8_t bytes[2048 * 1024];
    struct tally tally = {.sentence = ""};
    size_t floods = 0;
    while (floods < 10 && (tally.by_status[PEN_OK] == 0 || tally.by_status[PEN_ERR_BUSY] == 0)) {
        flood_once(bytes, rows, count, &tally);
        floods++;
    }
    cr_assert(process_alive(pool.broker), "%s", process_err(pool.broker));
    cr_expect_gt(tally.by_status[PEN_OK], 0u);
    cr_expect_gt(tally.by_status[PEN_ERR_BUSY], 0u);
    cr_expect_eq(tally.by_status[PEN_OK] + tally.by_status[PEN_ERR_BUSY], floods * count, "%s", tally.sentence);
    cr_expect_not_null(strstr(tally.sentence, "control group"), "%s", tally.sentence);
}

Test(group, broker_in_a_small_group_refuses_before_the_kernel_kills)
{
    char models[FOLDER_PATH_BYTES];
    if (!group_make(96 * MIB))
        cr_skip_test("no control group with a memory limit can be made here: that takes root and cgroup v1 or v2");
    models_make(models);
    cr_assert(group_move(group.folder));
    pool_start(&pool, (const char *const[]){PATIENT, NO_SEALED, "--queue-bytes", "4GiB", NULL});
    cr_assert(group_move(group.home));
    pool_add_worker(&pool, "reference", models, NULL);
    client = digits_client(pool.clients);
    jobs_are_answered(20);
    flood(600, 500);
    flood(2048, 60);
    cr_assert(group_set_limit(2048 * MIB));
    uint8_t *bytes = calloc(1, 2048 * 1024);
    are_taken(bytes, 2048, TOGETHER_MAX); /* with more memory */
    jobs_are_answered(50);
    free(bytes);
    folder_free(models);
}

/* Each answered OK, or with a typed error that says why. All results are held until the last one is there: where they lie in
   memory of the worker's group, they fill it. */
static void worker_takes(const uint8_t *bytes, uint32_t rows, size_t count, struct tally *tally)
{
    pen_job *jobs[16];
    pen_result *results[16];
    for (size_t i = 0; i < count; i++)
        jobs[i] = submit_rows(bytes, rows);
    for (size_t i = 0; i < count; i++)
        results[i] = answer(jobs[i], tally);
    for (size_t i = 0; i < count; i++)
        pen_result_free(results[i]);
    cr_assert(process_alive(pool.workers[0]), "%s", process_err(pool.workers[0]));
    jobs_are_answered(20);
}

Test(group, worker_in_a_small_group_answers_what_does_not_fit_and_lives)
{
    enum { HUGE_ROWS = 40 * 1024, ROWS = 8 * 1024 }; /* 40 and 8 MiB in, and as much out */
    char models[FOLDER_PATH_BYTES];
    struct tally huge = {.sentence = ""}, fitting = {.sentence = ""};
    if (!group_make(64 * MIB))
        cr_skip_test("no control group with a memory limit can be made here: that takes root and cgroup v1 or v2");
    models_make(models);
    pool_start(&pool, (const char *const[]){PATIENT, NULL});
    cr_assert(group_move(group.folder));
    pool_add_worker(&pool, "reference", models, NULL);
    cr_assert(group_move(group.home));
    client = digits_client(pool.clients);
    jobs_are_answered(20);
    uint8_t *bytes = calloc(HUGE_ROWS, 1024);
    cr_assert_not_null(bytes);
    worker_takes(bytes, HUGE_ROWS, 4, &huge);
    cr_expect_eq(huge.by_status[PEN_ERR_BUSY] + huge.by_status[PEN_ERR_NO_MEMORY], 4u);
    cr_expect_not_null(strstr(huge.sentence, "memory limit"), "%s", huge.sentence);
    for (int round = 0; round < 3; round++)
        worker_takes(bytes, ROWS, 1, &fitting);
    cr_expect_eq(fitting.by_status[PEN_OK], 3u, "%s", fitting.sentence);
    worker_takes(bytes, ROWS, 12, &fitting);
    cr_expect_eq(fitting.by_status[PEN_OK] + fitting.by_status[PEN_ERR_BUSY] + fitting.by_status[PEN_ERR_NO_MEMORY],
                 15u, "%s", fitting.sentence);
    cr_expect_null(strstr(process_err(pool.broker), "evt=worker_lost"), "%s", process_err(pool.broker));
    free(bytes);
    folder_free(models);
}
