/* decoders.c - a list of dispatches under a lock; each thread takes the next job of the first one, and passes it on when it is decoded. */
#include "decoders.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "cutout.h"
#include "deadline.h"
#include "logline.h"
#include "pictures.h"
#include "signals.h"
#include "task.h"

#define ARENA_BYTES (1024u * 1024u)
#define JOIN_SLACK  4u /* a job waits for others only when it has so many times the wait left */

struct decoders {
    struct decoders_context context;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct dispatch *first; /* those with jobs that no thread has taken; the most urgent first */
    size_t waiting;         /* dispatches that are not ready, the list's and those at work */
    bool closed, began;
    pthread_t *threads;
    uint32_t threads_count;
    atomic_uint_fast64_t held;
    struct meta_arena arena; /* of the network thread */
};

struct decoders *decoders_new(const struct decoders_context *context)
{
    struct decoders *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->context = *context;
    d->threads = calloc(context->threads, sizeof *d->threads);
    if (!d->threads) {
        free(d);
        return NULL;
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->filled, NULL);
    meta_arena_init(&d->arena, ARENA_BYTES);
    return d;
}

void decoders_free(struct decoders *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->closed = true;
    pthread_mutex_unlock(&d->lock);
    pthread_cond_broadcast(&d->filled);
    for (uint32_t i = 0; i < d->threads_count; i++)
        pthread_join(d->threads[i], NULL);
    meta_arena_fini(&d->arena);
    pthread_cond_destroy(&d->filled);
    pthread_mutex_destroy(&d->lock);
    free(d->threads);
    free(d);
}

/* ---- a job ------------------------------------------------------------------------------------------------------------------------- */

static const Penstock__JobMeta *meta_of(struct meta_arena *arena, const struct job *job)
{
    meta_arena_reset(arena);
    return meta_unpack(arena, &penstock__job_meta__descriptor, job->meta, job->env.meta_bytes);
}

/* A list of files, or one file: STRING or uint8 of rank 1. */
static bool file_like(const Penstock__TensorDesc *desc)
{
    return desc->n_dims == 1 && (desc->dtype == PEN_DTYPE_STRING || desc->dtype == PEN_DTYPE_U8);
}

static bool pictures_wanted(struct decoders *d, const struct dispatch *dispatch)
{
    if (!atomic_load(&d->context.catalog->files_taken))
        return false;
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        const Penstock__JobMeta *meta = meta_of(&d->arena, &dispatch->jobs[i]);
        for (size_t k = 0; meta && k < meta->n_inputs; k++)
            if (file_like(meta->inputs[k]))
                return true;
    }
    return false;
}

static void input_decode(struct decoders *d, const struct served *served, const char *input, struct job *job,
                         const struct pen_tensor *tensor)
{
    if (!job->pictures && pictures_carried(served, served_input(served, input), tensor))
        job->pictures = pictures_prepare(served, tensor, &d->held, d->context.limit_bytes, clock_now_us());
}

static void uncut_decode(struct decoders *d, const struct served *served, struct job *job,
                         const struct pen_tensor *tensor)
{
    if (!job->uncut && served->files_input >= 0)
        job->uncut = uncut_new(served, tensor, &d->held, d->context.limit_bytes, clock_now_us());
}

/* The first step that takes one of the job's files, and the first one that cuts it. Others decode for themselves. */
static void ensemble_decode(struct decoders *d, const struct served *ensemble, struct job *job,
                            const struct pen_tensor *tensors, size_t count)
{
    const struct ensemble_plan *plan = ensemble->config.plan;
    for (size_t s = 0; s < plan->steps_count; s++) {
        const struct ensemble_plan_step *step = &plan->steps[s];
        struct served *served = NULL;
        if (catalog_take(d->context.catalog, step->model, step->version, &served) != PEN_OK)
            return;
        for (size_t i = 0; i < step->inputs_count; i++)
            for (size_t k = 0; k < count; k++)
                if (strcmp(plan->tensors[step->inputs[i].tensor], tensors[k].name) != 0)
                    continue;
                else if (step->crop.present)
                    uncut_decode(d, served, job, &tensors[k]);
                else
                    input_decode(d, served, step->inputs[i].port, job, &tensors[k]);
        served_release(served);
    }
}

/* A job waits for others as long as the model says, unless its deadline is near. */
static uint64_t until_us(const struct served *served, const struct job *job, uint64_t now_us)
{
    uint64_t delay_us = served->config.max_queue_delay_us;
    uint64_t left_us = job->deadline_us > now_us ? job->deadline_us - now_us : 0;
    return delay_us > 0 && left_us / JOIN_SLACK >= delay_us ? now_us + delay_us : now_us;
}

static uint32_t rows_most(struct served *served)
{
    if (served->config.plan) /* its steps have batches of their own */
        return served->max_batch_size;
    return batch_pace_rows(&served->pace, served->warm, served->warm_count, served->max_batch_size);
}

/* With whom the job may run. One that has failed, or that runs alone, joins nobody. */
static void joining_set(struct dispatch *part, struct served *served, const struct job *job)
{
    uint64_t now_us = clock_now_us();
    if (!job->pictures || job->pictures->status != PEN_OK || served->max_batch_size < 2 || served->strings)
        return;
    part->joining = (struct joining){.link = part->link,
                                     .model_hash = job->env.model_hash,
                                     .model = served->digest,
                                     .rows = job->pictures->rows,
                                     .rows_most = rows_most(served),
                                     .ready_us = now_us,
                                     .until_us = until_us(served, job, now_us)};
}

/* A job that cannot be opened stays as it is: the slot finds the same fault and answers it. */
static void job_decode(struct decoders *d, struct meta_arena *arena, const struct dispatch *dispatch, struct job *job)
{
    const Penstock__JobMeta *meta = atomic_load(&job->state) == JOB_WAITING ? meta_of(arena, job) : NULL;
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct served *served = NULL;
    if (!meta || job->deadline_us <= clock_now_us() || task_tensors(dispatch, job, meta, tensors, NULL) != PEN_OK ||
        catalog_take(d->context.catalog, meta->model, meta->version, &served) != PEN_OK)
        return;
    if (meta->crop && meta->n_inputs > 0)
        uncut_decode(d, served, job, &tensors[0]);
    else if (served->config.plan)
        ensemble_decode(d, served, job, tensors, meta->n_inputs);
    else
        for (size_t i = 0; i < meta->n_inputs && !job->pictures; i++)
            input_decode(d, served, tensors[i].name, job, &tensors[i]);
    if (dispatch->parts && !meta->crop && !meta->debug && !meta->f32_exact)
        joining_set(&dispatch->parts[job - dispatch->jobs], served, job);
    served_release(served);
    if (job->uncut) {
        atomic_fetch_add(&d->context.stats->pictures, 1);
        atomic_fetch_add(&d->context.stats->decode_us, job->uncut->took_us);
    }
    if (job->pictures) {
        atomic_fetch_add(&d->context.stats->pictures, job->pictures->rows);
        atomic_fetch_add(&d->context.stats->decode_us, job->pictures->took_us);
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------------------------- */

/* Call it with the lock held. NULL: the end. */
static struct job *job_take(struct decoders *d, struct dispatch **ret_dispatch)
{
    while (!d->first && !d->closed)
        pthread_cond_wait(&d->filled, &d->lock);
    if (d->closed)
        return NULL;
    struct dispatch *dispatch = d->first;
    struct job *job = &dispatch->jobs[dispatch->decode_next++];
    if (dispatch->decode_next == dispatch->jobs_count)
        d->first = dispatch->queue_next;
    *ret_dispatch = dispatch;
    return job;
}

static void *decoder_main(void *argument)
{
    struct decoders *d = argument;
    struct dispatch *dispatch;
    struct job *job;
    struct meta_arena arena;
    meta_arena_init(&arena, ARENA_BYTES);
    pthread_mutex_lock(&d->lock);
    while ((job = job_take(d, &dispatch))) {
        pthread_mutex_unlock(&d->lock);
        job_decode(d, &arena, dispatch, job);
        pthread_mutex_lock(&d->lock);
        PEN_ASSERT(dispatch->decode_left > 0 && d->waiting > 0, "a dispatch that is decoded waits until its last job");
        bool last = --dispatch->decode_left == 0;
        d->waiting -= last;
        if (dispatch->parts)
            handoff_push(d->context.handoff,
                         &dispatch->parts[job - dispatch->jobs]); /* the dispatch may be gone then */
        else if (last)
            handoff_push(d->context.handoff, dispatch);
    }
    pthread_mutex_unlock(&d->lock);
    meta_arena_fini(&arena);
    return NULL;
}

static void threads_begin(struct decoders *d)
{
    sigset_t before;
    d->began = true;
    signals_block(&before);
    for (uint32_t i = 0; i < d->context.threads; i++) {
        char name[24];
        if (pthread_create(&d->threads[i], NULL, decoder_main, d) != 0)
            break;
        snprintf(name, sizeof name, "decoder-%u", i);
        pthread_setname_np(d->threads[i], name);
        d->threads_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (d->threads_count == 0)
        log_event(LOG_WARN, "decoders_failed", "error=%s", "no thread to decode pictures: slots decode them");
}

/* Behind those that are as urgent (1 is the most urgent). Call it with the lock held. */
static void dispatch_insert(struct decoders *d, struct dispatch *dispatch)
{
    struct dispatch **at = &d->first;
    while (*at && (*at)->jobs[0].env.priority <= dispatch->jobs[0].env.priority)
        at = &(*at)->queue_next;
    dispatch->queue_next = *at;
    *at = dispatch;
}

static void dispatch_queue(struct decoders *d, struct dispatch *dispatch)
{
    bool several = dispatch->jobs_count > 1;
    dispatch_split(dispatch);
    for (size_t i = 0; i < dispatch->parts_left; i++)
        handoff_expect(d->context.handoff, &dispatch->parts[i]);
    dispatch->decode_next = 0;
    dispatch->decode_left = dispatch->jobs_count;
    pthread_mutex_lock(&d->lock);
    dispatch_insert(d, dispatch);
    d->waiting++;
    pthread_mutex_unlock(&d->lock);
    if (several)
        pthread_cond_broadcast(&d->filled);
    else
        pthread_cond_signal(&d->filled);
}

void decoders_pass(struct decoders *d, struct dispatch *dispatch)
{
    bool wanted = pictures_wanted(d, dispatch);
    if (wanted && !d->began)
        threads_begin(d);
    if (wanted && d->threads_count > 0)
        dispatch_queue(d, dispatch);
    else
        handoff_push(d->context.handoff, dispatch);
}

size_t decoders_waiting(struct decoders *d)
{
    if (!d)
        return 0;
    pthread_mutex_lock(&d->lock);
    size_t waiting = d->waiting;
    pthread_mutex_unlock(&d->lock);
    return waiting;
}
