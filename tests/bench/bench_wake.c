/*
 * bench_wake.c - lets a model sleep and wakes it again and again: how long the first job for a sleeping model takes, from
 * the submit to its answer, and how long the same job takes when the model is awake. Prints one JSON object; a job that
 * fails ends it with 1.
 *
 * Usage: bench_wake ENDPOINT MODEL CYCLES IDLE_MS: the worker's --idle-unload is IDLE_MS. Inputs are zeros; an open
 * dimension is 1.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "penstock/admin.h"
#include "penstock/client.h"

#define READY_US   5000000
#define INPUTS_MAX 8u

struct figures {
    double asleep_ms, awake_ms; /* of one cycle */
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void pause_ms(double ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)((ms - 1e3 * (double)(long)(ms / 1e3)) * 1e6)};
    nanosleep(&t, NULL);
}

static void fail(const char *what, const struct pen_error *error)
{
    fprintf(stderr, "bench_wake: %s: %s\n", what, error->text);
    exit(1);
}

/* Zeros in the shape that the model takes. */
static size_t inputs_make(const struct pen_model *model, struct pen_tensor inputs[INPUTS_MAX])
{
    for (size_t i = 0; i < model->inputs_count && i < INPUTS_MAX; i++) {
        uint64_t elements = 1;
        const struct pen_signature *given = &model->inputs[i];
        inputs[i] = (struct pen_tensor){.name = given->name, .dtype = given->dtype, .rank = given->rank};
        memcpy(inputs[i].dims, given->dims, given->rank * sizeof given->dims[0]);
        for (uint32_t d = 0; d < inputs[i].rank; d++) {
            inputs[i].dims[d] = inputs[i].dims[d] < 1 ? 1 : inputs[i].dims[d];
            elements *= (uint64_t)inputs[i].dims[d];
        }
        if (pen_dtype_bytes(inputs[i].dtype, elements, &inputs[i].bytes) != 0) {
            fprintf(stderr, "bench_wake: the model's inputs are no numbers\n");
            exit(1);
        }
        inputs[i].data = calloc(1, inputs[i].bytes ? inputs[i].bytes : 1);
    }
    return model->inputs_count;
}

/* Milliseconds from submit to answer; *ret_held: the broker said that the model must be loaded. */
static double run(pen_client *client, const struct pen_job_options *job, bool *ret_held)
{
    struct pen_error error = {0};
    struct pen_hold hold;
    pen_result *result = NULL;
    pen_job *handle = NULL;
    double start = now_ms();
    if (pen_client_submit(client, job, &handle, &error) != PEN_OK ||
        pen_job_wait(handle, -1, &result, &error) != PEN_OK)
        fail("submit", &error);
    double took = now_ms() - start;
    *ret_held = pen_job_hold(handle, &hold, sizeof hold);
    if (pen_result_status(result) != PEN_OK) {
        fprintf(stderr, "bench_wake: %s\n", pen_result_error(result));
        exit(1);
    }
    pen_result_free(result);
    pen_job_free(handle);
    return took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const char *name, double *values, size_t count, const char *end)
{
    qsort(values, count, sizeof *values, compare);
    printf("\"%s\": {\"p50\": %.3f, \"p90\": %.3f, \"max\": %.3f}%s", name, values[count / 2], values[count * 9 / 10],
           values[count - 1], end);
}

/* Waits until the model sleeps: longer each time that it does not yet. */
static double wake(pen_client *client, const struct pen_job_options *job, double idle_ms, size_t *early)
{
    bool held = false;
    double took = 0;
    for (double wait_ms = idle_ms + 40; !held; wait_ms += idle_ms / 2 + 10) {
        pause_ms(wait_ms);
        took = run(client, job, &held);
        *early += !held;
    }
    return took;
}

int main(int argc, char **argv)
{
    struct pen_client_options options;
    struct pen_job_options job;
    struct pen_model_list *models = NULL;
    struct pen_tensor inputs[INPUTS_MAX];
    struct pen_error error = {0};
    pen_client *client = NULL;
    if (argc < 5) {
        fprintf(stderr, "usage: bench_wake ENDPOINT MODEL CYCLES IDLE_MS\n");
        return 2;
    }
    size_t cycles = (size_t)strtoul(argv[3], NULL, 10), early = 0;
    double idle_ms = strtod(argv[4], NULL), *asleep = calloc(cycles + 1, sizeof *asleep);
    double *awake = calloc(cycles + 1, sizeof *awake);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argv[1];
    options.connect_timeout_us = READY_US;
    if (!asleep || !awake || cycles == 0 || pen_client_connect(&options, &client, &error) != PEN_OK)
        fail("connect", &error);
    if (pen_client_models(client, READY_US, &models, &error) != PEN_OK)
        fail("models", &error);
    pen_job_options_init(&job, sizeof job);
    job.model = argv[2];
    job.inputs = inputs;
    for (size_t i = 0; i < models->count && job.inputs_count == 0; i++)
        job.inputs_count = strcmp(models->models[i]->name, argv[2]) == 0 ? inputs_make(models->models[i], inputs) : 0;
    job.flags = PEN_JOB_NO_CACHE;
    for (size_t i = 0; i < cycles; i++) {
        bool held = false;
        asleep[i] = wake(client, &job, idle_ms, &early);
        awake[i] = run(client, &job, &held);
    }
    printf("{\"cycles\": %zu, \"early\": %zu, ", cycles, early);
    show("asleep_ms", asleep, cycles, ", ");
    show("awake_ms", awake, cycles, "}\n");
    for (size_t i = 0; i < job.inputs_count; i++)
        free((void *)(uintptr_t)inputs[i].data);
    pen_client_models_free(models);
    pen_client_free(client);
    free(asleep);
    free(awake);
    return 0;
}
