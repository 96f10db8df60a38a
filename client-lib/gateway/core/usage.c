#include "usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"

struct usage {
    size_t count;
    uint64_t uncounted;
    struct usage_model *models[USAGE_MODELS_MAX];
};

struct usage *usage_new(void)
{
    return calloc(1, sizeof(struct usage));
}

void usage_free(struct usage *usage)
{
    for (size_t i = 0; usage && i < usage->count; i++)
        free(usage->models[i]);
    free(usage);
}

static struct usage_model *model_of(struct usage *usage, const char *name, uint64_t version)
{
    for (size_t i = 0; i < usage->count; i++)
        if (usage->models[i]->version == version && strcmp(usage->models[i]->name, name) == 0)
            return usage->models[i];
    struct usage_model *made = usage->count < USAGE_MODELS_MAX ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->version = version;
    usage->models[usage->count++] = made;
    return made;
}

static void add(struct usage_time *time, uint64_t ns)
{
    time->count++;
    time->ns += ns;
}

static void add_batch(struct usage_model *model, const struct usage_request *request, double part)
{
    size_t i = 0;
    while (i < model->batches_count && model->batches[i].size != request->batch)
        i++;
    if (i == USAGE_BATCHES_MAX)
        return;
    struct usage_batch *batch = &model->batches[i];
    model->batches_count += i == model->batches_count;
    batch->size = request->batch;
    batch->executions += part;
    batch->input_ns += request->input_ns;
    batch->infer_ns += (uint64_t)((double)request->infer_ns * part);
    batch->output_ns += request->output_ns;
}

static void add_backend(struct usage_model *model, const struct usage_request *request)
{
    size_t i = 0;
    while (i < model->backends_count && strcmp(model->backends[i].name, request->backend) != 0)
        i++;
    if (i == USAGE_BACKENDS_MAX)
        return;
    struct usage_backend *backend = &model->backends[i];
    if (i == model->backends_count) {
        snprintf(backend->name, sizeof backend->name, "%s", request->backend);
        model->backends_count++;
    }
    backend->count++;
    backend->rows += request->rows;
    add(&backend->infer, request->infer_ns);
}

static size_t bucket_of(uint64_t ns)
{
    size_t bucket = 0;
    while (bucket < USAGE_BUCKETS - 1 && ns >= (UINT64_C(100000) << bucket))
        bucket++;
    return bucket;
}

static void add_success(struct usage_model *model, const struct usage_request *request)
{
    add(&model->success, request->total_ns);
    add(&model->queue, request->queue_ns);
    model->last_ms = clock_unix_us() / 1000;
    model->buckets[bucket_of(request->total_ns)]++;
    if (request->cached) {
        add(&model->hit, request->total_ns);
        return;
    }
    double part = 1.0 / (request->batch ? request->batch : 1);
    add(&model->miss, 0);
    add(&model->input, request->input_ns);
    add(&model->infer, request->infer_ns);
    add(&model->output, request->output_ns);
    model->rows += request->rows;
    model->executions += part;
    add_batch(model, request, part);
    add_backend(model, request);
}

void usage_add(struct usage *usage, const struct usage_request *request)
{
    struct usage_model *model = model_of(usage, request->model, request->version);
    if (!model)
        usage->uncounted++;
    else if (request->failed)
        add(&model->fail, request->total_ns);
    else
        add_success(model, request);
    if (model)
        model->cancelled += request->cancelled;
}

const struct usage_model *usage_next(const struct usage *usage, const char *name, uint64_t version, size_t *at)
{
    while (*at < usage->count) {
        const struct usage_model *model = usage->models[(*at)++];
        if ((!name || strcmp(model->name, name) == 0) && (version == 0 || model->version == version))
            return model;
    }
    return NULL;
}

uint64_t usage_uncounted(const struct usage *usage)
{
    return usage->uncounted;
}
