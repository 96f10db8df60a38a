#include "digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "process.h"

#define TESTSET PENSTOCK_SOURCE "/deploy/models/digits/testset/"

/* The body of a .npy file of version 1: magic, version, u16 header length, header. */
static uint8_t *npy_read(const char *path, size_t *ret_bytes)
{
    size_t size;
    uint8_t *file = file_read(path, &size);
    if (size < 10 || memcmp(file, "\x93NUMPY\x01", 7) != 0) {
        support_fail("%s is no .npy file of version 1", path);
    }
    size_t start = 10u + file[8] + 256u * file[9];
    if (start > size || !strstr((const char *)file + 10, "'|u1'")) {
        support_fail("%s does not hold uint8", path);
    }
    *ret_bytes = size - start;
    memmove(file, file + start, size - start);
    return file;
}

void digits_load(struct digits *digits)
{
    size_t images_bytes;
    digits->images = npy_read(TESTSET "images.npy", &images_bytes);
    digits->labels = npy_read(TESTSET "labels.npy", &digits->count);
    char *accuracy = file_read(TESTSET "accuracy.json", NULL);
    const char *correct = strstr(accuracy, "\"correct\":");
    if (!correct || images_bytes != digits->count * DIGITS_PIXELS) {
        support_fail("the files in %s do not fit together", TESTSET);
    }
    digits->correct = strtoul(correct + strlen("\"correct\":"), NULL, 10);
    free(accuracy);
}

void digits_free(struct digits *digits)
{
    free(digits->images);
    free(digits->labels);
}

struct pen_tensor digits_tensor(const struct digits *digits, size_t index)
{
    return (struct pen_tensor){.name = "image",
                               .dtype = PEN_DTYPE_U8,
                               .rank = 4,
                               .dims = {1, 8, 8, 1},
                               .data = digits->images + index % digits->count * DIGITS_PIXELS,
                               .bytes = DIGITS_PIXELS};
}

void digits_job(const struct pen_tensor *tensor, struct pen_job_options *ret_options)
{
    pen_job_options_init(ret_options, sizeof *ret_options);
    ret_options->model = "digits";
    ret_options->inputs = tensor;
    ret_options->inputs_count = 1;
}

void digits_probabilities(const pen_result *result, float ret_values[DIGITS_CLASSES])
{
    const struct pen_tensor *out = pen_result_output(result, 0);
    if (pen_result_outputs(result) != 1 || !out || strcmp(out->name, "probabilities") != 0 ||
        out->dtype != PEN_DTYPE_F32 || out->rank != 2 || out->dims[0] != 1 || out->dims[1] != DIGITS_CLASSES ||
        out->bytes != DIGITS_CLASSES * sizeof(float)) {
        support_fail("the result is not probabilities float32 [1, 10]: status %s, %zu outputs; %s",
                     pen_status_name(pen_result_status(result)), pen_result_outputs(result), pen_result_error(result));
    }
    memcpy(ret_values, out->data, out->bytes);
}

int digits_class(const pen_result *result)
{
    float values[DIGITS_CLASSES], sum = 0.0f;
    int best = 0;
    digits_probabilities(result, values);
    for (int i = 0; i < DIGITS_CLASSES; i++) {
        sum += values[i];
        best = values[i] > values[best] ? i : best;
    }
    if (!(fabsf(sum - 1.0f) < 1e-4f)) {
        support_fail("the probabilities sum to %g", (double)sum);
    }
    return best;
}

pen_client *digits_client(const char *endpoint)
{
    struct pen_client_options options;
    struct pen_error error = {0};
    pen_client *client;
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint;
    options.name = "test";
    options.connect_timeout_us = (int64_t)support_slow(5000) * 1000;
    options.unreachable_us = (int64_t)support_slow(20000) * 1000;
    if (pen_client_connect(&options, &client, &error) != PEN_OK) {
        support_fail("cannot connect to %s: %s", endpoint, error.text);
    }
    return client;
}

pen_result *digits_run(pen_client *client, const struct digits *digits, size_t index, unsigned flags)
{
    struct pen_tensor tensor = digits_tensor(digits, index);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result;
    digits_job(&tensor, &options);
    options.flags = flags;
    if (pen_client_run(client, &options, &result, &error) != PEN_OK) {
        support_fail("image %zu: %s: %s", index, pen_status_name(error.status), error.text);
    }
    return result;
}

pen_job *digits_planted(pen_client *client, const struct digits *digits, const char word[5], uint8_t number)
{
    uint8_t pixels[DIGITS_PIXELS] = {0};
    struct pen_tensor tensor = digits_tensor(digits, 0);
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    memcpy(pixels, word, 4);
    pixels[5] = number;
    tensor.data = pixels;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_NO_CACHE;
    if (pen_client_submit(client, &options, &job, &error) != PEN_OK) {
        support_fail("a planted image: %s: %s", pen_status_name(error.status), error.text);
    }
    return job;
}
