/* Detached jobs of real programs: broker and worker are killed with SIGKILL, and every accepted job has its result in the end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "digits.h"
#include "folder.h"
#include "pool.h"

#define JOBS 1000

static char folder[FOLDER_PATH_BYTES], journal[FOLDER_PATH_BYTES + 16];

static void submit_detached(pen_client *client, const struct digits *digits, size_t index, char id[PEN_JOB_ID_BYTES])
{
    struct pen_tensor tensor = digits_tensor(digits, index);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    pen_result *result = NULL;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_DETACHED;
    cr_assert_eq(pen_client_submit(client, &options, &job, &error), PEN_OK, "%s", error.text);
    pen_job_id(job, id);
    cr_assert_eq(pen_job_wait(job, (int64_t)support_slow(20000) * 1000, &result, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    cr_assert_eq(pen_result_outputs(result), 0u);
    pen_result_free(result);
    pen_job_free(job);
}

static void fetch(pen_client *client, const char *id)
{
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    pen_job_options_init(&options, sizeof options);
    options.detached = id;
    options.deadline_us = (uint64_t)support_slow(30000) * 1000u;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s: %s", id, error.text);
    cr_assert_eq(pen_result_outputs(result), 1u);
    pen_result_free(result);
}

Test(detached, jobs_survive_kill_9_of_broker_and_worker, .timeout = 200)
{
    struct pool pool;
    struct digits digits;
    char ids[JOBS][PEN_JOB_ID_BYTES];
    folder_new(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    const char *const options[] = {"--journal", journal, "--http", "none", NULL};
    digits_load(&digits);
    pool_start(&pool, options);
    pen_client *client = digits_client(pool.clients);
    for (size_t i = 0; i < JOBS; i++) {
        if (i == JOBS / 4) /* half of them have run or run now, the others wait */
            pool_add_worker(&pool, "xnnpack", NULL, NULL);
        submit_detached(client, &digits, i, ids[i]);
        if (i == JOBS / 2) {
            process_signal(pool.broker, SIGKILL);
            process_wait(pool.broker, 5000);
            pool_restart_broker(&pool, options);
        }
        if (i == JOBS * 3 / 4)
            process_signal(pool.workers[0], SIGKILL);
    }
    pen_client_free(client);
    process_signal(pool.broker, SIGKILL);
    process_wait(pool.broker, 5000);
    pool_restart_broker(&pool, options);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
    for (size_t i = 0; i < JOBS; i++)
        fetch(client, ids[i]);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
    folder_free(folder);
}

/* The job's id in what `penstock submit --detach` printed; cuts `out` behind it. */
static const char *id_in(char *out)
{
    char *id = strstr(out, "penstock fetch ");
    cr_assert_not_null(id, "%s", out);
    id += strlen("penstock fetch ");
    id[strcspn(id, "\n")] = '\0';
    return id;
}

Test(detached, command_line_detaches_and_fetches, .timeout = 120)
{
    struct pool pool;
    char *out = NULL, *err = NULL;
    folder_new(folder);
    char other[sizeof journal], into[sizeof journal], written[sizeof journal + 96];
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(into, sizeof into, "%s/into", folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    pool_start(&pool, (const char *const[]){"--journal", journal, "--http", "none", NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    int code = pool_cli(
        &pool, "submit",
        (const char *const[]){"digits", PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png", "--detach", NULL},
        &out, &err);
    cr_assert_eq(code, 0, "%s", err);
    const char *id = id_in(out);
    char *fetched = NULL;
    free(err);
    cr_assert_eq(pool_cli(&pool, "fetch", (const char *const[]){id, "--state", "--json", NULL}, &fetched, &err), 0,
                 "%s", err);
    cr_assert_not_null(strstr(fetched, "\"state\":\""), "%s", fetched);
    free(fetched);
    free(err);
    code = pool_cli(&pool, "fetch", (const char *const[]){id, "--json", "--output-dir", into, NULL}, &fetched, &err);
    cr_assert_eq(code, 0, "%s", err);
    cr_assert_not_null(strstr(fetched, "\"status\":\"OK\""), "%s", fetched);
    snprintf(written, sizeof written, "%s/%s.probabilities.npy", into, id);
    cr_assert_eq(access(written, R_OK), 0, "the folder is made");
    free(fetched);
    free(err);
    code = pool_cli(&pool, "fetch", (const char *const[]){"0123456789abcdef-1", "--wait", "1s", NULL}, &fetched, &err);
    cr_assert_eq(code, 1);
    cr_assert_not_null(strstr(err, "NOT_FOUND"), "%s", err);
    free(fetched);
    free(err);
    const char *const keepers[][3] = {{"--journal", other, NULL}, {NULL}}, *const sentences[] = {
                                                                               "another broker took it",
                                                                               "takes no detached jobs"};
    for (int i = 0; i < 2; i++) { /* a broker that shares nothing with the first says so */
        struct pool second;
        pool_start(&second, keepers[i]);
        cr_assert_eq(pool_cli(&second, "fetch", (const char *const[]){id, NULL}, &fetched, &err), 1);
        cr_assert_not_null(strstr(err, sentences[i]), "%s", err);
        pool_stop(&second);
        free(fetched);
        free(err);
    }
    free(out);
    pool_stop(&pool);
    folder_free(folder);
}

static int cancel_with(struct pool *pool, const char *id, const char *secret, char **ret_err)
{
    char *out = NULL;
    int code = pool_cli(pool, "cancel", (const char *const[]){id, "--secret", secret, NULL}, &out, ret_err);
    free(out);
    return code;
}

/* The worker stands still, so that the job waits. */
Test(detached, command_line_cancels_with_the_secret_and_no_other, .timeout = 120)
{
    struct pool pool;
    char *out = NULL, *err = NULL;
    folder_new(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    pool_start(&pool, (const char *const[]){"--journal", journal, "--http", "none", "--heartbeat", "1s", "--liveness",
                                            "60s", NULL});
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    process_signal(pool.workers[0], SIGSTOP);
    int code = pool_cli(&pool, "submit",
                        (const char *const[]){"digits", PENSTOCK_SOURCE "/deploy/models/digits/samples/00_zero.png",
                                              "--detach", "--secret", "mine", NULL},
                        &out, &err);
    cr_assert_eq(code, 0, "%s", err);
    free(err);
    const char *id = id_in(out);
    cr_assert_eq(cancel_with(&pool, id, "theirs", &err), 1);
    cr_assert_not_null(strstr(err, "DENIED"), "%s", err);
    free(err);
    cr_assert_eq(cancel_with(&pool, id, "mine", &err), 0, "%s", err);
    free(err);
    free(out);
    process_signal(pool.workers[0], SIGCONT);
    pool_stop(&pool);
    folder_free(folder);
}
