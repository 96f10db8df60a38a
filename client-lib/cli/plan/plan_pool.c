#include "plan_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "failed.h"
#include "inputs.h"
#include "programs.h"

#define LISTENS_US  15000000u
#define SERVES_US   120000000u
#define ASK_US      5000000
#define STOP_MS     3000u
#define OPTIONS_MAX 32u

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static pid_t start(struct plan_pool *pool, const char *name, const char *const args[])
{
    char log[PLAN_PATH_BYTES];
    snprintf(log, sizeof log, "%s/%03" PRIu32 ".log", pool->folder, pool->started++);
    return program_start(pool->bin, name, log, args);
}

static enum pen_status start_broker(struct plan_pool *pool, struct pen_error *reterr)
{
    int clients = program_free_port(), workers = program_free_port();
    uint64_t limit_us = clock_now_us() + LISTENS_US;
    snprintf(pool->clients, sizeof pool->clients, "tcp://127.0.0.1:%d", clients);
    snprintf(pool->to_workers, sizeof pool->to_workers, "tcp://127.0.0.1:%d", workers);
    pool->broker = start(pool, "penstock-broker",
                         (const char *const[]){"penstock-broker", "--listen-clients", pool->clients, "--listen-workers",
                                               pool->to_workers, "--http", "none", "--cache", "none", NULL});
    while (!program_listens(clients) || !program_listens(workers)) {
        if (program_ended(&pool->broker) || clock_now_us() > limit_us) {
            return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                 "penstock-broker did not start for a pool of plan's own; --bin names its folder.");
        }
        pause_ms(10);
    }
    return PEN_OK;
}

enum pen_status plan_pool_open(struct plan_pool *pool, struct pen_error *reterr)
{
    const char *temporary = getenv("TMPDIR");
    struct pen_client_options options;
    snprintf(pool->folder, sizeof pool->folder, "%.150s/penstock-plan-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(pool->folder)) {
        enum pen_status status =
            pen_error_set(reterr, PEN_ERR_IO, "%s: cannot make the folder: %s.", pool->folder, strerror(errno));
        pool->folder[0] = '\0';
        return status;
    }
    enum pen_status status = start_broker(pool, reterr);
    if (status != PEN_OK) {
        return status;
    }
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool->clients;
    options.name = "penstock plan";
    return pen_client_connect(&options, &pool->client, reterr);
}

static pid_t start_worker(struct plan_pool *pool, const char *slots, const char *threads, const char *folder)
{
    static char texts[OPTIONS_MAX][128];
    const char *args[16 + OPTIONS_MAX] = {
        "penstock-worker", "--broker", pool->to_workers, "--models", folder,      "--slots", slots,
        "--threads",       threads,    "--measure",      "off",      "--metrics", "none"};
    size_t count = 13;
    for (size_t i = 0; i < pool->options->count && i < OPTIONS_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "--%.120s", pool->options->items[i]);
        args[count++] = texts[i];
    }
    return start(pool, "penstock-worker", args);
}

static void stop_workers(struct plan_pool *pool)
{
    for (uint32_t i = 0; i < pool->workers_count; i++) {
        program_stop(&pool->workers[i], STOP_MS);
    }
    pool->workers_count = 0;
}

static uint32_t offers_ready(const struct pen_model *model)
{
    uint32_t ready = 0;
    for (size_t i = 0; model && i < model->offers_count; i++) {
        ready += model->offers[i]->ready;
    }
    return ready;
}

/* What the worker's own page of failures says; OK: nothing. */
static enum pen_status why_not(const struct plan_pool *pool, const struct pen_model_list *models,
                               struct pen_error *reterr)
{
    return failed_why(models, pool->model, 0, reterr) != PEN_OK ? PEN_ERR_UNAVAILABLE : PEN_OK;
}

static enum pen_status ended_early(struct plan_pool *pool, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < pool->workers_count; i++) {
        if (program_ended(&pool->workers[i])) {
            return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                 "a worker of plan's own ended before it served %s; start penstock-worker --models "
                                 "%.300s with the same options to see why.",
                                 pool->model, pool->models);
        }
    }
    return PEN_OK;
}

static enum pen_status serves(struct plan_pool *pool, struct pen_model_list **ret_models, struct pen_error *reterr)
{
    uint64_t limit_us = clock_now_us() + SERVES_US;
    enum pen_status status = PEN_OK;
    while (status == PEN_OK) {
        struct pen_model_list *models = NULL;
        status = pen_client_models(pool->client, ASK_US, &models, reterr);
        if (status == PEN_OK && offers_ready(model_find(models, pool->model, 0)) >= pool->workers_count) {
            *ret_models = models;
            return PEN_OK;
        }
        status = status == PEN_OK ? why_not(pool, models, reterr) : status;
        pen_client_models_free(models);
        status = status == PEN_OK ? ended_early(pool, reterr) : status;
        if (status == PEN_OK && clock_now_us() > limit_us) {
            status = pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                   "workers of plan's own did not serve %s within 2 minutes.", pool->model);
        }
        pause_ms(20);
    }
    return status;
}

enum pen_status plan_pool_serve(struct plan_pool *pool, uint32_t workers, uint32_t slots, uint32_t threads,
                                const struct plan_values *values, struct pen_model_list **ret_models,
                                struct pen_error *reterr)
{
    char folder[PLAN_PATH_BYTES], slots_text[16], threads_text[16];
    snprintf(folder, sizeof folder, "%s/models", pool->folder);
    snprintf(slots_text, sizeof slots_text, "%" PRIu32, slots);
    snprintf(threads_text, sizeof threads_text, "%" PRIu32, threads);
    stop_workers(pool);
    enum pen_status status = plan_config_copy(pool->models, pool->model, folder, values, reterr);
    if (status != PEN_OK) {
        return status;
    }
    while (pool->workers_count < workers && pool->workers_count < PLAN_POOL_WORKERS_MAX) {
        pool->workers[pool->workers_count++] = start_worker(pool, slots_text, threads_text, folder);
    }
    return serves(pool, ret_models, reterr);
}

/* Only what we made ourselves. */
static void remove_folder(const struct plan_pool *pool)
{
    char path[PLAN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/models", pool->folder);
    plan_config_remove(path, pool->model);
    for (uint32_t i = 0; i < pool->started; i++) {
        snprintf(path, sizeof path, "%s/%03" PRIu32 ".log", pool->folder, i);
        unlink(path);
    }
    rmdir(pool->folder);
}

void plan_pool_close(struct plan_pool *pool)
{
    pen_client_free(pool->client);
    pool->client = NULL;
    stop_workers(pool);
    program_stop(&pool->broker, STOP_MS);
    if (pool->folder[0]) {
        remove_folder(pool);
    }
}
