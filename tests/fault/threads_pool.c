/*
 * A plain program for the thread sanitizer, which Criterion does not go with: real programs under load from many threads, with a worker killed
 * and one drained. Fails when a program of ours reports a race or ends badly. Ends with `N passed, N failed, N skipped`.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ledger.h"
#include "pool.h"

#define THREADS         3
#define JOBS_PER_THREAD 400
#define LEDGER_JOBS     1500

static struct digits digits;
static char endpoint[POOL_ENDPOINT_BYTES];
static pen_client *shared_client; /* one session used by all threads */
static int failures;

static void check(int good, const char *what)
{
    printf("%s  %s\n", good ? "ok  " : "FAIL", what);
    failures += !good;
}

/* Blocking jobs, every third one cancelled by its future, alternating between a session of its own and the shared one. */
static void *submit_many(void *arg)
{
    pen_client *own = digits_client(endpoint);
    size_t *answered = arg;
    for (size_t i = 0; i < JOBS_PER_THREAD; i++) {
        struct pen_tensor tensor = digits_tensor(&digits, i % digits.count);
        struct pen_job_options options;
        struct pen_error error = {0};
        pen_job *job = NULL;
        pen_result *result = NULL;
        digits_job(&tensor, &options);
        if (pen_client_submit(i % 2 ? own : shared_client, &options, &job, &error) != PEN_OK) {
            continue;
        }
        if (i % 3 == 0) {
            pen_job_cancel(job);
        }
        if (pen_job_wait(job, (int64_t)support_slow(20000) * 1000, &result, &error) == PEN_OK) {
            (*answered)++;
            pen_result_free(result);
        }
        pen_job_free(job);
    }
    pen_client_free(own);
    return NULL;
}

static int clean(struct process *process)
{
    const char *log = process_err(process);
    const char *report = strstr(log, "WARNING: ThreadSanitizer");
    if (report) {
        printf("%s\n", report);
    }
    return !report;
}

int main(void)
{
    struct pool pool;
    pthread_t threads[THREADS];
    size_t answered[THREADS] = {0}, all = 0;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, (const char *const[]){"--slots", "2", NULL});
    pool_add_worker(&pool, "reference", NULL, NULL);
    pool_add_worker(
        &pool, "xnnpack", NULL,
        NULL); /* one thread each: the sanitizer does not see how pthreadpool's threads wait for each other */
    snprintf(endpoint, sizeof endpoint, "%s", pool.clients);
    shared_client = digits_client(endpoint);
    struct ledger *ledger = ledger_new(shared_client, &digits, LEDGER_JOBS);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, submit_many, &answered[i]) != 0) {
            support_fail("no thread");
        }
    }
    ledger_submit(ledger, LEDGER_JOBS / 3, 32);
    process_signal(pool.workers[1], SIGTERM);
    ledger_submit(ledger, LEDGER_JOBS * 2 / 3, 32);
    process_signal(pool.workers[2], SIGKILL);
    ledger_submit(ledger, LEDGER_JOBS, 32);
    ledger_settle(ledger, 20000);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += answered[i];
    }
    struct ledger_sums sums = ledger_sums(ledger);
    check(sums.answered == LEDGER_JOBS && sums.wrong + sums.twice + sums.refused == 0,
          "the ledger's jobs are answered once and rightly");
    check(all == (size_t)THREADS * JOBS_PER_THREAD, "every job of every thread ended");
    check(process_wait(pool.workers[1], 10000) == 0, "the drained worker exits with 0");
    ledger_free(ledger);
    pen_client_free(shared_client);
    int end = process_stop(pool.workers[0], 10000);
    check(end == 0, "the worker exits with 0");
    check(process_stop(pool.broker, 10000) == 0, "the broker exits with 0");
    check(clean(pool.workers[0]) && clean(pool.workers[1]) && clean(pool.broker), "no program reports a race");
    pool_stop(&pool);
    digits_free(&digits);
    printf("%d passed, %d failed, 0 skipped\n", 6 - failures, failures);
    return failures > 0;
}
