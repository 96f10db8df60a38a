#include "ensembles.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "onnx_file.h"

#define SHARED_MNIST PENSTOCK_SOURCE "/../shared/models/onnx/mnist_8"

char root[FOLDER_PATH_BYTES];
struct pool pool;

const char *in_root(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

void put(const char *name, const char *op, const int64_t *dims, size_t rank)
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

void put_config(const char *name, const char *text)
{
    char file[128];
    folder_make(in_root(name));
    snprintf(file, sizeof file, "%s/config.json", name);
    file_write(in_root(file), text, strlen(text));
}

void setup(void)
{
    folder_new(root);
    pool_start(&pool, NULL);
}

void teardown(void)
{
    pool_stop(&pool);
    folder_free(root);
}

/* Two small models and the real one: what is turned upside down twice is read as if nothing had been. */
const char reader[] =
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"picture\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,1,28,28]}],"
    "\"output\":[{\"name\":\"scores\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,10]},"
    "{\"name\":\"negative\",\"data_type\":\"TYPE_FP32\",\"dims\":[1,1,28,28]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"mnist\",\"input_map\":{\"Input3\":\"again\"},\"output_map\":{\"Plus214_Output_0\":\"scores\"}},"
    "{\"model_name\":\"invert\",\"model_version\":-1,\"input_map\":{\"x\":\"picture\"},"
    "\"output_map\":{\"y\":\"negative\"}},"
    "{\"model_name\":\"revert\",\"model_version\":1,\"input_map\":{\"x\":\"negative\"},"
    "\"output_map\":{\"y\":\"again\"}}]}}";

const int64_t picture_dims[4] = {1, 1, 28, 28};

void need_shared(void)
{
    struct stat info;
    if (stat(SHARED_MNIST, &info) != 0) {
        cr_assert(stat(PENSTOCK_SOURCE "/../shared/models", &info) != 0, "../shared has no mnist_8");
        cr_skip("%s is not here", SHARED_MNIST);
    }
}

void put_mnist(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s%smnist/1", folder, *folder ? "/" : "");
    folder_make(in_root(path));
    snprintf(path, sizeof path, "%s%smnist/1/model.onnx", folder, *folder ? "/" : "");
    file_copy(SHARED_MNIST "/model.onnx", in_root(path));
}

struct golden golden_load(void)
{
    size_t in = 0, out = 0;
    struct golden golden = {.input = file_read(SHARED_MNIST "/golden/official.in0.bin", &in),
                            .output = file_read(SHARED_MNIST "/golden/official.out0.bin", &out)};
    cr_assert(in == PIXELS * sizeof(float) && out == 10 * sizeof(float), "%zu and %zu bytes", in, out);
    return golden;
}

void golden_free(struct golden *golden)
{
    free(golden->input);
    free(golden->output);
}

pen_result *run(pen_client *client, const char *model, const struct pen_tensor *input, unsigned flags)
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

struct pen_tensor picture_of(const struct golden *golden)
{
    return (struct pen_tensor){.name = "picture",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = golden->input,
                               .bytes = PIXELS * sizeof(float)};
}

void expect_golden(const pen_result *result, const struct golden *golden)
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

/* One free dimension is promised, the second step takes four elements only: found out by running. */
static const char narrow[] =
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
    "\"output\":[{\"name\":\"b\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"wide\",\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"t\"}},"
    "{\"model_name\":\"four\",\"input_map\":{\"x\":\"t\"},\"output_map\":{\"y\":\"b\"}}]}}";

void put_narrow(void)
{
    static const int64_t any[1] = {-1}, four[1] = {4};
    put("wide", "Neg", any, 1);
    put_config("wide", "{\"max_batch_size\":0}");
    put("four", "Abs", four, 1);
    put_config("narrow", narrow);
}

struct pen_tensor row_of(const float *values, int64_t count)
{
    return (struct pen_tensor){.name = "a",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 1,
                               .dims = {count},
                               .data = values,
                               .bytes = (size_t)count * sizeof(float)};
}

void expect_step_named(pen_client *client)
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
