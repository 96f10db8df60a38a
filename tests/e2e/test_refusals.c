/* Jobs that cannot run: one clear sentence and a typed code each, and the pool goes on. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"
#include "pool.h"

static struct pool pool;
static struct digits digits;
static pen_client *client;

static void setup(void)
{
    digits_load(&digits);
    pool_start(&pool, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    client = digits_client(pool.clients);
}

/* After each refusal the pool must still answer. */
static void teardown(void)
{
    pen_result_free(digits_run(client, &digits, 0, 0));
    pen_client_free(client);
    pool_stop(&pool);
    digits_free(&digits);
}

TestSuite(refusal, .init = setup, .fini = teardown);

/* Runs the job; expects `status` and every word of `words` in the sentence. */
static void expect(const struct pen_job_options *options, enum pen_status status, const char *const words[])
{
    struct pen_error error = {0};
    pen_result *result = NULL;
    enum pen_status got = pen_client_run(client, options, &result, &error);
    cr_assert_eq(got, status, "expected %s, got %s: %s", pen_status_name(status), pen_status_name(got), error.text);
    cr_assert_eq(error.status, status);
    for (size_t i = 0; words[i]; i++) {
        cr_assert_not_null(strstr(error.text, words[i]), "'%s' does not say '%s'", error.text, words[i]);
    }
    cr_assert_null(strchr(error.text, '\n'));
}

Test(refusal, unknown_model_is_named)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    digits_job(&tensor, &options);
    options.model = "digitz";
    expect(&options, PEN_ERR_NOT_FOUND, (const char *const[]){"digitz", NULL});
}

Test(refusal, unknown_version_is_named)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    digits_job(&tensor, &options);
    options.version = 77;
    expect(&options, PEN_ERR_NOT_FOUND, (const char *const[]){"digits", "77", NULL});
}

Test(refusal, wrong_shape_names_input_and_both_shapes)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    tensor.dims[1] = 4;
    tensor.dims[2] = 16;
    digits_job(&tensor, &options);
    expect(&options, PEN_ERR_SHAPE, (const char *const[]){"image", "1x4x16x1", "8x8x1", NULL});
}

Test(refusal, wrong_rank_is_a_shape_error)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    tensor.rank = 2;
    tensor.dims[1] = 64;
    digits_job(&tensor, &options);
    expect(&options, PEN_ERR_SHAPE, (const char *const[]){"image", "1x64", NULL});
}

Test(refusal, wrong_dtype_names_both_types)
{
    double values[64] = {0};
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    tensor.dtype = PEN_DTYPE_F64;
    tensor.data = values;
    tensor.bytes = sizeof values;
    digits_job(&tensor, &options);
    expect(&options, PEN_ERR_DTYPE, (const char *const[]){"image", "f64", "u8", NULL});
}

Test(refusal, wrong_byte_count_is_named)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    tensor.bytes = 63;
    digits_job(&tensor, &options);
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_SHAPE || status == PEN_ERR_INVALID, "got %s: %s", pen_status_name(status), error.text);
    cr_assert(strstr(error.text, "63") && strstr(error.text, "64") && strstr(error.text, "image"), "%s", error.text);
}

Test(refusal, wrong_input_name_is_told_the_right_one)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    tensor.name = "picture";
    digits_job(&tensor, &options);
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_NOT_FOUND || status == PEN_ERR_INVALID, "got %s: %s", pen_status_name(status),
              error.text);
    cr_assert(strstr(error.text, "picture") && strstr(error.text, "image"), "%s", error.text);
}

Test(refusal, missing_input_is_named)
{
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    digits_job(NULL, &options);
    options.inputs_count = 0;
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_NOT_FOUND || status == PEN_ERR_INVALID, "got %s: %s", pen_status_name(status),
              error.text);
    cr_assert(strstr(error.text, "image"), "%s", error.text);
}

Test(refusal, unknown_output_is_named)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    const char *outputs[] = {"logitz"};
    digits_job(&tensor, &options);
    options.outputs = outputs;
    options.outputs_count = 1;
    expect(&options, PEN_ERR_NOT_FOUND, (const char *const[]){"logitz", NULL});
}

Test(refusal, backend_that_no_worker_has_is_named)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    digits_job(&tensor, &options);
    options.backend = "vulkan";
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_UNSUPPORTED || status == PEN_ERR_UNAVAILABLE || status == PEN_ERR_NOT_FOUND,
              "got %s: %s", pen_status_name(status), error.text);
    cr_assert(strstr(error.text, "vulkan"), "%s", error.text);
}

Test(refusal, batch_beyond_the_models_cap_is_a_typed_error)
{
    static uint8_t pixels[64 * 64];
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    tensor.dims[0] = 64;
    tensor.data = pixels;
    tensor.bytes = sizeof pixels;
    digits_job(&tensor, &options);
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_SHAPE || status == PEN_ERR_TOO_LARGE, "got %s: %s", pen_status_name(status),
              error.text);
    cr_assert(strstr(error.text, "16"), "the cap is not named: %s", error.text);
}

Test(refusal, gigabyte_tensor_is_too_large_and_never_travels)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    size_t bytes = (size_t)1 << 30;
    void *pixels = calloc(bytes / 64, 64);
    cr_assert_not_null(pixels);
    tensor.dims[0] = (int64_t)(bytes / 64);
    tensor.data = pixels;
    tensor.bytes = bytes;
    digits_job(&tensor, &options);
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert(status == PEN_ERR_TOO_LARGE || status == PEN_ERR_BUSY || status == PEN_ERR_SHAPE, "got %s: %s",
              pen_status_name(status), error.text);
    cr_assert_lt(process_rss_bytes(pool.broker), (uint64_t)64 << 20, "the broker took the gigabyte in");
    free(pixels);
}

Test(refusal, deadline_that_has_passed_is_a_typed_error)
{
    struct pen_tensor tensor = digits_tensor(&digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    digits_job(&tensor, &options);
    options.deadline_us = 1;
    options.flags = PEN_JOB_NO_CACHE;
    enum pen_status status = pen_client_run(client, &options, &result, &error);
    cr_assert_eq(status, PEN_ERR_DEADLINE, "got %s: %s", pen_status_name(status), error.text);
}
