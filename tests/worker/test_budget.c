/* Three models and a memory budget for two, in a pool with a real broker: each is loaded when a job comes, none loses a job. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "ledger.h"
#include "onnx_file.h"
#include "pool.h"

static const char *const names[] = {"digits", "second", "third"};
static struct pool pool;
static struct digits digits;
static char root[FOLDER_PATH_BYTES];
static pen_client *client;

static void put_models(void)
{
    folder_new(root);
    for (size_t i = 0; i < 3; i++) {
        char from[2][FOLDER_PATH_BYTES] = {POOL_DIGITS_MODELS "/digits/1/model.onnx",
                                           POOL_DIGITS_MODELS "/digits/config.json"};
        size_t bytes = 0;
        char *config = file_read(from[1], &bytes);
        model_folder_make(root, names[i], from[0], config);
        free(config);
    }
}

/* What one of the models takes, as a worker without a budget tells it. */
static uint64_t model_bytes(const char *log)
{
    const char *line = strstr(log, "evt=model_ready");
    const char *bytes = line ? strstr(line, " bytes=") : NULL;
    cr_assert_not_null(bytes, "%s", log);
    return strtoull(bytes + 7, NULL, 10);
}

static void open_pool(const char *const broker[])
{
    char budget[32];
    digits_load(&digits);
    put_models();
    pool_start(&pool, broker);
    const struct process *plain = pool.workers[pool_add_worker(&pool, "reference", NULL, NULL)];
    snprintf(budget, sizeof budget, "%" PRIu64, model_bytes(process_err((struct process *)(uintptr_t)plain)) * 5 / 2);
    pool_stop(&pool);
    pool_start(&pool, broker);
    pool_add_worker(&pool, "reference", root, (const char *const[]){"--memory-budget", budget, NULL});
    client = digits_client(pool.clients);
}

static void close_pool(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
    folder_free(root);
}

/* One image through one of the models; its class, or -1 and why in *error. */
static int class_by(const char *model, size_t image, struct pen_error *error)
{
    struct pen_job_options job;
    pen_result *result = NULL;
    struct pen_tensor tensor = digits_tensor(&digits, image);
    digits_job(&tensor, &job);
    job.model = model;
    job.flags |= PEN_JOB_NO_CACHE;
    if (pen_client_run(client, &job, &result, error) != PEN_OK)
        return -1;
    int class = digits_class(result);
    pen_result_free(result);
    return class;
}

static size_t count_of(const char *log, const char *text)
{
    size_t count = 0;
    for (const char *at = log; (at = strstr(at, text)); at++)
        count++;
    return count;
}

Test(budget, a_third_model_is_loaded_for_its_job_and_the_least_recently_used_goes, .timeout = 120)
{
    struct pen_error error = {0};
    open_pool(NULL);
    const char *log = process_err(pool.workers[0]);
    cr_assert(count_of(log, "evt=model_cold") == 1, "%s", log);
    cr_assert_not_null(strstr(log, "evt=model_cold model=third"), "%s", log);
    cr_expect_eq(class_by("digits", 0, &error), digits.labels[0], "%s", error.text);
    cr_expect_eq(class_by("second", 1, &error), digits.labels[1], "%s", error.text);
    cr_expect_eq(count_of(process_err(pool.workers[0]), "evt=model_evicted"), 0, "both are in memory");
    cr_expect_eq(class_by("third", 2, &error), digits.labels[2], "%s", error.text);
    log = process_err(pool.workers[0]);
    cr_expect_not_null(strstr(log, "evt=model_evicted model=digits version=1 models=1"), "%s", log);
    cr_expect_eq(class_by("second", 3, &error), digits.labels[3], "%s", error.text);
    cr_expect_eq(count_of(process_err(pool.workers[0]), "evt=model_evicted"), 1, "second was still there");
    cr_expect_eq(class_by("digits", 4, &error), digits.labels[4], "%s", error.text);
    cr_expect_eq(count_of(process_err(pool.workers[0]), "evt=model_evicted"), 2);
    close_pool();
}

/* A flood on one model while jobs for the two others come and go: whatever leaves, no job is lost, refused or wrong. */
Test(budget, models_make_room_for_each_other_under_load_and_no_job_is_lost, .timeout = 120)
{
    struct pen_error error = {0};
    open_pool(NULL);
    pen_client *flood = digits_client(pool.clients);
    struct ledger *ledger = ledger_new(flood, &digits, 100000);
    size_t jobs = 0;
    for (size_t round = 0; round < 12; round++) {
        ledger_submit(ledger, jobs += 300, 48);
        const char *name = names[1 + round % 2];
        cr_expect_eq(class_by(name, round, &error), digits.labels[round], "%s: %s", name, error.text);
    }
    while (count_of(process_err(pool.workers[0]), "evt=model_evicted model=digits") == 0 && jobs < 90000) {
        class_by(names[1], 0, &error);
        class_by(names[2], 0, &error);
        ledger_submit(ledger, jobs += 48, 48);
    }
    ledger_settle(ledger, 30000);
    ledger_check(ledger);
    struct ledger_sums sums = ledger_sums(ledger);
    cr_expect(sums.refused == 0 && sums.twice == 0 && sums.answered == sums.submitted, "%s", sums.last_sentence);
    const char *log = process_err(pool.workers[0]);
    cr_expect(count_of(log, "evt=model_evicted") >= 2, "%s", log);
    /* A line that counts those that were left out names no model. */
    cr_expect_eq(count_of(log, "evt=model_evicted model="), count_of(log, " models=1 "),
                 "never more than two in memory");
    ledger_free(ledger);
    pen_client_free(flood);
    close_pool();
}

Test(budget, a_cold_model_whose_file_has_changed_is_withdrawn_with_a_sentence, .timeout = 120)
{
    struct pen_error error = {0};
    char path[FOLDER_PATH_BYTES + 64];
    open_pool((const char *const[]){"--worker-wait", "200ms", NULL});
    snprintf(path, sizeof path, "%s/third/1/model.onnx", root);
    file_write(path, "no model", 8);
    cr_expect_eq(class_by("third", 0, &error), -1);
    cr_expect(error.status == PEN_ERR_UNAVAILABLE, "%s", error.text);
    cr_expect(process_wait_text(pool.workers[0], "evt=model_failed model=third", 10000));
    cr_expect_eq(class_by("second", 1, &error), digits.labels[1], "%s", error.text);
    close_pool();
}

Test(budget, a_model_beyond_the_whole_budget_is_refused_at_run_time_with_a_sentence, .timeout = 120)
{
    static const int64_t dims[2] = {1, 4};
    const struct onnx_node node = {.op = "Neg", .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = 1, .rank = 2, .dims = {dims[0], dims[1]}},
                            out_value = {.name = "y", .dtype = 1, .rank = 2, .dims = {dims[0], dims[1]}};
    char path[FOLDER_PATH_BYTES + 64], *out = NULL, *err = NULL;
    folder_new(root);
    snprintf(path, sizeof path, "%s/tiny/1", root);
    folder_make(path);
    snprintf(path, sizeof path, "%s/tiny/1/model.onnx", root);
    onnx_write(path, &(struct onnx_model){.nodes = &node,
                                          .nodes_count = 1,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = &out_value,
                                          .outputs_count = 1});
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "reference", root,
                    (const char *const[]){"--memory-budget", "32KiB", NULL}); /* the tiny one fits */
    model_folder_make(root, "large", POOL_DIGITS_MODELS "/digits/1/model.onnx", NULL);
    cr_expect(pool_cli(&pool, "model", (const char *const[]){"load", "large", NULL}, &out, &err) != 0);
    cr_expect(strstr(err, "more than --memory-budget grants to all") || strstr(out, "more than --memory-budget"),
              "%s%s", out, err);
    free(out);
    free(err);
    cr_assert(pool_cli(&pool, "models", (const char *const[]){"large", NULL}, &out, &err) == 0);
    cr_expect(strstr(out, "large:1  NOT SERVED by ") && strstr(out, "more than --memory-budget"),
              "who asks later is told, too: %s%s", out, err);
    free(out);
    free(err);
    pool_stop(&pool);
    folder_free(root);
}
