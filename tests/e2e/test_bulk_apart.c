/*
 * --bulk-clients, --bulk-workers: large payloads at addresses of their own, on threads that give way to all others. Each end has such threads only where the
 * broker has an address for it, and the broker's own does the work.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/client.h>

#include "folder.h"
#include "onnx_file.h"
#include "pool.h"
#include "urgency.h"

#define ROW   1024u
#define LARGE (24u * 1024u * 1024u)

#define ANYWHERE "tcp://127.0.0.1:*"
#define PATIENT  "--liveness", "20s" /* half of it is what a connection has to come up */

static char models[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;
static struct pen_error error;

static void begin_with(const char *const extra[])
{
    struct pen_client_options options;
    folder_new(models);
    onnx_identity_folder(models, "wide");
    setenv("PENSTOCK_SEALED_FROM", "0", 1); /* all large payloads go in chunks */
    pool_start(&pool, extra);
    pool_add_worker(&pool, "reference", models, NULL);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    options.connect_timeout_us = support_slow(10000) * 1000;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
}

static void end(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
}

/* One there and back again. */
static void run_large(void)
{
    struct pen_job_options options;
    struct pen_tensor tensor = {.name = "bytes", .dtype = PEN_DTYPE_U8, .rank = 2, .dims = {LARGE / ROW, ROW}};
    pen_result *result = NULL;
    uint8_t *data = malloc(LARGE);
    cr_assert_not_null(data);
    for (size_t i = 0; i < LARGE; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    tensor.data = data;
    tensor.bytes = LARGE;
    pen_job_options_init(&options, sizeof options);
    options.model = "wide";
    options.inputs = &tensor;
    options.inputs_count = 1;
    options.flags = PEN_JOB_NO_CACHE;
    options.deadline_us = (uint64_t)support_slow(60000) * 1000;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    const struct pen_tensor *copy = pen_result_find(result, "copy");
    cr_assert(copy && copy->bytes == LARGE);
    cr_assert(memcmp(copy->data, data, LARGE) == 0);
    pen_result_free(result);
    free(data);
}

static bool read_line(const char *path, char *ret_line, int bytes)
{
    FILE *file = fopen(path, "r");
    bool got = file && fgets(ret_line, bytes, file);
    if (file)
        fclose(file);
    return got;
}

struct threads {
    unsigned lowered;   /* of ZeroMQ's I/O threads */
    uint64_t worked_ns; /* by those */
};

static struct threads threads_of(pid_t pid)
{
    struct threads found = {0};
    char path[64], file[96], line[128];
    struct dirent *entry;
    int usual = getpriority(PRIO_PROCESS, (id_t)pid);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    while ((entry = readdir(folder))) {
        snprintf(file, sizeof file, "%s/%.20s/comm", path, entry->d_name);
        if (*entry->d_name == '.' || !read_line(file, line, sizeof line) || strncmp(line, "ZMQbg/IO/", 9) != 0 ||
            getpriority(PRIO_PROCESS, (id_t)strtoul(entry->d_name, NULL, 10)) != usual + URGENCY_NICE)
            continue;
        snprintf(file, sizeof file, "%s/%.20s/schedstat", path, entry->d_name);
        found.lowered++;
        found.worked_ns += read_line(file, line, sizeof line) ? strtoull(line, NULL, 10) : 0;
    }
    closedir(folder);
    return found;
}

/* ends: 1 = the client's, 2 = the worker's. A broker's thread that moves a byte takes at least 25 ps for it, or is idle. */
static void expect_apart(const char *const flags[], unsigned ends)
{
    if (getpriority(PRIO_PROCESS, 0) + URGENCY_NICE > 19)
        cr_skip_test("this process gives way already: nothing can be seen of what gives way to it");
    begin_with(flags);
    run_large();
    run_large();
    struct threads broker = threads_of(process_pid(pool.broker));
    uint64_t moved = (uint64_t)LARGE * 2 * 2 * ((ends & 1u) + (ends >> 1));
    cr_expect_eq(threads_of(getpid()).lowered, ends & 1u, "the client's threads");
    cr_expect_eq(threads_of(process_pid(pool.workers[0])).lowered, ends >> 1, "the worker's");
    cr_expect_eq(broker.lowered, ends ? 1 : 0, "the broker's");
    if (access("/proc/self/schedstat", R_OK) == 0)
        cr_expect_geq(broker.worked_ns, moved / 40, "%llu ns for %llu bytes", (unsigned long long)broker.worked_ns,
                      (unsigned long long)moved);
    end();
}

Test(bulk_apart, both_ends)
{
    expect_apart((const char *const[]){PATIENT, "--bulk-clients", ANYWHERE, "--bulk-workers", ANYWHERE, NULL}, 3);
}

Test(bulk_apart, clients_alone)
{
    expect_apart((const char *const[]){PATIENT, "--bulk-clients", ANYWHERE, NULL}, 1);
}

Test(bulk_apart, workers_alone)
{
    expect_apart((const char *const[]){PATIENT, "--bulk-workers", ANYWHERE, NULL}, 2);
}

Test(bulk_apart, nobody_unless_asked)
{
    expect_apart((const char *const[]){NULL}, 0);
}

#define ELSEWHERE "tcp://127.0.0.2:*" /* the endpoints' host is 127.0.0.1: its port of that number is closed */

/* Each end finds out once. */
Test(bulk_apart, port_that_cannot_be_reached_is_left_for_the_endpoint_itself)
{
    struct pen_client_counters counters;
    begin_with((const char *const[]){"--bulk-clients", ELSEWHERE, "--bulk-workers", ELSEWHERE, NULL});
    run_large();
    cr_assert(process_wait_text(pool.workers[0], "evt=bulk_unreachable", 0), "%s", process_err(pool.workers[0]));
    pen_client_counters(client, &counters, sizeof counters);
    uint64_t connections = counters.connections;
    cr_expect_gt(connections, 1);
    run_large();
    pen_client_counters(client, &counters, sizeof counters);
    cr_expect_eq(counters.connections, connections);
    end();
}
