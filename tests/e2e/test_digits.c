/* Real images through a real pool: answers, accuracy, batches, the command line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "folder.h"
#include "ledger.h"
#include "pool.h"

#define SAMPLES PENSTOCK_SOURCE "/deploy/models/digits/samples/"

static void expect_accuracy(const char *backend)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, backend, NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    size_t correct = 0;
    for (size_t i = 0; i < digits.count; i++) {
        pen_result *result = digits_run(client, &digits, i, 0);
        correct += digits_class(result) == digits.labels[i];
        cr_assert_str_eq(pen_result_info(result)->backend, backend);
        cr_assert_eq(pen_result_info(result)->precision, PEN_PRECISION_F32);
        pen_result_free(result);
    }
    cr_assert_eq(correct, digits.correct, "%zu of %zu right, train.py printed %zu", correct, digits.count,
                 digits.correct);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

Test(digits, whole_test_split_is_as_accurate_on_xnnpack_as_the_trainer_printed)
{
    expect_accuracy("xnnpack");
}

Test(digits, whole_test_split_is_as_accurate_on_reference_as_the_trainer_printed)
{
    expect_accuracy("reference");
}

Test(digits, batched_jobs_get_the_answers_they_get_alone)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    struct ledger *ledger = ledger_new(client, &digits, 5000);
    ledger_submit(ledger, 5000, 256);
    ledger_settle(ledger, 10000);
    ledger_check(ledger);
    ledger_free(ledger);
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

Test(digits, two_workers_of_different_backends_share_the_work_when_named)
{
    struct pool pool;
    struct digits digits;
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pool_add_worker(&pool, "reference", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    const char *backends[] = {"xnnpack", "reference"};
    for (size_t i = 0; i < 20; i++) {
        struct pen_tensor tensor = digits_tensor(&digits, i);
        struct pen_job_options options;
        struct pen_error error = {0};
        pen_result *result;
        digits_job(&tensor, &options);
        options.backend = backends[i % 2];
        cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
        cr_assert_str_eq(pen_result_info(result)->backend, backends[i % 2]);
        pen_result_free(result);
    }
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

Test(digits, command_line_reads_the_sample_pictures_right)
{
    struct pool pool;
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    char *list = file_read(SAMPLES "labels.txt", NULL), *next = list;
    for (char *line; (line = strsep(&next, "\n")) && *line;) {
        char *tab = strchr(line, '\t'), path[512], *out, *err;
        cr_assert_not_null(tab, "labels.txt holds `file<TAB>label` lines");
        *tab = '\0';
        snprintf(path, sizeof path, SAMPLES "%s", line);
        int status = pool_cli(&pool, "submit", (const char *const[]){"digits", path, NULL}, &out, &err);
        cr_assert_eq(status, 0, "%s", err);
        char *first = strpbrk(out, "0123456789"), *label = strstr(out, tab + 1);
        cr_assert(first && label, "%s is a %s, the answer is:\n%s", line, tab + 1, out);
        free(out);
        free(err);
    }
    free(list);
    pool_stop(&pool);
}
