/* measurer.c - a thread that waits for models without a result. */
#include "measurer.h"

#include "background.h"
#include "logline.h"
#include "measure.h"
#include "measure_whole.h"
#include "signals.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define BEGIN_AFTER_S 1

struct measurer {
    struct catalog *catalog;
    uint64_t budget_bytes;
    void (*told)(void *context);
    void *context;
    struct pen_stop *run; /* armed for the run that is under way */
    pthread_t thread;
    pthread_mutex_t lock; /* guards wanted, stop */
    pthread_cond_t wake;
    bool started, wanted, stop;
};

struct measurer *measurer_new(struct catalog *catalog, uint64_t budget_bytes)
{
    pthread_condattr_t attributes;
    struct measurer *m = calloc(1, sizeof *m);
    struct pen_stop *run = m ? pen_stop_new() : NULL;
    if (!run) {
        free(m);
        return NULL;
    }
    *m = (struct measurer){.catalog = catalog, .budget_bytes = budget_bytes, .run = run, .wanted = true};
    pen_stop_arm(run, UINT64_MAX);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return m;
}

/* ---- one model ------------------------------------------------------------------------------------------------------------------------ */

struct measurement {
    struct served *served;
    struct served *const *steps; /* of an ensemble; NULL = a model */
    const struct pen_stop *stop;
    struct pen_error why;
    enum pen_status status;
};

static void measurement_make(void *argument)
{
    struct measurement *one = argument;
    pen_thread_alone(true);
    one->status = one->steps ? measure_whole_run(one->served, one->steps, one->stop, &one->why)
                             : measure_run(one->served, one->stop, &one->why);
}

/* Whether all that it needs fits into memory a second time. */
static bool fits(const struct measurer *m, const struct measurement *one)
{
    struct pen_memory all;
    pen_memory(&all);
    uint64_t bytes = all.weights_bytes + all.arena_bytes;
    size_t count = one->steps ? one->served->config.plan->steps_count : 1;
    for (size_t i = 0; i < count; i++)
        bytes += pen_model_memory(one->steps ? one->steps[i]->model : one->served->model);
    return m->budget_bytes == 0 || bytes <= m->budget_bytes;
}

static void one_measure(struct measurer *m, struct served *served, struct served *const *steps)
{
    struct measurement one = {.served = served, .steps = steps, .stop = m->run, .status = PEN_ERR_NO_MEMORY};
    if (!fits(m, &one))
        one.status = pen_error_set(&one.why, PEN_ERR_TOO_LARGE, "it does not fit a second time within --memory-budget");
    else if (background_run("measure", measurement_make, &one) != PEN_OK)
        pen_error_set(&one.why, PEN_ERR_NO_MEMORY, "there was no memory for a thread");
    if (one.status == PEN_OK || one.status == PEN_ERR_CANCELLED)
        return;
    if (steps)
        measure_whole_give_up(served, steps);
    else
        atomic_store(&served->measured_as, SERVED_UNMEASURABLE);
    log_event(LOG_INFO, "model_not_measured", "model=%s version=%" PRIu64 " reason=%s", served->name, served->version,
              one.why.text);
}

/* ---- the thread ----------------------------------------------------------------------------------------------------------------------- */

static bool stopping(struct measurer *m)
{
    pthread_mutex_lock(&m->lock);
    bool stop = m->stop;
    pthread_mutex_unlock(&m->lock);
    return stop;
}

/* Waits for new models, then a second. False: it is over. */
static bool wanted_wait(struct measurer *m)
{
    struct timespec until;
    int timed_out = 0;
    pthread_mutex_lock(&m->lock);
    while (!m->wanted && !m->stop)
        pthread_cond_wait(&m->wake, &m->lock);
    m->wanted = false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BEGIN_AFTER_S;
    while (!m->stop && timed_out == 0)
        timed_out = pthread_cond_timedwait(&m->wake, &m->lock, &until);
    bool stop = m->stop;
    pthread_mutex_unlock(&m->lock);
    return !stop;
}

static void models_measure(struct measurer *m)
{
    struct served *served;
    while (!stopping(m) && (served = catalog_take_unmeasured(m->catalog)) != NULL) {
        one_measure(m, served, NULL);
        bool known = atomic_load(&served->measured_as) != SERVED_NOT_MEASURED;
        served_release(served);
        if (known)
            m->told(m->context);
    }
}

static void ensembles_measure(struct measurer *m)
{
    struct whole_taken taken;
    size_t at = 0;
    while (!stopping(m) && measure_whole_take(m->catalog, &at, &taken)) {
        one_measure(m, taken.ensemble, taken.steps);
        measure_whole_release(&taken);
        if (!stopping(m))
            m->told(m->context);
    }
}

static void *measurer_main(void *argument)
{
    struct measurer *m = argument;
    pthread_setname_np(pthread_self(), "measurer");
    while (wanted_wait(m)) {
        models_measure(m);
        ensembles_measure(m);
    }
    return NULL;
}

enum pen_status measurer_start(struct measurer *measurer, void (*told)(void *context), void *context)
{
    sigset_t before;
    measurer->told = told;
    measurer->context = context;
    signals_block(&before); /* they go to the network thread */
    measurer->started = pthread_create(&measurer->thread, NULL, measurer_main, measurer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return measurer->started ? PEN_OK : PEN_ERR_NO_MEMORY;
}

void measurer_wake(struct measurer *measurer)
{
    if (!measurer)
        return;
    pthread_mutex_lock(&measurer->lock);
    measurer->wanted = true;
    pthread_mutex_unlock(&measurer->lock);
    pthread_cond_signal(&measurer->wake);
}

void measurer_stop(struct measurer *measurer)
{
    if (!measurer || !measurer->started)
        return;
    pthread_mutex_lock(&measurer->lock);
    measurer->stop = true;
    pthread_mutex_unlock(&measurer->lock);
    pen_stop_now(measurer->run);
    pthread_cond_signal(&measurer->wake);
    pthread_join(measurer->thread, NULL);
    measurer->started = false;
}

void measurer_free(struct measurer *measurer)
{
    if (!measurer)
        return;
    pen_stop_free(measurer->run);
    pthread_cond_destroy(&measurer->wake);
    pthread_mutex_destroy(&measurer->lock);
    free(measurer);
}
