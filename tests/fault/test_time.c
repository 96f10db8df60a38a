/*
 * Time that does not behave: the wall clock jumps while jobs run, the client's process stands still and goes on, the network is cut and heals. Every
 * submitted job ends in exactly one answer.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "folder.h"
#include "ledger.h"
#include "pool.h"
#include "torture_relay.h"

#define DAY_S  86400
#define YEAR_S (365 * (int64_t)DAY_S)
#define JOBS   3000

static struct pool pool;
static struct digits digits;
static char folder[FOLDER_PATH_BYTES], journal[FOLDER_PATH_BYTES + 16];
static volatile int64_t *jump; /* seconds that the wall clock of the programs is off by */

static void begin(void)
{
    digits_load(&digits);
    folder_new(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
}

static void end(void)
{
    pool_stop(&pool);
    digits_free(&digits);
    folder_free(folder);
}

TestSuite(time, .init = begin, .fini = end, .timeout = 240);

/* Programs that are started from now on see the clock that `jump` sets. */
static void clock_open(void)
{
    char path[FOLDER_PATH_BYTES + 16];
    const int64_t none = 0;
    snprintf(path, sizeof path, "%s/clock", folder);
    file_write(path, &none, sizeof none);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(fd >= 0 && mapped != MAP_FAILED);
    close(fd);
    jump = mapped;
    setenv("PENSTOCK_TEST_CLOCK", path, 1);
    setenv("LD_PRELOAD", PENSTOCK_CLOCK_SHIM, 1);
}

static void detach(pen_client *client, char id[PEN_JOB_ID_BYTES])
{
    struct pen_tensor tensor = digits_tensor(&digits, 3);
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_job *job = NULL;
    pen_result *result = NULL;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_DETACHED;
    options.detached_ttl_us = UINT64_C(600000000);
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    pen_job_id(job, id);
    cr_assert_eq(pen_job_wait(job, (int64_t)support_slow(20000) * 1000, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    pen_result_free(result);
    pen_job_free(job);
}

static void fetch(pen_client *client, const char *id)
{
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_result *result = NULL;
    pen_job_options_init(&options, sizeof options);
    options.detached = id;
    options.deadline_us = (uint64_t)support_slow(30000) * 1000u;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    pen_result_free(result);
}

static struct process *load_start(const char *endpoint, const char *duration)
{
    return process_start((const char *const[]){"penstock", "load", "--broker", endpoint, "--model", "digits",
                                               "--no-cache", "--concurrency", "16", "--deadline", "60s", "--duration",
                                               duration, "--json", NULL},
                         NULL);
}

/* It has ended well: each of its jobs had a result. */
static void load_is_good(struct process *load)
{
    cr_expect_eq(process_wait(load, 60000), 0, "%s%s", process_out(load), process_err(load));
    cr_expect(strstr(process_out(load), "\"errors\":0") || strstr(process_out(load), "\"errors\":\t0") ||
                  strstr(process_out(load), "\"errors\": 0"),
              "%s", process_out(load));
    process_free(load);
}

Test(time, wall_clock_that_jumps_changes_no_deadline_no_lease_and_no_lifetime)
{
    static const int64_t jumps[] = {DAY_S, -DAY_S, 10 * YEAR_S, 0, -2 * YEAR_S, 3600, 20 * YEAR_S};
    char id[PEN_JOB_ID_BYTES];
    clock_open();
    pool_start(&pool, (const char *const[]){"--http", "none", "--journal", journal, "--heartbeat", "1s", "--liveness",
                                            "60s", NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    detach(client, id);
    struct ledger *ledger = ledger_new(client, &digits, JOBS);
    struct process *load = load_start(pool.clients, "4s");
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        *jump = jumps[i];
        ledger_submit(ledger, (i + 1) * (JOBS / 8), 32);
        support_sleep_ms(300);
    }
    ledger_settle(ledger, 30000);
    ledger_check(ledger);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_expect_eq(sums.answered, sums.submitted);
    fetch(client, id); /* its ten minutes are not over */
    detach(client, id);
    *jump = 0;
    fetch(client, id);
    load_is_good(load);
    ledger_free(ledger);
    pen_client_free(client);
    cr_expect_null(strstr(process_err(pool.broker), "evt=worker_lost"), "%s", process_err(pool.broker));
    cr_expect_null(strstr(process_err(pool.workers[0]), "evt=broker_silent"), "%s", process_err(pool.workers[0]));
    *jump = 20 * YEAR_S;
    process_signal(pool.workers[0], SIGUSR1); /* it logs a line */
    cr_expect(process_wait_text(pool.workers[0], "ts=204", 20000), "the clock did jump: %s",
              process_err(pool.workers[0]));
}

Test(time, client_that_stands_still_and_goes_on_has_each_job_answered)
{
    pool_start(&pool, (const char *const[]){"--http", "none", "--heartbeat", "200ms", "--liveness", "600ms", NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    struct process *load = load_start(pool.clients, "4s");
    for (int i = 0; i < 2; i++) {
        support_sleep_ms(400);
        process_signal(load, SIGSTOP);
        support_sleep_ms(2000); /* beyond liveness and grace: its session is over */
        process_signal(load, SIGCONT);
    }
    load_is_good(load);
}

Test(time, network_that_is_cut_and_heals_loses_no_answer_and_doubles_none)
{
    char endpoint[64];
    struct relay *relay = relay_new();
    cr_assert_not_null(relay);
    pool_start(&pool, (const char *const[]){"--http", "none", "--heartbeat", "200ms", "--liveness", "600ms", NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    cr_assert_eq(relay_add(relay, atoi(strrchr(pool.clients, ':') + 1)), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", relay_port(relay, 0));
    pen_client *client = digits_client(endpoint);
    struct ledger *ledger = ledger_new(client, &digits, JOBS);
    static const struct {
        unsigned directions, ms;
    } cuts[] = {{3, 300}, {1, 1500}, {2, 1500}, {3, 2500}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        relay_cut(relay, 0, cuts[i].directions, support_now_us() + cuts[i].ms * 1000u);
        ledger_submit(ledger, (i + 1) * (JOBS / 4), 64);
    }
    ledger_settle(ledger, 30000);
    ledger_check(ledger);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_expect(sums.submitted == JOBS && sums.answered == JOBS && sums.twice == 0, "%zu answered, %zu twice",
              sums.answered, sums.twice);
    ledger_free(ledger);
    pen_client_free(client);
    relay_free(relay);
}
