/* plan_own.c - measuring and proving on workers of plan's own. */
#include "plan_run_internal.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_BATCH_MAX   32u /* tried without --batch-max */
#define OWN_WORKERS_MAX 8u  /* measured together */
#define THREADS_MAX     256u

static uint32_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1u;
}

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
    struct plan_jobs jobs;
    values.warm_count = warm_sizes(rows_max, sizes);
    enum pen_status status =
        plan_pool_serve(pool, curve->workers, curve->slots, curve->threads, &values, &models, reterr);
    status = status == PEN_OK ? plan_jobs_make(o, o->model, &jobs, reterr) : status;
    if (status == PEN_OK) {
        const struct pen_model *model = model_find(models, o->model, 0);
        snprintf(curve->backend, sizeof curve->backend, "%s", model->offers[0]->backend);
        status = plan_measure_kind(o, pool->client, model, &jobs.request.options, rows_max, curve, reterr);
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
        plan_head_make(model_find(models, o->model, 0), curves);
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
    struct plan_jobs jobs;
    *proof = (struct plan_proof){.workers = s->workers < room ? s->workers : room};
    proof->rate = goal->rate * (double)proof->workers / (double)s->workers;
    enum pen_status status = plan_pool_open(&pool, reterr);
    status = status == PEN_OK
                 ? plan_pool_serve(&pool, proof->workers, s->curve->slots, s->curve->threads, &values, &models, reterr)
                 : status;
    status = status == PEN_OK ? plan_jobs_make(o, o->model, &jobs, reterr) : status;
    if (status == PEN_OK) {
        status = plan_prove_with(o, pool.client, model_find(models, o->model, 0), goal, &jobs.request.options, proof,
                                 reterr);
    }
    pen_client_models_free(models);
    plan_pool_close(&pool);
    return status;
}
