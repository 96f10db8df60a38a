/* watch.c - the watch's thread: it carries out orders, makes room, looks at the folder, and posts changes. */
#include "watch_own.h"

#include "assertion.h"
#include "deadline.h"
#include "loader.h"
#include "logline.h"
#include "residence.h"
#include "signals.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STEP_US        20000u      /* how often to look at models that are being withdrawn */
#define GROWN_STEP_US  250000u     /* how often to look at the memory of models, under --memory-budget */
#define ROOM_STEP_US   1000u       /* how often to look while a model waits for that memory */
#define ORDERS_ONLY_US 3600000000u /* how often to wake when only orders matter */

bool watch_stopping(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool stop = watch->stop;
    pthread_mutex_unlock(&watch->lock);
    return stop;
}

void watch_failed(struct watch *watch, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error)
{
    failures_add(watch->seen.failures, name, version, stamp, error);
    log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", name, version,
              pen_status_name(error->status), error->text);
}

/* ---- the thread -------------------------------------------------------------------------------------------------------------------- */

static void post(struct watch *watch)
{
    struct hello *hello = NULL;
    struct pen_error error = {0};
    if (hello_new(&watch->context.facts, &hello, &error) != PEN_OK) {
        log_event(LOG_ERROR, "update_failed", "error=%s", error.text);
        watch->unposted = true;
        return;
    }
    watch->failures_told = failures_changes(watch->seen.failures);
    watch->unposted = false;
    pthread_mutex_lock(&watch->lock);
    hello_free(watch->posted); /* nobody has taken the older one: the newer one has all of its changes */
    watch->posted = hello;
    uint64_t generation = ++watch->generation;
    PEN_ASSERT(generation > atomic_load(&watch->settled), "a change is settled after it was posted");
    atomic_store(&watch->any_posted, true);
    pthread_mutex_unlock(&watch->lock);
    retired_offered(&watch->retired, generation);
    outbox_wake(watch->context.outbox);
    measurer_wake(watch->context.measurer);
}

/* ---- room -------------------------------------------------------------------------------------------------------------------------- */

static void want(struct watch *watch, struct served *served)
{
    if (served->residence.wanted_us != 0 || !(served->residence.cold || served->residence.leaving))
        return;
    log_event(LOG_INFO, "model_wanted", "model=%s version=%" PRIu64 " load_us=%" PRIu64, served->name, served->version,
              served->residence.load_us);
    served->residence.wanted_us = clock_now_us();
    watch->room_us = 0;
}

/* True while a slot runs a job, of whatever model. */
static bool any_runs(const struct catalog *catalog)
{
    bool any = false;
    for (size_t i = 0; i < catalog->count; i++)
        any |= atomic_load(&catalog->models[i]->users) > 0;
    return any;
}

/* Under --memory-budget the declared sizes are prepared at once, so that the model's memory is known before it is
   offered; else the first job is not kept waiting for them. */
static enum pen_status load_again(struct watch *watch, struct served *served, struct pen_error *reterr)
{
    const struct watch_context *context = &watch->context;
    uint32_t slots = context->facts.slots;
    return context->options->memory_budget > 0
               ? loader_heat(context->engine, served, slots, context->facts.threads, reterr)
               : loader_wake(context->engine, served, slots, any_runs(context->catalog), reterr);
}

/* True: the model is offered as warm from now on, or, when it cannot be loaded any more, not at all. */
static bool heat(struct watch *watch, struct served *served)
{
    const struct watch_context *context = &watch->context;
    struct pen_error error = {0};
    uint64_t start_us = clock_now_us();
    PEN_ASSERT(served->residence.cold && served->residence.wanted_us != 0, "a model is heated that is cold and wanted");
    if (load_again(watch, served, &error) != PEN_OK) {
        residence_explain((uint64_t)context->options->memory_budget, &error);
        watch_failed(watch, served->name, served->version, served->stamp, &error);
        served->residence.wanted_us = 0;
        retired_add(&watch->retired, served, STAGE_WITHDRAWN);
        return true;
    }
    residence_came(context->catalog, served, start_us, clock_now_us());
    residence_warm(context->catalog, served);
    failures_drop(watch->seen.failures, served->name, served->version, served->stamp);
    served_log(served, served->residence.load_us);
    return true;
}

/* The model can never be loaded, so its jobs wait in vain. */
static void room_never(struct watch *watch, struct served *wanted)
{
    struct pen_error error = {0};
    pen_error_set(&error, PEN_ERR_TOO_LARGE,
                  "it needs %" PRIu64 " bytes with its sessions, more than --memory-budget grants to all",
                  wanted->memory_bytes);
    wanted->residence.wanted_us = 0;
    watch_failed(watch, wanted->name, wanted->version, wanted->stamp, &error);
}

/* The models have grown beyond the budget with the shapes of jobs: the least recently used one makes room. */
static bool grown_step(struct watch *watch)
{
    struct served *victim =
        residence_grown(watch->context.catalog, (uint64_t)watch->context.options->memory_budget, clock_now_us());
    if (!victim)
        return false;
    log_event(LOG_INFO, "model_leaves", "model=%s version=%" PRIu64 " for=%s", victim->name, victim->version,
              "models that have grown beyond --memory-budget");
    retired_cool(&watch->retired, victim);
    return true;
}

bool watch_idle_step(struct watch *watch)
{
    const struct catalog *catalog = watch->context.catalog;
    uint64_t now_us = clock_now_us(), idle_us = (uint64_t)watch->context.options->idle_unload_us;
    struct served *idle;
    bool changed = false;
    while (watch->retired.count < RETIRED_MAX && (idle = residence_idle(catalog, idle_us, now_us, &watch->idle_us))) {
        retired_forget(&watch->retired, idle); /* it may linger: a newer version has replaced it */
        log_event(LOG_INFO, "model_sleeps", "model=%s version=%" PRIu64 " idle_us=%" PRIu64 " load_us=%" PRIu64,
                  idle->name, idle->version, idle_us, idle->residence.load_us);
        retired_cool(&watch->retired, idle);
        changed = true;
    }
    return changed;
}

bool watch_room_step(struct watch *watch)
{
    struct served *wanted = residence_wanted(watch->context.catalog), *victim = NULL;
    watch->room_us = UINT64_MAX;
    if (watch->context.options->memory_budget > 0)
        residence_weigh(watch->context.catalog);
    if (!wanted)
        return grown_step(watch);
    switch (residence_room(watch->context.catalog, (uint64_t)watch->context.options->memory_budget, wanted,
                           clock_now_us(), &victim, &watch->room_us)) {
    case ROOM_FITS:
        watch->room_us = 0; /* there may be another */
        return heat(watch, wanted);
    case ROOM_EVICT:
        watch->room_us = 0;
        PEN_ASSERT(victim && victim != wanted && !victim->residence.cold, "another model makes room, one in memory");
        log_event(LOG_INFO, "model_leaves", "model=%s version=%" PRIu64 " for=%s", victim->name, victim->version,
                  wanted->name);
        retired_cool(&watch->retired, victim);
        return true;
    case ROOM_NEVER:
        room_never(watch, wanted);
        break;
    case ROOM_WAIT:
        break;
    }
    return false;
}

/* ---- orders ------------------------------------------------------------------------------------------------------------------------ */

static bool is_meant(const struct order *order, const char *name, uint64_t version)
{
    return strcmp(order->name, name) == 0 && (order->version == 0 || order->version == version);
}

/* What the look at the folder found wrong with a model that the order means; NULL: nothing. */
static const struct failure *failure_meant(const struct watch *watch, const struct order *order)
{
    size_t count, all;
    const struct failure *failures = failures_list(watch->seen.failures, &count, &all);
    for (size_t i = 0; i < count; i++)
        if (is_meant(order, failures[i].name, failures[i].version) ||
            (failures[i].version == 0 && strcmp(failures[i].name, order->name) == 0))
            return &failures[i];
    return NULL;
}

static void order_misses(const struct watch *watch, struct order *order)
{
    char near[CATALOG_NEAREST_BYTES];
    const struct failure *failure = failure_meant(watch, order);
    if (failure)
        pen_error_set(&order->outcome, failure->status, "%s", failure->text);
    else
        pen_error_set(&order->outcome, PEN_ERR_NOT_FOUND, "there is no such model in %.512s%s",
                      watch->context.options->models,
                      catalog_nearest(watch->context.options->models, order->name, near));
}

/* Loads at once the models that the order names and that are not served yet; one that failed before is tried again. */
static bool order_load(struct watch *watch, struct order *order, struct catalog *found)
{
    bool changed = watch_revive(watch, found, order->name);
    size_t meant = 0;
    for (size_t i = 0; i < found->entries_count && !watch_stopping(watch); i++) {
        struct pen_error error = {0};
        struct catalog_entry *entry = &found->entries[i];
        if (!is_meant(order, entry->name, entry->version))
            continue;
        meant++;
        struct served *served = watch_serving(watch, entry);
        if (served)
            want(watch, served);
        else
            changed |= watch_entry_load(watch, entry, &error);
        if (order->outcome.status == PEN_OK)
            order->outcome = error; /* the first failure is the answer, but the others are loaded all the same */
    }
    if (meant == 0)
        order_misses(watch, order);
    if (order->outcome.status == PEN_OK)
        changed |= watch_retire(watch, found, order->name);
    return changed;
}

static bool is_ordered(const void *context, const struct served *served)
{
    return is_meant(context, served->name, served->version);
}

static bool order_unload(struct watch *watch, struct order *order)
{
    const struct catalog *catalog = watch->context.catalog;
    size_t meant = retired_hurry(&watch->retired, is_ordered, order); /* those that are on their way out go at once */
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        if (!is_ordered(order, served) || retired_has(&watch->retired, served))
            continue;
        retired_add(&watch->retired, served, STAGE_WITHDRAWN);
        meant++;
    }
    if (meant == 0)
        pen_error_set(&order->outcome, PEN_ERR_NOT_FOUND, "this worker does not serve it");
    return meant > 0;
}

/* A broker has jobs for a cold model; the answer only says that the order has arrived. */
static void order_warm(struct watch *watch, struct order *order)
{
    struct served *served = catalog_find(watch->context.catalog, order->name, order->version);
    if (!served || served->withdrawn)
        pen_error_set(&order->outcome, PEN_ERR_NOT_FOUND, "this worker does not serve it");
    else
        want(watch, served);
}

/* True: the list of offers has changed. */
static bool order_run(struct watch *watch, struct order *order)
{
    struct catalog found;
    bool changed = false;
    if (order->kind == ORDER_WARM) {
        order_warm(watch, order);
        return false;
    }
    log_event(LOG_INFO, "model_order", "order=%s model=%s version=%" PRIu64, order_name(order->kind), order->name,
              order->version);
    if (orders_apply(watch->context.orders, order, &order->outcome) != PEN_OK)
        return false;
    if (order->kind == ORDER_UNLOAD)
        return order_unload(watch, order);
    if (watch_scan(watch, &found, &order->outcome) == PEN_OK) {
        changed = order_load(watch, order, &found);
        catalog_fini(&found);
    }
    return changed;
}

/* True when there is a change that the brokers have not been told. */
static bool unposted(const struct watch *watch)
{
    return watch->unposted || watch->failures_told != failures_changes(watch->seen.failures);
}

/* The outcome is sent after the changed list, so that the client finds the model. */
static void orders_run(struct watch *watch)
{
    struct order order;
    while (!watch_stopping(watch) && orders_take(watch->context.orders, &order)) {
        if (order_run(watch, &order) || unposted(watch))
            post(watch);
        orders_done(watch->context.orders, &order);
        outbox_wake(watch->context.outbox);
    }
}

static void pause_for(struct watch *watch, uint64_t us)
{
    uint64_t until_us = clock_now_us() + us;
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000u), .tv_nsec = (long)(until_us % 1000000u) * 1000};
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop && !watch->ordered && clock_now_us() < until_us)
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
    watch->ordered = false;
    pthread_mutex_unlock(&watch->lock);
}

uint64_t watch_step_us(const struct watch *watch, uint64_t now_us)
{
    uint64_t grown_us = watch->context.options->memory_budget > 0 ? GROWN_STEP_US : UINT64_MAX;
    uint64_t retired_us = watch->retired.count > 0 || watch->unposted ? STEP_US : grown_us;
    uint64_t room_us = watch->room_us > now_us ? watch->room_us - now_us : ROOM_STEP_US;
    uint64_t idle_us = watch->idle_us > now_us ? watch->idle_us - now_us : ROOM_STEP_US;
    uint64_t step_us = watch->room_us != UINT64_MAX && room_us < retired_us ? room_us : retired_us;
    return watch->idle_us != UINT64_MAX && idle_us < step_us ? idle_us : step_us;
}

static void note_sequences(const struct watch *watch)
{
    const struct catalog *catalog = watch->context.catalog;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->models[i]->states_count > 0)
            catalog->models[i]->residence.sequences = states_of(watch->context.states, catalog->models[i]);
}

/* True: watch_tell was called. */
static bool told(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool changed = watch->changed;
    watch->changed = false;
    pthread_mutex_unlock(&watch->lock);
    return changed;
}

static void *watch_main(void *argument)
{
    struct watch *watch = argument;
    bool looks = watch->context.options->watch_us > 0;
    uint64_t interval_us = looks ? (uint64_t)watch->context.options->watch_us : ORDERS_ONLY_US;
    uint64_t look_us = clock_now_us() + interval_us;
    pthread_setname_np(pthread_self(), "watch");
    while (!watch_stopping(watch)) {
        uint64_t now_us = clock_now_us(), wait_us = look_us > now_us ? look_us - now_us : 0;
        uint64_t step_us = watch_step_us(watch, now_us);
        pause_for(watch, step_us < wait_us ? step_us : wait_us);
        orders_run(watch);
        note_sequences(watch);
        bool changed = told(watch);
        changed |= retired_steps(&watch->retired, atomic_load(&watch->settled));
        changed |= watch_room_step(watch);
        changed |= watch_idle_step(watch);
        if (clock_now_us() >= look_us && !watch_stopping(watch)) {
            bool again = false; /* at once: there may be more to load */
            if (looks && watch->context.fetched)
                fetched_look(watch->context.fetched, watch->context.catalog);
            changed |= looks && watch_look(watch, &again);
            look_us = clock_now_us() + (again ? 0 : interval_us);
        }
        if (changed || unposted(watch))
            post(watch);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------- */

static int thread_start(struct watch *watch)
{
    sigset_t before;
    signals_block(&before); /* they go to the network thread */
    int error = pthread_create(&watch->thread, NULL, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum pen_status watch_new(const struct watch_context *context, struct watch **ret_watch, struct pen_error *reterr)
{
    pthread_condattr_t attributes;
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to watch the folder of models");
    watch->context = *context;
    watch->retired.catalog = context->catalog;
    watch->retired.quiet_us = (uint64_t)context->options->watch_us;
    watch->room_us = UINT64_MAX;
    watch->idle_us = 0;
    watch->seen.failures = context->catalog->failures;
    watch->failures_told = failures_changes(watch->seen.failures);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = thread_start(watch);
    if (error != 0) {
        pthread_cond_destroy(&watch->wake);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the thread that watches the models: %s",
                             strerror(error));
    }
    *ret_watch = watch;
    return PEN_OK;
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_mutex_unlock(&watch->lock);
    pthread_cond_signal(&watch->wake);
    pthread_join(watch->thread, NULL);
    retired_fini(&watch->retired);
    hello_free(watch->posted);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

void watch_wake(struct watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ordered = true;
    pthread_mutex_unlock(&watch->lock);
    pthread_cond_signal(&watch->wake);
}

void watch_tell(struct watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->changed = watch->ordered = true;
    pthread_mutex_unlock(&watch->lock);
    pthread_cond_signal(&watch->wake);
}

struct hello *watch_take(struct watch *watch, uint64_t *ret_generation)
{
    if (!watch || !atomic_load_explicit(&watch->any_posted, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&watch->lock);
    struct hello *hello = watch->posted;
    PEN_ASSERT(hello, "what any_posted tells of is there: only this thread takes it");
    watch->posted = NULL;
    atomic_store(&watch->any_posted, false);
    *ret_generation = watch->generation;
    pthread_mutex_unlock(&watch->lock);
    return hello;
}

void watch_settled(struct watch *watch, uint64_t generation)
{
    PEN_ASSERT(generation > atomic_load(&watch->settled), "changes settle one after the other");
    atomic_store(&watch->settled, generation);
}
