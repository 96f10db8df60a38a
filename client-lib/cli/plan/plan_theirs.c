/* plan_theirs.c - measuring and proving on the pool that is there. */
#include "plan_run_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection to the pool, and what it has. */
struct pool {
    pen_client *client;
    struct pen_model_list *models;
    struct pen_worker_list *workers;
    const struct pen_model *model;
};

static void pool_fini(struct pool *pool)
{
    pen_client_free(pool->client);
    pen_client_models_free(pool->models);
    pen_client_workers_free(pool->workers);
}

static enum pen_status pool_open(const struct plan_options *o, const char *model, struct pool *pool, int *ret_code,
                                 struct pen_error *reterr)
{
    uint64_t version = (uint64_t)o->request.version;
    pool->client = command_connect_for_jobs(&o->common, "penstock plan", DRAIN_TELLS, ret_code);
    if (!pool->client) {
        return PEN_ERR_UNAVAILABLE; /* it was told */
    }
    enum pen_status status = command_models_wait(&o->common, pool->client, &pool->models, reterr);
    status = status == PEN_OK ? pen_client_workers(pool->client, o->common.timeout_us, &pool->workers, reterr) : status;
    if (status == PEN_OK) {
        pool->model = model_find(pool->models, model, version);
        status = pool->model ? PEN_OK : model_missing(pool->models, model, version, reterr);
    }
    *ret_code = status == PEN_OK ? EXIT_OK : command_exit_of(status);
    return status;
}

static bool worker_has(const struct pen_worker *worker, const struct pen_model *model)
{
    char name[300];
    snprintf(name, sizeof name, "%.255s:%" PRIu64, model->name, model->version);
    for (size_t i = 0; i < worker->models_count; i++) {
        if (strcmp(worker->models[i], name) == 0) {
            return strcmp(worker->state, "ready") == 0;
        }
    }
    return false;
}

static struct curve *kind_find(struct curves *curves, const struct pen_worker *worker)
{
    for (size_t i = 0; i < curves->count; i++) {
        struct curve *curve = &curves->curves[i];
        if (curve->threads == worker->threads &&
            strncmp(curve->backend, worker->backend, sizeof curve->backend - 1) == 0) {
            return curve;
        }
    }
    return NULL;
}

/* Kinds differ in backend and threads, by which jobs can choose. Where the slots of a kind differ, it counts with their mean. */
static enum pen_status kinds_find(const struct plan_options *o, const struct pool *pool, struct curves *curves,
                                  struct pen_error *reterr)
{
    uint32_t slots[CURVES_MAX] = {0};
    for (size_t i = 0; i < pool->workers->count; i++) {
        const struct pen_worker *worker = pool->workers->workers[i];
        if (!worker_has(worker, pool->model) ||
            (*o->request.backend && strcmp(o->request.backend, worker->backend) != 0)) {
            continue;
        }
        struct curve *curve = kind_find(curves, worker);
        if (!curve && curves->count < CURVES_MAX) {
            curve = &curves->curves[curves->count++];
            snprintf(curve->backend, sizeof curve->backend, "%s", worker->backend);
            curve->threads = worker->threads ? worker->threads : 1u;
        }
        if (curve) {
            curve->workers++;
            slots[curve - curves->curves] += worker->slots ? worker->slots : 1u;
            curve->slots = slots[curve - curves->curves] / curve->workers;
        }
    }
    return curves->count ? PEN_OK
                         : pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no worker that is ready has model \"%s\".",
                                         pool->model->name);
}

static uint32_t pool_rows_max(const struct plan_options *o, const struct pen_model *model)
{
    uint32_t rows = CURVE_BATCH_MAX;
    for (size_t i = 0; i < model->offers_count; i++) {
        rows = model->offers[i]->max_batch_size < rows ? model->offers[i]->max_batch_size : rows;
    }
    rows = o->batch_max && (uint32_t)o->batch_max < rows ? (uint32_t)o->batch_max : rows;
    return plan_is_batched(model) && rows ? rows : 1u;
}

enum pen_status plan_measure_pool(const struct plan_options *o, struct curves *curves, int *ret_code,
                                  struct pen_error *reterr)
{
    struct pool pool = {.client = NULL};
    enum pen_status status = pool_open(o, o->model, &pool, ret_code, reterr);
    if (status == PEN_OK) {
        plan_head_make(pool.model, curves);
        status = kinds_find(o, &pool, curves, reterr);
    }
    for (size_t i = 0; i < curves->count && status == PEN_OK; i++) {
        struct plan_jobs jobs;
        status = plan_jobs_make(o, pool.model->name, &jobs, reterr);
        if (curves->count > 1) {
            plan_jobs_pin(&jobs, &curves->curves[i]);
        }
        if (status == PEN_OK) {
            status = plan_measure_kind(o, pool.client, pool.model, &jobs.request.options, pool_rows_max(o, pool.model),
                                       &curves->curves[i], reterr);
        }
    }
    *ret_code = status == PEN_OK || !pool.client ? *ret_code : command_exit_of_answer(status);
    pool_fini(&pool);
    return status;
}

enum pen_status plan_prove_pool(const struct plan_options *o, const struct plan_goal *goal,
                                const struct plan_setting *setting, struct plan_proof *proof, int *ret_code,
                                struct pen_error *reterr)
{
    struct pool pool = {.client = NULL};
    struct curves *kinds = calloc(1, sizeof *kinds);
    struct plan_jobs jobs;
    enum pen_status status = kinds ? pool_open(o, o->model, &pool, ret_code, reterr)
                                   : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the proof.");
    if (status == PEN_OK && o->apply) { /* what was just written is to be served */
        status = pen_client_model_load(pool.client, pool.model->name, 120000000, NULL, reterr);
    }
    status = status == PEN_OK ? kinds_find(o, &pool, kinds, reterr) : status;
    status = status == PEN_OK ? plan_jobs_make(o, pool.model->name, &jobs, reterr) : status;
    if (status == PEN_OK) {
        struct pen_worker like = {.backend = setting->setting.curve->backend,
                                  .threads = setting->setting.curve->threads};
        const struct curve *kind = kind_find(kinds, &like);
        *proof = (struct plan_proof){.workers = kind ? kind->workers : 0};
        proof->rate = goal->rate * (double)proof->workers / (double)setting->setting.workers;
        if (kinds->count > 1 && kind) {
            plan_jobs_pin(&jobs, kind);
        }
        status = kind ? plan_prove_with(o, pool.client, pool.model, goal, &jobs.request.options, proof, reterr)
                      : pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                      "the pool has no worker of %" PRIu32 " threads a slot on %s that the plan is of.",
                                      setting->setting.curve->threads, setting->setting.curve->backend);
    }
    *ret_code = status == PEN_OK || !pool.client ? *ret_code : command_exit_of_answer(status);
    pool_fini(&pool);
    free(kinds);
    return status;
}
