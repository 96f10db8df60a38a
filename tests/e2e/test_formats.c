/* TFLite and TensorFlow.js models, float and quantised, from version folders through a real pool: names, numbers, pictures on the command line. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/client.h>

#include "folder.h"
#include "pool.h"

#define MODELS     PENSTOCK_SHARED "/models/"
#define IMAGES     PENSTOCK_SHARED "/images/"
#define PATH_BYTES 640
#define TENSORS    8

static char models[FOLDER_PATH_BYTES];
static struct pool pool;

/* One version folder per model, its files as the framework wrote them. */
static void model_add(const char *name, const char *from, const char *files, const char *config)
{
    char command[1024], path[PATH_BYTES];
    snprintf(command, sizeof command, "mkdir -p %s/%s/1 && cd " MODELS "%s && cp %s %s/%s/1/", models, name, from,
             files, models, name);
    cr_assert(system(command) == 0, "%s", command);
    snprintf(path, sizeof path, "%s/%s/config.json", models, name);
    if (config)
        file_write(path, config, strlen(config));
}

static void formats_open(void)
{
    if (access(MODELS, R_OK) != 0)
        cr_skip_test("no " MODELS);
    folder_new(models);
    pool_start(&pool, NULL);
}

static void formats_close(void)
{
    if (!pool.broker)
        return;
    pool_stop(&pool);
    folder_free(models);
}

TestSuite(formats, .init = formats_open, .fini = formats_close, .timeout = 120);

static pen_client *connect_client(void)
{
    struct pen_client_options options;
    struct pen_error error = {0};
    pen_client *client;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    cr_assert(pen_client_connect(&options, &client, &error) == PEN_OK, "%s", error.text);
    return client;
}

/* ---- golden cases ------------------------------------------------------------------------------------------------------------------- */

static void tensor_read(const cJSON *json, const char *folder, struct pen_tensor *ret_tensor)
{
    char path[PATH_BYTES];
    const cJSON *dim;
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItem(json, "dtype"));
    *ret_tensor = (struct pen_tensor){.name = cJSON_GetStringValue(cJSON_GetObjectItem(json, "name"))};
    ret_tensor->dtype = strcmp(dtype, "int8") == 0    ? PEN_DTYPE_I8
                        : strcmp(dtype, "uint8") == 0 ? PEN_DTYPE_U8
                                                      : PEN_DTYPE_F32;
    cJSON_ArrayForEach(dim, cJSON_GetObjectItem(json, "shape")) ret_tensor->dims[ret_tensor->rank++] =
        (int64_t)dim->valuedouble;
    snprintf(path, sizeof path, "%s/%s", folder, cJSON_GetStringValue(cJSON_GetObjectItem(json, "file")));
    ret_tensor->data = file_read(path, &ret_tensor->bytes);
}

static void tensor_compare(const struct pen_tensor *got, const struct pen_tensor *want)
{
    cr_assert(got->dtype == want->dtype && got->bytes == want->bytes, "output %s", want->name);
    if (want->dtype != PEN_DTYPE_F32) {
        cr_assert(memcmp(got->data, want->data, want->bytes) == 0, "output %s: integers are exact", want->name);
        return;
    }
    double range = 0;
    for (size_t i = 0; i < want->bytes / sizeof(float); i++) {
        float x;
        memcpy(&x, (const char *)want->data + i * sizeof x, sizeof x);
        range = fmax(range, fabs((double)x));
    }
    for (size_t i = 0; i < want->bytes / sizeof(float); i++) {
        float x, y;
        memcpy(&x, (const char *)want->data + i * sizeof x, sizeof x);
        memcpy(&y, (const char *)got->data + i * sizeof y, sizeof y);
        cr_assert(fabs((double)x - (double)y) <= 1e-4 * range, "output %s[%zu]: %g, wanted %g", want->name, i,
                  (double)y, (double)x);
    }
}

/* TF.js calls an output of a layers model LAYER/OPERATION_COUNT; the pool calls it as Keras does, LAYER. */
static const struct pen_tensor *output_of(const pen_result *result, const char *name)
{
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *t = pen_result_output(result, i);
        size_t length = strlen(t->name);
        if (strncmp(t->name, name, length) == 0 && (name[length] == '\0' || name[length] == '/'))
            return t;
    }
    return NULL;
}

/* Inputs and outputs by the names of the golden file; the pool must give its numbers. */
static void golden(pen_client *client, const char *model, const char *from, const char *name)
{
    char folder[PATH_BYTES / 2], path[PATH_BYTES];
    struct pen_tensor inputs[TENSORS] = {{0}}, want;
    struct pen_error error = {0};
    struct pen_job_options job;
    pen_result *result;
    const cJSON *item;
    size_t count = 0;
    snprintf(folder, sizeof folder, MODELS "%s/golden", from);
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    char *text = file_read(path, NULL);
    cJSON *json = cJSON_Parse(text);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(json, "inputs")) tensor_read(item, folder, &inputs[count++]);
    pen_job_options_init(&job, sizeof job);
    job.model = model;
    job.inputs = inputs;
    job.inputs_count = count;
    job.deadline_us = 60000000;
    cr_assert(pen_client_run(client, &job, &result, &error) == PEN_OK, "%s: %s", model, error.text);
    cr_assert_str_eq(pen_result_info(result)->backend, "xnnpack");
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(json, "outputs"))
    {
        tensor_read(item, folder, &want);
        const struct pen_tensor *got = output_of(result, want.name);
        cr_assert_not_null(got, "%s has no output %s", model, want.name);
        tensor_compare(got, &want);
        free((void *)(uintptr_t)want.data);
    }
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)inputs[i].data);
    pen_result_free(result);
    cJSON_Delete(json);
    free(text);
}

Test(formats, quantised_tflite_model_gives_its_golden_bytes)
{
    model_add("vww", "tflite/mlperf_tiny_vww_int8", "model.tflite", "{\"platform\":\"tflite\"}");
    model_add("mobilenet", "tflite/mobilenet_v2_100_224_u8", "model.tflite", NULL);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pen_client *client = connect_client();
    golden(client, "vww", "tflite/mlperf_tiny_vww_int8", "image");
    golden(client, "mobilenet", "tflite/mobilenet_v2_100_224_u8", "cat");
    pen_client_free(client);
}

Test(formats, tfjs_graph_model_keeps_the_name_of_its_topology)
{
    model_add("posenet", "tfjs/posenet_mobilenet075_q16", "model-stride16.json *.bin", "{\"platform\":\"tfjs\"}");
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pen_client *client = connect_client();
    golden(client, "posenet", "tfjs/posenet_mobilenet075_q16", "image");
    golden(client, "posenet", "tfjs/posenet_mobilenet075_q16", "random");
    pen_client_free(client);
}

Test(formats, tensors_of_a_layers_model_carry_the_names_of_its_layers)
{
    struct pen_model_list *list = NULL;
    struct pen_error error = {0};
    model_add("translation", "tfjs/translation_lstm", "model.json group1-shard1of1", NULL);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pen_client *client = connect_client();
    golden(client, "translation", "tfjs/translation_lstm", "go");
    cr_assert(pen_client_models(client, 5000000, &list, &error) == PEN_OK, "%s", error.text);
    cr_assert(list->count == 1 && list->models[0]->inputs_count == 2);
    cr_expect_str_eq(list->models[0]->inputs[0].name, "input_1");
    cr_expect_str_eq(list->models[0]->inputs[1].name, "input_2");
    cr_expect_str_eq(list->models[0]->outputs[0].name, "dense_1");
    cr_expect_str_eq(list->models[0]->platform, "tfjs");
    pen_client_models_free(list);
    pen_client_free(client);
}

/* ---- pictures ----------------------------------------------------------------------------------------------------------------------- */

static void submit_says(const char *model, const char *image, const char *part)
{
    char *out, *err;
    int status = pool_cli(&pool, "submit", (const char *const[]){model, image, NULL}, &out, &err);
    cr_assert(status == 0, "%s %s: %s", model, image, err);
    cr_expect(strstr(out, part), "%s %s: wanted '%s' in:\n%s", model, image, part, out);
    free(out);
    free(err);
}

/* An uint8 and an int8 input take pictures without a word of configuration, and by their own quantisation with one. */
Test(formats, pictures_go_to_quantised_inputs)
{
    char *labels = file_read(IMAGES "labels/imagenet_labels_1001.txt", NULL);
    char path[PATH_BYTES];
    model_add("vww", "tflite/mlperf_tiny_vww_int8", "model.tflite",
              "{\"output\":{\"labels\":[\"nobody\",\"person\"]}}");
    model_add("scaled", "tflite/mlperf_tiny_vww_int8", "model.tflite",
              "{\"input\":{\"preprocess\":{\"layout\":\"NHWC\",\"scale\":[0.00392156862745098]}},"
              "\"output\":{\"labels\":[\"nobody\",\"person\"]}}");
    model_add("mobilenet", "tflite/mobilenet_v2_100_224_u8", "model.tflite",
              "{\"output\":{\"labels_file\":\"labels.txt\"}}");
    model_add(
        "resnet", "tflite/mlperf_tiny_ic_resnet8_int8", "model.tflite",
        "{\"output\":{\"labels\":[\"airplane\",\"automobile\",\"bird\",\"cat\",\"deer\",\"dog\",\"frog\",\"horse\","
        "\"ship\",\"truck\"]}}");
    snprintf(path, sizeof path, "%s/mobilenet/labels.txt", models);
    file_write(path, labels, strlen(labels));
    free(labels);
    pool_add_worker(&pool, "xnnpack", models, NULL);
    submit_says("vww", IMAGES "astronaut.png", "\n    0.9102  person\n    0.0898  nobody");
    submit_says("scaled", IMAGES "astronaut.png", "\n    0.9102  person\n    0.0898  nobody");
    submit_says("mobilenet", IMAGES "chelsea.png", "Egyptian cat");
    submit_says("mobilenet", IMAGES "grace_hopper.bmp", "military uniform");
    submit_says("mobilenet", IMAGES "parrot.jpg", "macaw");
    submit_says("resnet", IMAGES "cat.bmp", "cat");
}
