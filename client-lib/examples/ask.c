#include "ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pool_open(const char *endpoint, struct pool *ret_pool)
{
    struct pen_client_options options;
    struct pen_error error = {.status = PEN_OK};
    *ret_pool = (struct pool){0};
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint ? endpoint : options.endpoint;
    if (pen_client_connect(&options, &ret_pool->client, &error) == PEN_OK &&
        pen_client_models(ret_pool->client, 5000000, &ret_pool->models, &error) == PEN_OK) {
        return true;
    }
    fprintf(stderr, "%s: %s\n", pen_status_name(error.status), error.text);
    pool_close(ret_pool);
    return false;
}

void pool_close(struct pool *pool)
{
    pen_client_models_free(pool->models);
    pen_client_free(pool->client);
    *pool = (struct pool){0};
}

static const struct pen_signature *input_of(const struct pool *pool, const char *model)
{
    for (size_t i = 0; i < pool->models->count; i++) {
        if (strcmp(pool->models->models[i]->name, model) == 0 && pool->models->models[i]->inputs_count == 1) {
            return &pool->models->models[i]->inputs[0];
        }
    }
    return NULL;
}

bool pool_size(const struct pool *pool, const char *model, unsigned *ret_height, unsigned *ret_width)
{
    const struct pen_signature *in = input_of(pool, model);
    if (!in || in->rank != 4 || in->dims[1] <= 0 || in->dims[2] <= 0 || in->dims[1] > 65535 || in->dims[2] > 65535) {
        return false;
    }
    *ret_height = (unsigned)in->dims[1];
    *ret_width = (unsigned)in->dims[2];
    return true;
}

pen_result *pool_ask(struct pool *pool, const char *model, const uint8_t *pixels, unsigned height, unsigned width,
                     float scale, float offset)
{
    const struct pen_signature *in = input_of(pool, model);
    size_t count = (size_t)height * width * 3;
    float *floats = malloc(count * sizeof *floats);
    if (!in || !floats) {
        fprintf(stderr, "the pool has no model \"%s\" with one input: penstock models lists what there is\n", model);
        free(floats);
        return NULL;
    }
    struct pen_tensor image = {in->name, PEN_DTYPE_U8, 4, {1, height, width, 3}, pixels, count};
    if (in->dtype == PEN_DTYPE_F32) {
        for (size_t i = 0; i < count; i++) {
            floats[i] = (float)pixels[i] * scale + offset;
        }
        image.dtype = PEN_DTYPE_F32;
        image.data = floats;
        image.bytes = count * sizeof *floats;
    }
    struct pen_error error = {.status = PEN_OK};
    struct pen_job_options job;
    pen_result *result = NULL;
    pen_job_options_init(&job, sizeof job);
    job.model = model;
    job.inputs = &image;
    job.inputs_count = 1;
    job.deadline_us = 30000000;
    if (pen_client_run(pool->client, &job, &result, &error) != PEN_OK) {
        fprintf(stderr, "%s: %s\n", pen_status_name(error.status), error.text);
        result = NULL;
    }
    free(floats);
    return result;
}

float value_at(const struct pen_tensor *t, size_t index)
{
    float value;
    memcpy(&value, (const char *)t->data + index * sizeof value, sizeof value);
    return value;
}

const struct pen_tensor *output_of_size(const pen_result *result, size_t elements)
{
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *t = pen_result_output(result, i);
        if (t->dtype == PEN_DTYPE_F32 && t->bytes == elements * sizeof(float)) {
            return t;
        }
    }
    fprintf(stderr, "the model has no float32 output of %zu elements: is it another one?\n", elements);
    return NULL;
}
