/* Ensembles: a pipeline of models is one job, on one worker that has them all and on several that have one each. */
#include <criterion/criterion.h>
#include <math.h>
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

#define SHARED_MNIST PENSTOCK_SOURCE "/../shared/models/onnx/mnist_8"
#define PIXELS       (28 * 28)

static char root[FOLDER_PATH_BYTES];
static struct pool pool;

static const char *in_root(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* "y" = op("x") over float32 of these dims, as FOLDER/NAME/1. */
static void put(const char *name, const char *op, const int64_t *dims, size_t rank)
{
    char file[128];
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    struct onnx_value in = {.name = "x", .dtype = 1, .rank = rank}, out = {.name = "y", .dtype = 1, .rank = rank};
    for (size_t i = 0; i < rank; i++)
        in.dims[i] = out.dims[i] = dims[i];
    snprintf(file, sizeof file, "%s/1", name);
    folder_make(in_root(file));
    snprintf(file, sizeof file, "%s/1/model.onnx", name);
    onnx_write(
        in_root(file),
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

/* FOLDER/NAME/config.json. */
static void put_config(const char *name, const char *text)
{
    char file[128];
    folder_make(in_root(name));
    snprintf(file, sizeof file, "%s/config.json", name);
    file_write(in_root(file), text, strlen(text));
}

static void setup(void)
{
    folder_new(root);
    pool_start(&pool, NULL);
}

static void teardown(void)
{
    pool_stop(&pool);
    folder_free(root);
}

TestSuite(ensembles, .init = setup, .fini = teardown, .timeout = 120);

/* Two small models and the real one: what is turned upside down twice is read as if nothing had been. */
static const char reader[] =
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"picture\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,1,28,28]}],"
    "\"output\":[{\"name\":\"scores\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,10]},"
    "{\"name\":\"negative\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,1,28,28]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"mnist\",\"input_map\":{\"Input3\":\"again\"},\"output_map\":{\"Plus214_Output_0\":\"scores\"}},"
    "{\"model_name\":\"invert\",\"model_version\":-1,\"input_map\":{\"x\":\"picture\"},"
    "\"output_map\":{\"y\":\"negative\"}},"
    "{\"model_name\":\"revert\",\"model_version\":1,\"input_map\":{\"x\":\"negative\"},"
    "\"output_map\":{\"y\":\"again\"}}]}}";

static const int64_t picture_dims[4] = {1, 1, 28, 28};

static void need_shared(void)
{
    struct stat info;
    if (stat(SHARED_MNIST, &info) != 0) {
        cr_assert(stat(PENSTOCK_SOURCE "/../shared/models", &info) != 0, "../shared has no mnist_8");
        cr_skip("%s is not here", SHARED_MNIST);
    }
}

static void put_mnist(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s%smnist/1", folder, *folder ? "/" : "");
    folder_make(in_root(path));
    snprintf(path, sizeof path, "%s%smnist/1/model.onnx", folder, *folder ? "/" : "");
    file_copy(SHARED_MNIST "/model.onnx", in_root(path));
}

/* The case's input and what a reference runtime makes of it. */
struct golden {
    float *input, *output;
};

static struct golden golden_load(void)
{
    size_t in = 0, out = 0;
    struct golden golden = {.input = file_read(SHARED_MNIST "/golden/official.in0.bin", &in),
                            .output = file_read(SHARED_MNIST "/golden/official.out0.bin", &out)};
    cr_assert(in == PIXELS * sizeof(float) && out == 10 * sizeof(float), "%zu and %zu bytes", in, out);
    return golden;
}

static void golden_free(struct golden *golden)
{
    free(golden->input);
    free(golden->output);
}

static pen_result *run(pen_client *client, const char *model, const struct pen_tensor *input, unsigned flags)
{
    pen_job *job = NULL;
    pen_result *result = NULL;
    struct pen_error error = {0};
    struct pen_job_options options;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = input;
    options.inputs_count = 1;
    options.flags = flags;
    options.deadline_us = 20000000;
    cr_assert(pen_client_submit(client, &options, &job, &error) == PEN_OK, "%s", error.text);
    cr_assert(pen_job_wait(job, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK, "%s", error.text);
    pen_job_free(job);
    return result;
}

static struct pen_tensor picture_of(const struct golden *golden)
{
    return (struct pen_tensor){.name = "picture",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = golden->input,
                               .bytes = PIXELS * sizeof(float)};
}

/* Right to a hair, both outputs. */
static void expect_golden(const pen_result *result, const struct golden *golden)
{
    float scores[10], negative[PIXELS];
    cr_assert(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
    const struct pen_tensor *t = pen_result_find(result, "scores"), *n = pen_result_find(result, "negative");
    cr_assert(pen_result_outputs(result) == 2 && t && n && t->bytes == sizeof scores && n->bytes == sizeof negative);
    memcpy(scores, t->data, sizeof scores);
    memcpy(negative, n->data, sizeof negative);
    for (int i = 0; i < 10; i++)
        cr_expect(fabsf(scores[i] - golden->output[i]) <= 1e-3f * fabsf(golden->output[i]) + 1e-3f, "%d: %g, not %g", i,
                  (double)scores[i], (double)golden->output[i]);
    for (int i = 0; i < PIXELS; i++)
        cr_assert(negative[i] == -golden->input[i]);
    cr_expect_str_eq(pen_result_info(result)->model, "reader");
}

Test(ensembles, one_worker_runs_all_steps_of_a_job_by_itself)
{
    need_shared();
    struct golden golden = golden_load();
    put_mnist("");
    put("invert", "Neg", picture_dims, 4);
    put("revert", "Neg", picture_dims, 4);
    put_config("reader", reader);
    pool_add_worker(&pool, "xnnpack", root, NULL);
    cr_expect(strstr(process_err(pool.workers[0]), "evt=ensemble_ready model=reader version=1 steps=3"), "%s",
              process_err(pool.workers[0]));
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor picture = picture_of(&golden);
    pen_result *first = run(client, "reader", &picture, 0), *second = run(client, "reader", &picture, 0),
               *explained = run(client, "reader", &picture, PEN_JOB_EXPLAIN | PEN_JOB_NO_CACHE);
    expect_golden(first, &golden);
    cr_expect(!pen_result_info(first)->cached && pen_result_info(second)->cached, "the whole is cached");
    const struct pen_explanation *why = pen_result_explanation(explained);
    cr_expect(why && strcmp(why->model, "reader") == 0 && why->attempts == 1);
    pen_result_free(first);
    pen_result_free(second);
    pen_result_free(explained);
    pen_client_free(client);
    golden_free(&golden);
}

/* One free dimension is promised, the second step takes four elements only: found out by running. */
static const char narrow[] =
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
    "\"output\":[{\"name\":\"b\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"wide\",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"t\"}},"
    "{\"model_name\":\"four\",\"input_map\":{\"x\":\"t\"},\"output_map\":{\"y\":\"b\"}}]}}";

static void put_narrow(void)
{
    static const int64_t any[1] = {-1}, four[1] = {4};
    put("wide", "Neg", any, 1);
    put_config("wide", "{\"max_batch_size\":0}");
    put("four", "Abs", four, 1);
    put_config("narrow", narrow);
}

static struct pen_tensor row_of(const float *values, int64_t count)
{
    return (struct pen_tensor){.name = "a",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 1,
                               .dims = {count},
                               .data = values,
                               .bytes = (size_t)count * sizeof(float)};
}

static void expect_step_named(pen_client *client)
{
    static const float values[5] = {1, -2, 3, -4, 5};
    struct pen_tensor four = row_of(values, 4), five = row_of(values, 5);
    pen_result *good = run(client, "narrow", &four, PEN_JOB_NO_CACHE), *bad = run(client, "narrow", &five, 0);
    cr_assert(pen_result_status(good) == PEN_OK, "%s", pen_result_error(good));
    float b[4];
    memcpy(b, pen_result_find(good, "b")->data, sizeof b);
    cr_expect(b[0] == 1 && b[1] == 2 && b[2] == 3 && b[3] == 4);
    cr_expect(pen_result_status(bad) == PEN_ERR_SHAPE, "%s", pen_status_name(pen_result_status(bad)));
    cr_expect(strstr(pen_result_error(bad), "step 2 (model 'four') of 'narrow': "), "%s", pen_result_error(bad));
    pen_result_free(good);
    pen_result_free(bad);
}

Test(ensembles, a_failing_step_names_itself)
{
    put_narrow();
    pool_add_worker(&pool, "reference", root, NULL);
    pen_client *client = digits_client(pool.clients);
    expect_step_named(client);
    pen_client_free(client);
}

/* A model's config and the words that the log must say of it. */
static void expect_refused(const char *name, const char *config, const char *words)
{
    put_config(name, config);
    size_t index = pool_add_worker(&pool, "reference", root, NULL);
    cr_expect(strstr(process_err(pool.workers[index]), "evt=model_failed") &&
                  strstr(process_err(pool.workers[index]), words),
              "'%s' is not in\n%s", words, process_err(pool.workers[index]));
}

Test(ensembles, steps_that_do_not_fit_are_refused_by_name)
{
    put_narrow();
    expect_refused("typed",
                   "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}],"
                   "\"output\":[{\"name\":\"b\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
                   "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"wide\",\"input_map\":{\"x\":\"a\"},"
                   "\"output_map\":{\"y\":\"b\"}}]}}",
                   "step 1 (model 'wide'): 'x' is f32, but 'a' is i32");
    expect_refused("nested",
                   "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
                   "\"output\":[{\"name\":\"b\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
                   "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"narrow\",\"input_map\":{\"a\":\"a\"},"
                   "\"output_map\":{\"b\":\"b\"}}]}}",
                   "step 1: 'narrow' is an ensemble itself");
}

/* Batches: the digits model behind one that passes pictures on. */
static const char chain[] =
    "{\"platform\":\"ensemble\",\"max_batch_size\":8,"
    "\"dynamic_batching\":{\"max_queue_delay_microseconds\":20000},"
    "\"input\":[{\"name\":\"image\",\"data_type\":\"TYPE_UINT8\",\"dims\":[8,8,1]}],"
    "\"output\":[{\"name\":\"probabilities\",\"data_type\":\"TYPE_FP32\",\"dims\":[10]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"digits\",\"input_map\":{\"image\":\"image\"},\"output_map\":{\"probabilities\":\"p\"}},"
    "{\"model_name\":\"rows\",\"input_map\":{\"x\":\"p\"},\"output_map\":{\"y\":\"probabilities\"}}]}}";

Test(ensembles, jobs_of_an_ensemble_share_batches)
{
    static const int64_t rows[2] = {-1, 10};
    enum { JOBS = 32 };
    struct digits digits;
    pen_job *jobs[JOBS];
    struct pen_tensor images[JOBS];
    struct pen_job_options options[JOBS];
    struct pen_error error = {0};
    uint32_t most = 0;
    digits_load(&digits);
    put("rows", "Relu", rows, 2); /* probabilities are positive: passed on */
    folder_make(in_root("digits/1"));
    file_copy(POOL_DIGITS_MODELS "/digits/1/model.onnx", in_root("digits/1/model.onnx"));
    file_copy(POOL_DIGITS_MODELS "/digits/config.json", in_root("digits/config.json"));
    put_config("chain", chain);
    pool_add_worker(&pool, "xnnpack", root, NULL);
    pen_client *client = digits_client(pool.clients);
    for (size_t i = 0; i < JOBS; i++) {
        images[i] = digits_tensor(&digits, i);
        digits_job(&images[i], &options[i]);
        options[i].model = "chain";
        options[i].flags = PEN_JOB_NO_CACHE;
    }
    cr_assert(pen_client_submit_many(client, options, JOBS, jobs, &error) == PEN_OK, "%s", error.text);
    for (size_t i = 0; i < JOBS; i++) {
        pen_result *result = NULL;
        cr_assert(pen_job_wait(jobs[i], (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK);
        pen_result *direct = digits_run(client, &digits, i, PEN_JOB_NO_CACHE);
        cr_assert(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
        cr_expect(digits_class(result) == digits_class(direct), "job %zu", i);
        most = pen_result_info(result)->batch_size > most ? pen_result_info(result)->batch_size : most;
        pen_result_free(direct);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    cr_expect(most > 1 && most <= 8, "the largest batch had %u jobs", most);
    pen_client_free(client);
    digits_free(&digits);
}

/* ---- on several workers ---- */

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
