/* Ensembles on several workers that have one model each. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ensembles.h"
#include "onnx_file.h"

/* FOLDER/name is one worker's folder of models: a link to what is in the root. */
static char *worker_folder(const char *name, const char *const models[])
{
    static char path[512];
    char from[512], to[600];
    snprintf(path, sizeof path, "%s-%s", root, name);
    folder_make(path);
    for (size_t i = 0; models[i]; i++) {
        snprintf(from, sizeof from, "%s/%s", root, models[i]);
        snprintf(to, sizeof to, "%s/%s", path, models[i]);
        cr_assert(symlink(from, to) == 0);
    }
    return path;
}

static void add_worker(const char *name, const char *const models[], const char *const extra[])
{
    pool_add_worker(&pool, "xnnpack", worker_folder(name, models), extra);
}

static void folders_free(const char *const names[])
{
    char path[512];
    for (size_t i = 0; names[i]; i++) {
        snprintf(path, sizeof path, "%s-%s", root, names[i]);
        folder_free(path);
    }
}

Test(ensembles, steps_run_on_the_workers_that_have_them)
{
    need_shared();
    struct golden golden = golden_load();
    put_mnist("");
    put("invert", "Neg", picture_dims, 4);
    put("revert", "Neg", picture_dims, 4);
    put_config("reader", reader);
    add_worker("one", (const char *const[]){"reader", "invert", NULL}, NULL);
    cr_expect(strstr(process_err(pool.workers[0]), "evt=ensemble_waits model=reader"), "%s",
              process_err(pool.workers[0]));
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor picture = picture_of(&golden);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *early = NULL;
    pen_result *first = NULL;
    pen_job_options_init(&options, sizeof options);
    options.model = "reader";
    options.inputs = &picture;
    options.inputs_count = 1;
    cr_assert(pen_client_submit(client, &options, &early, &error) == PEN_OK); /* waits for models */
    add_worker("two", (const char *const[]){"revert", "mnist", NULL}, NULL);
    cr_assert(pen_job_wait(early, (int64_t)support_slow(30000) * 1000, &first, &error) == PEN_OK);
    expect_golden(first, &golden);
    pen_result *explained = run(client, "reader", &picture, PEN_JOB_EXPLAIN | PEN_JOB_NO_CACHE);
    expect_golden(explained, &golden);
    cr_expect_str_eq(pen_result_info(explained)->batch_reason, "steps");
    const struct pen_explanation *why = pen_result_explanation(explained);
    cr_assert(why && why->steps_count == 3, "%s", why ? why->why_worker : "none");
    cr_expect(strstr(why->why_worker, "its steps ran as jobs"), "%s", why->why_worker);
    for (size_t i = 0; i < 3; i++) {
        char name[128];
        cr_expect_str_eq(why->steps[i].state, "done");
        cr_assert(process_log_value(pool.workers[strcmp(why->steps[i].model, "invert") != 0], "evt=ready", "worker",
                                    name, sizeof name));
        cr_expect_str_eq(why->steps[i].worker, name);
    }
    pen_result *kept = run(client, "reader", &picture, 0), *cached = run(client, "reader", &picture, 0);
    expect_golden(cached, &golden);
    cr_expect(pen_result_info(cached)->cached, "the whole is cached");
    cr_expect(!pen_result_info(kept)->cached);
    pen_result_free(kept);
    pen_result_free(cached);
    pen_result_free(explained);
    pen_result_free(first);
    pen_job_free(early);
    pen_client_free(client);
    golden_free(&golden);
    folders_free((const char *const[]){"one", "two", NULL});
}

Test(ensembles, a_failing_step_elsewhere_names_itself)
{
    put_narrow();
    add_worker("one", (const char *const[]){"narrow", "wide", NULL}, NULL);
    add_worker("two", (const char *const[]){"four", NULL}, NULL);
    pen_client *client = digits_client(pool.clients);
    expect_step_named(client);
    pen_client_free(client);
    folders_free((const char *const[]){"one", "two", NULL});
}

Test(ensembles, a_step_that_nobody_serves_is_named_when_the_wait_is_over)
{
    static const float values[4] = {1, 2, 3, 4};
    put_narrow();
    pool_stop(&pool);
    pool_start(&pool, (const char *const[]){"--worker-wait", "200ms", NULL});
    add_worker("one", (const char *const[]){"narrow", "wide", NULL}, NULL);
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor row = row_of(values, 4);
    pen_result *result = run(client, "narrow", &row, 0);
    cr_expect(pen_result_status(result) == PEN_ERR_UNAVAILABLE);
    cr_expect(strstr(pen_result_error(result), "step 2 needs model 'four', which no worker offers"), "%s",
              pen_result_error(result));
    pen_result_free(result);
    pen_client_free(client);
    folders_free((const char *const[]){"one", NULL});
}

/* `layers` of work on [1, 16, 64, 64] as the second of two steps. */
static const char heavy[] =
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,16,64,64]}],"
    "\"output\":[{\"name\":\"b\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,16,64,64]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"light\",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"t\"}},"
    "{\"model_name\":\"slow\",\"input_map\":{\"x\":\"t\"},\"output_map\":{\"y\":\"b\"}}]}}";

static float field[16 * 64 * 64];

static pen_job *submit_heavy(pen_client *client, uint64_t deadline_us)
{
    static const struct pen_tensor input = {
        .name = "a", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 16, 64, 64}, .data = field, .bytes = sizeof field};
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    pen_job_options_init(&options, sizeof options);
    options.model = "heavy";
    options.inputs = &input;
    options.inputs_count = 1;
    options.deadline_us = deadline_us;
    options.flags = PEN_JOB_NO_CACHE;
    cr_assert(pen_client_submit(client, &options, &job, &error) == PEN_OK, "%s", error.text);
    return job;
}

static void put_heavy(void)
{
    static const int64_t dims[4] = {1, 16, 64, 64};
    put("light", "Neg", dims, 4);
    folder_make(in_root("slow/1"));
    onnx_write_slow(in_root("slow/1/model.onnx"), 60);
    put_config("slow", "{\"max_batch_size\":1}");
    put_config("heavy", heavy);
    add_worker("one", (const char *const[]){"heavy", "light", NULL}, NULL);
    add_worker("two", (const char *const[]){"slow", NULL}, (const char *const[]){"--log-level", "debug", NULL});
    add_worker("three", (const char *const[]){"slow", NULL}, (const char *const[]){"--log-level", "debug", NULL});
}

static const char *const heavy_folders[] = {"one", "two", "three", NULL};

/* Which of the workers 1 and 2 is at work, by the broker's word; 0 = none. */
static size_t busy_worker(const char *job)
{
    char *out = NULL, *err = NULL;
    size_t found = 0;
    uint64_t until = support_now_us() + (uint64_t)support_slow(10000) * 1000u;
    while (found == 0 && support_now_us() < until) {
        pool_cli(&pool, "explain", (const char *const[]){job, NULL}, &out, &err);
        for (size_t i = 1; i <= 2; i++) {
            char name[128], text[160];
            cr_assert(process_log_value(pool.workers[i], "evt=ready", "worker", name, sizeof name));
            snprintf(text, sizeof text, "step 2 (slow) runs on %s", name);
            found = strstr(out, text) ? i : found;
        }
        free(out);
        free(err);
    }
    return found;
}

Test(ensembles, a_worker_that_is_killed_in_the_middle_of_a_step_loses_nothing)
{
    char id[PEN_JOB_ID_BYTES];
    struct pen_error error = {0};
    pen_result *result = NULL;
    put_heavy();
    pen_client *client = digits_client(pool.clients);
    pen_job *job = submit_heavy(client, 0);
    size_t busy = busy_worker(pen_job_id(job, id));
    if (busy > 0) /* else the step was over before anybody could look */
        process_signal(pool.workers[busy], SIGKILL);
    cr_assert(pen_job_wait(job, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK, "%s", error.text);
    cr_expect(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
    if (busy > 0)
        cr_expect(process_wait_text(pool.broker, "evt=worker_lost", 10000));
    pen_result_free(result);
    pen_job_free(job);
    pen_client_free(client);
    folders_free(heavy_folders);
}

Test(ensembles, deadline_and_cancel_cover_all_steps)
{
    struct pen_error error = {0};
    pen_result *result = NULL;
    put_heavy();
    pen_client *client = digits_client(pool.clients);
    pen_job *late = submit_heavy(client, 2000), *unwanted = submit_heavy(client, 0), *good = submit_heavy(client, 0);
    pen_job_cancel(unwanted);
    cr_assert(pen_job_wait(late, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK);
    cr_expect(pen_result_status(result) == PEN_ERR_DEADLINE, "%s", pen_result_error(result));
    pen_result_free(result);
    cr_assert(pen_job_wait(unwanted, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK);
    cr_expect(pen_result_status(result) == PEN_ERR_CANCELLED, "%s", pen_result_error(result));
    pen_result_free(result);
    cr_assert(pen_job_wait(good, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK);
    cr_expect(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
    pen_result_free(result);
    pen_job_free(late);
    pen_job_free(unwanted);
    pen_job_free(good);
    pen_client_free(client);
    folders_free(heavy_folders);
}
