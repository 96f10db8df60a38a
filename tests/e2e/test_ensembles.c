/* Ensembles: a pipeline of models is one job, on one worker that has them all (test_ensembles_spread.c: on several). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ensembles.h"

TestSuite(ensembles, .init = setup, .fini = teardown, .timeout = 120);

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

#define JOBS 32

/* Of so many jobs at once; each is answered as the model inside it answers. */
static uint32_t largest_batch(pen_client *client, const struct digits *digits)
{
    pen_job *jobs[JOBS];
    struct pen_tensor images[JOBS];
    struct pen_job_options options[JOBS];
    struct pen_error error = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < JOBS; i++) {
        images[i] = digits_tensor(digits, i);
        digits_job(&images[i], &options[i]);
        options[i].model = "chain";
        options[i].flags = PEN_JOB_NO_CACHE;
    }
    cr_assert(pen_client_submit_many(client, options, JOBS, jobs, &error) == PEN_OK, "%s", error.text);
    for (size_t i = 0; i < JOBS; i++) {
        pen_result *result = NULL;
        cr_assert(pen_job_wait(jobs[i], (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK);
        pen_result *direct = digits_run(client, digits, i, PEN_JOB_NO_CACHE);
        cr_assert(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
        cr_expect(digits_class(result) == digits_class(direct), "job %zu", i);
        most = pen_result_info(result)->batch_size > most ? pen_result_info(result)->batch_size : most;
        pen_result_free(direct);
        pen_result_free(result);
        pen_job_free(jobs[i]);
    }
    return most;
}

/* What a batch costs is measured by each worker at its start; of one that was held up while it measured, batches may not be asked: then by the next. */
Test(ensembles, jobs_of_an_ensemble_share_batches)
{
    static const int64_t rows[2] = {-1, 10};
    struct digits digits;
    uint32_t most = 0;
    digits_load(&digits);
    put("rows", "Relu", rows, 2); /* probabilities are positive: passed on */
    folder_make(in_root("digits/1"));
    file_copy(POOL_DIGITS_MODELS "/digits/1/model.onnx", in_root("digits/1/model.onnx"));
    file_copy(POOL_DIGITS_MODELS "/digits/config.json", in_root("digits/config.json"));
    put_config("chain", chain);
    pen_client *client = digits_client(pool.clients);
    for (size_t i = 0; i < 5 && most < 2; i++) {
        if (i > 0)
            cr_assert_eq(process_stop(pool.workers[i - 1], 30000), 0);
        pool_add_worker(&pool, "xnnpack", root, NULL);
        most = largest_batch(client, &digits);
    }
    cr_expect(most > 1 && most <= 8, "the largest batch had %u jobs", most);
    pen_client_free(client);
    digits_free(&digits);
}
