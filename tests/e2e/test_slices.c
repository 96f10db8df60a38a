/* --wake-slice: which threads of a pool ask for short slices of processor time, as the kernel tells it. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/admin.h>
#include <penstock/client.h>

#include "folder.h"
#include "onnx_file.h"
#include "pool.h"

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static uint64_t slice_us(pid_t thread)
{
    struct attributes attributes = {.size = sizeof attributes};
    return syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0) == 0 ? attributes.runtime_ns / 1000
                                                                                      : 0;
}

/* The slice of the process's thread of that name; 0 when there is none. */
static uint64_t slice_by_name(pid_t pid, const char *wanted)
{
    char path[64], name[32];
    uint64_t found_us = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    while ((entry = readdir(folder))) {
        char file[64 + 256 + 8];
        snprintf(file, sizeof file, "%s/%s/comm", path, entry->d_name);
        FILE *comm = *entry->d_name == '.' ? NULL : fopen(file, "r");
        if (comm && fgets(name, sizeof name, comm) && strncmp(name, wanted, strlen(wanted)) == 0)
            found_us = slice_us((pid_t)atoi(entry->d_name));
        if (comm)
            fclose(comm);
    }
    closedir(folder);
    return found_us;
}

/* A thread that has just been made asks when it runs for the first time. */
static uint64_t slice_awaited(pid_t pid, const char *name, uint64_t wanted_us)
{
    uint64_t until_us = support_now_us() + (uint64_t)support_slow(10000) * 1000u, slice = slice_by_name(pid, name);
    for (; slice != wanted_us && support_now_us() < until_us; slice = slice_by_name(pid, name))
        support_sleep_ms(5);
    return slice;
}

static void expect_slices(const char *asked, uint64_t broker_us, uint64_t worker_us)
{
    char models[FOLDER_PATH_BYTES];
    struct pool pool;
    folder_new(models);
    onnx_identity_folder(models, "wide");
    pool_start(&pool, (const char *const[]){"--wake-slice", asked, NULL});
    size_t number = pool_add_worker(&pool, "reference", models, (const char *const[]){"--wake-slice", asked, NULL});
    pid_t broker = process_pid(pool.broker), worker = process_pid(pool.workers[number]);
    cr_expect_eq(slice_us(broker), broker_us, "the broker's loop");
    cr_expect_eq(slice_awaited(broker, "ZMQbg/IO", broker_us), broker_us, "its connections");
    cr_expect_eq(slice_us(worker), worker_us, "the worker's network thread");
    cr_expect_eq(slice_awaited(worker, "ZMQbg/IO", worker_us), worker_us, "its connections");
    cr_expect_eq(slice_awaited(worker, "slot-0", worker_us), worker_us, "a slot that waits");
    pool_stop(&pool);
    folder_free(models);
}

Test(slices, threads_that_pass_messages_on_ask_for_what_the_setting_says)
{
    uint64_t own_us = slice_us(0);
    if (own_us == 0)
        cr_skip_test("this kernel does not tell slices: Linux 6.12 does");
    expect_slices("100us", 100, 100);
    expect_slices("1500us", 1500, 1500);
    expect_slices("0", own_us, own_us);
}

/* The caller's own threads are the caller's business. */
Test(slices, a_client_leaves_its_callers_thread_as_it_was)
{
    uint64_t own_us = slice_us(0);
    struct pen_client_options options;
    struct pool pool;
    pen_client *client = NULL;
    if (own_us == 0)
        cr_skip_test("this kernel does not tell slices: Linux 6.12 does");
    pool_start(&pool, NULL);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    cr_assert_eq(pen_client_connect(&options, &client, NULL), PEN_OK);
    cr_expect_eq(slice_us(0), own_us);
    cr_expect_eq(slice_awaited(getpid(), "ZMQbg/IO", 100), 100, "the library's connections");
    pen_client_free(client);
    pool_stop(&pool);
}

#define ROW 1024u

/* An .npy file of uint8 [rows, ROW], zeroes. */
static void input_write(const char *path, unsigned rows)
{
    char *file = calloc(1, 128 + (size_t)rows * ROW), head[118];
    cr_assert_not_null(file);
    snprintf(head, sizeof head, "{'descr': '|u1', 'fortran_order': False, 'shape': (%u, %u), }", rows, ROW);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    snprintf(file + 10, 119, "%-117s\n", head);
    file_write(path, file, 128 + (size_t)rows * ROW);
    free(file);
}

static uint64_t jobs_admitted(pen_client *client)
{
    struct pen_stats *stats;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(pen_client_stats(client, (int64_t)support_slow(10000) * 1000, &stats, &error), PEN_OK, "%s",
                 error.text);
    uint64_t count = stats->jobs_admitted;
    pen_client_stats_free(stats);
    return count;
}

/* The slice of a load's own thread, once its first job is there. */
static uint64_t slice_of_load(const struct pool *pool, const char *folder, pen_client *client, unsigned rows)
{
    char path[FOLDER_PATH_BYTES + 16], input[FOLDER_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%u.npy", folder, rows);
    snprintf(input, sizeof input, "bytes=%s", path);
    input_write(path, rows);
    uint64_t before = jobs_admitted(client), until_us = support_now_us() + (uint64_t)support_slow(20000) * 1000u;
    const char *const argv[] = {"penstock", "load",    "--broker", pool->clients, "--model",
                                "wide",     "--input", input,      "--duration",  "60s",
                                "--rate",   "20",      "--json",   "--no-cache",  NULL};
    struct process *load = process_start(argv, NULL);
    while (jobs_admitted(client) == before && process_alive(load) && support_now_us() < until_us)
        support_sleep_ms(5);
    cr_assert(process_alive(load) && jobs_admitted(client) > before, "%s", process_err(load));
    uint64_t slice = slice_us(process_pid(load));
    process_free(load);
    return slice;
}

/* Who copies large payloads has no short slices: it would keep its processor from those that wake up with them. */
Test(slices, load_asks_for_short_ones_unless_its_payloads_are_large)
{
    char folder[FOLDER_PATH_BYTES], models[FOLDER_PATH_BYTES];
    struct pen_client_options options;
    struct pool pool;
    pen_client *client = NULL;
    uint64_t own_us = slice_us(0);
    if (own_us == 0)
        cr_skip_test("this kernel does not tell slices: Linux 6.12 does");
    folder_new(folder);
    folder_new(models);
    onnx_identity_folder(models, "wide");
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "reference", models, NULL);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    cr_assert_eq(pen_client_connect(&options, &client, NULL), PEN_OK);
    cr_expect_eq(slice_of_load(&pool, folder, client, 1024), 100, "1 MiB");
    cr_expect_eq(slice_of_load(&pool, folder, client, 1025), own_us, "more");
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
    folder_free(folder);
}
