#include "plan_run.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_BATCH_MAX   32u /* tried without --batch-max */
#define OWN_WORKERS_MAX 8u  /* measured together */
#define THREADS_MAX     256u
#define NEEDS_MAX       (SETTING_LIST_MAX + 1)

static uint32_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1u;
}

/* ---- what both ways share ---- */

/* What jobs of a measurement or a proof are. */
struct jobs {
    struct request request;
    const char *needs[NEEDS_MAX];
    char threads[32];
};

/* Never from the cache: a run is what is measured. */
static enum pen_status jobs_make(const struct plan_options *o, const char *model, struct jobs *jobs,
                                 struct pen_error *reterr)
{
    enum pen_status status = request_make(&o->request, &jobs->request, reterr);
    jobs->request.options.model = model;
    jobs->request.options.flags |= PEN_JOB_NO_CACHE;
    return status;
}

/* Only on workers of this kind. */
static void jobs_pin(struct jobs *jobs, const struct curve *curve)
{
    struct pen_job_options *job = &jobs->request.options;
    snprintf(jobs->threads, sizeof jobs->threads, "threads=%" PRIu32, curve->threads);
    for (size_t i = 0; i < job->needs_count; i++) {
        jobs->needs[i] = job->needs[i];
    }
    jobs->needs[job->needs_count++] = jobs->threads;
    job->needs = jobs->needs;
    job->backend = *curve->backend ? curve->backend : job->backend;
}

static enum pen_status measure(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                               const struct pen_job_options *job, uint32_t rows_max, struct curve *curve,
                               struct pen_error *reterr)
{
    struct plan_measurement measurement = {.client = client,
                                           .model = model,
                                           .job = *job,
                                           .inputs = &o->request.inputs,
                                           .image = o->image,
                                           .point_us = o->point_us,
                                           .rows_max = rows_max,
                                           .progress = isatty(STDERR_FILENO)};
    if (measurement.progress) {
        fprintf(stderr, "%" PRIu32 " x (%" PRIu32 " slots x %" PRIu32 " threads):\n", curve->workers, curve->slots,
                curve->threads);
    }
    return plan_measure(&measurement, curve, reterr);
}

static bool is_batched(const struct pen_model *model)
{
    return model->inputs_count > 0 && model->inputs[0].batched && model->offers_count > 0 &&
           model->offers[0]->max_batch_size > 0;
}

static void head_make(const struct pen_model *model, struct curves *curves)
{
    memset(curves, 0, sizeof *curves);
    snprintf(curves->model, sizeof curves->model, "%s", model->name);
    curves->version = model->version;
    curves->batched = is_batched(model);
}

/* Offers jobs at random times and looks at the latency. */
static enum pen_status prove(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                             const struct plan_goal *goal, const struct pen_job_options *job, struct plan_proof *proof,
                             struct pen_error *reterr)
{
    struct inputs inputs = {.count = 0};
    struct load_report *report = calloc(1, sizeof *report);
    enum pen_status status = inputs_add_list(&inputs, model, &o->request.inputs, reterr);
    if (status == PEN_OK && *o->image) {
        status = inputs_add_file(&inputs, model, NULL, o->image, reterr);
    }
    status = status == PEN_OK ? inputs_generate(&inputs, model, reterr) : status;
    if (status == PEN_OK && !report) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the proof.");
    }
    if (status == PEN_OK) {
        struct load_plan plan = {.client = client,
                                 .job = *job,
                                 .inputs = &inputs,
                                 .duration_us = o->proof_us,
                                 .rate = proof->rate,
                                 .arrivals = LOAD_POISSON,
                                 .seed = (uint64_t)o->seed + 1, /* other times than the simulated ones */
                                 .progress = isatty(STDERR_FILENO)};
        load_run(&plan, report);
        proof->at_slo_us = (double)histogram_at(&report->latency_us, goal->share);
        proof->requests = report->requests;
        proof->errors = report->errors;
        proof->seconds = (double)report->elapsed_us * 1e-6;
        proof->answers_per_s = load_throughput(report);
        proof->held = report->errors == 0 && report->requests > 0 && proof->at_slo_us <= goal->limit_us;
    }
    free(report);
    inputs_fini(&inputs);
    return status;
}

/* ---- the pool that is there ---- */

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
    return is_batched(model) && rows ? rows : 1u;
}

enum pen_status plan_measure_pool(const struct plan_options *o, struct curves *curves, int *ret_code,
                                  struct pen_error *reterr)
{
    struct pool pool = {.client = NULL};
    enum pen_status status = pool_open(o, o->model, &pool, ret_code, reterr);
    if (status == PEN_OK) {
        head_make(pool.model, curves);
        status = kinds_find(o, &pool, curves, reterr);
    }
    for (size_t i = 0; i < curves->count && status == PEN_OK; i++) {
        struct jobs jobs;
        status = jobs_make(o, pool.model->name, &jobs, reterr);
        if (curves->count > 1) {
            jobs_pin(&jobs, &curves->curves[i]);
        }
        if (status == PEN_OK) {
            status = measure(o, pool.client, pool.model, &jobs.request.options, pool_rows_max(o, pool.model),
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
    struct jobs jobs;
    enum pen_status status = kinds ? pool_open(o, o->model, &pool, ret_code, reterr)
                                   : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the proof.");
    if (status == PEN_OK && o->apply) { /* what was just written is to be served */
        status = pen_client_model_load(pool.client, pool.model->name, 120000000, NULL, reterr);
    }
    status = status == PEN_OK ? kinds_find(o, &pool, kinds, reterr) : status;
    status = status == PEN_OK ? jobs_make(o, pool.model->name, &jobs, reterr) : status;
    if (status == PEN_OK) {
        struct pen_worker like = {.backend = setting->setting.curve->backend,
                                  .threads = setting->setting.curve->threads};
        const struct curve *kind = kind_find(kinds, &like);
        *proof = (struct plan_proof){.workers = kind ? kind->workers : 0};
        proof->rate = goal->rate * (double)proof->workers / (double)setting->setting.workers;
        if (kinds->count > 1 && kind) {
            jobs_pin(&jobs, kind);
        }
        status = kind ? prove(o, pool.client, pool.model, goal, &jobs.request.options, proof, reterr)
                      : pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                                      "the pool has no worker of %" PRIu32 " threads a slot on %s that the plan is of.",
                                      setting->setting.curve->threads, setting->setting.curve->backend);
    }
    *ret_code = status == PEN_OK || !pool.client ? *ret_code : command_exit_of_answer(status);
    pool_fini(&pool);
    free(kinds);
    return status;
}

/* ---- workers of plan's own ---- */

/* "1,2,4"; "" is 1. False: something else, or more than CURVES_MAX numbers. */
static bool numbers_parse(const char *text, uint32_t most, uint32_t numbers[CURVES_MAX], size_t *ret_count)
{
    const char *at = *text ? text : "1";
    for (size_t count = 0; count < CURVES_MAX; at++) {
        char *end;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (number < 1 || number > most || (*end && *end != ',')) {
            return false;
        }
        numbers[count++] = (uint32_t)number;
        *ret_count = count;
        at = end;
        if (!*end) {
            return true;
        }
    }
    return false;
}

static void kind_add(struct plan_kinds *kinds, uint32_t slots, uint32_t threads)
{
    if (slots * threads > processors()) {
        fprintf(stderr,
                "penstock plan: %" PRIu32 " slots of %" PRIu32 " threads are left out: there are %" PRIu32
                " processors.\n",
                slots, threads, processors());
        return;
    }
    kinds->kinds[kinds->count].slots = slots;
    kinds->kinds[kinds->count++].threads = threads;
}

enum pen_status plan_kinds_parse(const struct plan_options *o, struct plan_kinds *ret_kinds, struct pen_error *reterr)
{
    uint32_t slots[CURVES_MAX], threads[CURVES_MAX];
    size_t slots_count = 0, threads_count = 0;
    *ret_kinds = (struct plan_kinds){.count = 0};
    if (!*o->slots && !*o->threads) {
        return PEN_OK;
    }
    if (!numbers_parse(o->slots, CURVE_SLOTS_MAX, slots, &slots_count) ||
        !numbers_parse(o->threads, THREADS_MAX, threads, &threads_count) || slots_count * threads_count > CURVES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--try-slots takes numbers of 1 to 64 and --try-threads of 1 to 256, such as 1,2,4; at "
                             "most 16 pairs of them.");
    }
    for (size_t i = 0; i < slots_count * threads_count; i++) {
        kind_add(ret_kinds, slots[i / threads_count], threads[i % threads_count]);
    }
    return ret_kinds->count
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_INVALID,
                               "this machine has %" PRIu32 " processors: too few for any of these slots and threads.",
                               processors());
}

static struct plan_pool own_pool(const struct plan_options *o)
{
    return (struct plan_pool){.bin = o->bin, .models = o->models, .model = o->model, .options = &o->worker_options};
}

/* As many workers as the machine has processors for, so that the times are those of a full machine. */
static uint32_t own_workers(uint32_t slots, uint32_t threads)
{
    uint32_t workers = processors() / (slots * threads);
    return workers < 1 ? 1 : workers < OWN_WORKERS_MAX ? workers : OWN_WORKERS_MAX;
}

static size_t warm_sizes(uint32_t rows_max, uint32_t sizes[CURVE_SIZES_MAX])
{
    size_t count = 0;
    for (uint32_t rows = 1; rows < rows_max && count < CURVE_SIZES_MAX - 1; rows *= 2) {
        sizes[count++] = rows;
    }
    sizes[count++] = rows_max;
    return count;
}

static enum pen_status measure_kind(const struct plan_options *o, struct plan_pool *pool, bool batched,
                                    struct curve *curve, struct pen_error *reterr)
{
    uint32_t sizes[CURVE_SIZES_MAX], rows_max = !batched ? 1u : o->batch_max ? (uint32_t)o->batch_max : OWN_BATCH_MAX;
    struct plan_values values = {.batched = batched, .batch = rows_max, .slots = curve->slots, .warm = sizes};
    struct pen_model_list *models = NULL;
    struct jobs jobs;
    values.warm_count = warm_sizes(rows_max, sizes);
    enum pen_status status =
        plan_pool_serve(pool, curve->workers, curve->slots, curve->threads, &values, &models, reterr);
    status = status == PEN_OK ? jobs_make(o, o->model, &jobs, reterr) : status;
    if (status == PEN_OK) {
        const struct pen_model *model = model_find(models, o->model, 0);
        snprintf(curve->backend, sizeof curve->backend, "%s", model->offers[0]->backend);
        status = measure(o, pool->client, model, &jobs.request.options, rows_max, curve, reterr);
    }
    pen_client_models_free(models);
    return status;
}

enum pen_status plan_measure_own(const struct plan_options *o, const struct plan_kinds *kinds, struct curves *curves,
                                 struct pen_error *reterr)
{
    struct plan_pool pool = own_pool(o);
    struct pen_model_list *models = NULL;
    enum pen_status status = plan_pool_open(&pool, reterr);
    if (status == PEN_OK) { /* as its config.json is: does it take batches? */
        status = plan_pool_serve(&pool, 1, 1, 1, NULL, &models, reterr);
    }
    if (status == PEN_OK) {
        head_make(model_find(models, o->model, 0), curves);
        pen_client_models_free(models);
    }
    for (size_t i = 0; i < kinds->count && status == PEN_OK; i++) {
        struct curve *curve = &curves->curves[curves->count++];
        *curve = (struct curve){.slots = kinds->kinds[i].slots, .threads = kinds->kinds[i].threads, .own = true};
        curve->workers = own_workers(curve->slots, curve->threads);
        status = measure_kind(o, &pool, curves->batched, curve, reterr);
    }
    plan_pool_close(&pool);
    return status;
}

enum pen_status plan_prove_own(const struct plan_options *o, const struct plan_goal *goal,
                               const struct plan_setting *setting, bool batched, struct plan_proof *proof,
                               struct pen_error *reterr)
{
    const struct sim_setting *s = &setting->setting;
    uint32_t room = own_workers(s->curve->slots, s->curve->threads);
    uint32_t sizes[CURVE_SIZES_MAX];
    struct plan_values values = {.batched = batched,
                                 .batch = s->batch,
                                 .delay_us = s->delay_us,
                                 .slots = s->curve->slots,
                                 .warm = sizes,
                                 .warm_count = curve_rows_up_to(s->curve, s->batch, sizes)};
    struct plan_pool pool = own_pool(o);
    struct pen_model_list *models = NULL;
    struct jobs jobs;
    *proof = (struct plan_proof){.workers = s->workers < room ? s->workers : room};
    proof->rate = goal->rate * (double)proof->workers / (double)s->workers;
    enum pen_status status = plan_pool_open(&pool, reterr);
    status = status == PEN_OK
                 ? plan_pool_serve(&pool, proof->workers, s->curve->slots, s->curve->threads, &values, &models, reterr)
                 : status;
    status = status == PEN_OK ? jobs_make(o, o->model, &jobs, reterr) : status;
    if (status == PEN_OK) {
        status = prove(o, pool.client, model_find(models, o->model, 0), goal, &jobs.request.options, proof, reterr);
    }
    pen_client_models_free(models);
    plan_pool_close(&pool);
    return status;
}
