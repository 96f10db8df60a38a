/* watch.c - look, load, offer, withdraw, free; again. */
#include "watch.h"

#include "deadline.h"
#include "loader.h"
#include "logline.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_US        20000u      /* between looks at what is being withdrawn */
#define LINGER_MAX     60000000u   /* us: a replaced version that is still asked for goes all the same */
#define ORDERS_ONLY_US 3600000000u /* between wakings that find nothing */
#define FAILED_MAX     256u
#define RETIRED_MAX    CATALOG_MODELS_MAX

enum stage {
    STAGE_LINGERS,   /* replaced; offered as long as jobs come */
    STAGE_WITHDRAWN, /* not offered; jobs may be on their way */
    STAGE_OUT        /* not in the catalog; a slot may still run it */
};

struct retired {
    struct served *served;
    enum stage stage;
    uint64_t since_us, generation;
};

struct watch {
    struct watch_context context;
    pthread_t thread;
    pthread_mutex_t lock; /* guards stop, ordered, posted, generation */
    pthread_cond_t wake;
    bool stop, ordered;
    struct hello *posted;
    atomic_bool any_posted; /* a look without the lock */
    uint64_t generation;
    atomic_uint_fast64_t settled;

    struct catalog_seen seen; /* failures told already */
    uint64_t before[CATALOG_MODELS_MAX];
    size_t before_count; /* what the last look found */
    uint64_t failed[FAILED_MAX];
    size_t failed_count; /* what could not be loaded, by content */
    struct retired retired[RETIRED_MAX];
    size_t retired_count;
    bool folder_lost;
};

/* ---- lists ------------------------------------------------------------------------------------------------------------------------- */

static bool among(const uint64_t *list, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == key)
            return true;
    return false;
}

static struct served *serving(const struct watch *watch, const struct catalog_entry *entry)
{
    const struct catalog *catalog = watch->context.catalog;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->models[i]->stamp == entry->stamp && catalog->models[i]->version == entry->version &&
            strcmp(catalog->models[i]->name, entry->name) == 0)
            return catalog->models[i];
    return NULL;
}

static bool is_retired(const struct watch *watch, const struct served *served)
{
    for (size_t i = 0; i < watch->retired_count; i++)
        if (watch->retired[i].served == served)
            return true;
    return false;
}

static void retire(struct watch *watch, struct served *served, enum stage stage)
{
    if (watch->retired_count == RETIRED_MAX)
        return; /* the next look tries again */
    watch->retired[watch->retired_count++] =
        (struct retired){.served = served, .stage = stage, .since_us = clock_now_us()};
    served->withdrawn = stage != STAGE_LINGERS;
}

/* ---- what is new ------------------------------------------------------------------------------------------------------------------- */

static void entry_failed(struct watch *watch, const struct catalog_entry *entry, const struct pen_error *error)
{
    watch->failed[watch->failed_count++ % FAILED_MAX] = entry->stamp;
    log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", entry->name, entry->version,
              pen_status_name(error->status), error->text);
}

static bool entry_load(struct watch *watch, struct catalog_entry *entry, struct pen_error *reterr)
{
    const struct watch_context *context = &watch->context;
    struct served *served = NULL, *replaced = NULL;
    uint64_t start_us = clock_now_us();
    log_event(LOG_INFO, "model_loading", "model=%s version=%" PRIu64, entry->name, entry->version);
    enum pen_status status =
        loader_run(context->engine, entry, context->facts.slots, context->facts.threads, &served, reterr);
    if (status == PEN_OK)
        status = catalog_add(context->catalog, served, &replaced, reterr);
    if (status != PEN_OK) {
        served_free(served);
        entry_failed(watch, entry, reterr);
        return false;
    }
    served_log(served, clock_now_us() - start_us);
    for (size_t i = 0; replaced && i < watch->retired_count; i++)
        if (watch->retired[i].served == replaced) /* it was on its way out */
            watch->retired[i--] = watch->retired[--watch->retired_count];
    if (replaced)
        retire(watch, replaced, STAGE_OUT);
    return true;
}

static bool stopping(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool stop = watch->stop;
    pthread_mutex_unlock(&watch->lock);
    return stop;
}

/* One load for each look, so that what is warm is offered before the next one begins. */
static bool load_one(struct watch *watch, struct catalog *found)
{
    size_t failed = watch->failed_count < FAILED_MAX ? watch->failed_count : FAILED_MAX;
    for (size_t i = 0; i < found->entries_count && !stopping(watch); i++) {
        struct catalog_entry *entry = &found->entries[i];
        if (entry->stamp == 0 || !among(watch->before, watch->before_count, entry->stamp) || serving(watch, entry) ||
            among(watch->failed, failed, entry->stamp))
            continue;
        struct pen_error error = {0};
        return entry_load(watch, entry, &error);
    }
    return false;
}

/* ---- what has gone ----------------------------------------------------------------------------------------------------------------- */

enum verdict { VERDICT_STAYS, VERDICT_REPLACED, VERDICT_GONE };

/* Not chosen any more: gone when its file is; replaced once everything that is chosen of its name serves. */
static enum verdict verdict_of(const struct watch *watch, const struct catalog *found, const struct served *served)
{
    bool any = false, all = true;
    for (size_t i = 0; i < found->entries_count; i++) {
        const struct catalog_entry *entry = &found->entries[i];
        if (strcmp(entry->name, served->name) != 0)
            continue;
        if (entry->version == served->version)
            return VERDICT_STAYS; /* other content of it takes its place by itself */
        any = true;
        all &= serving(watch, entry) != NULL;
    }
    if (access(served->path, F_OK) != 0)
        return VERDICT_GONE; /* at once: "the highest version" must not mean it any more */
    return any && all ? VERDICT_REPLACED : VERDICT_STAYS;
}

static bool found_again(const struct catalog *found, const struct served *served)
{
    for (size_t i = 0; i < found->entries_count; i++)
        if (found->entries[i].stamp == served->stamp && found->entries[i].version == served->version &&
            strcmp(found->entries[i].name, served->name) == 0)
            return true;
    return false;
}

/* only: the name of the model that an order is about; NULL = all. */
static bool is_about(const char *only, const struct served *served)
{
    return !only || strcmp(only, served->name) == 0;
}

/* Somebody went back to a version that was on its way out. */
static bool revive_some(struct watch *watch, const struct catalog *found, const char *only)
{
    bool changed = false;
    for (size_t i = 0; i < watch->retired_count;) {
        struct retired *retired = &watch->retired[i];
        if (retired->stage == STAGE_OUT || !is_about(only, retired->served) || !found_again(found, retired->served)) {
            i++;
            continue;
        }
        changed |= retired->served->withdrawn;
        retired->served->withdrawn = false;
        *retired = watch->retired[--watch->retired_count];
    }
    return changed;
}

static bool retire_some(struct watch *watch, const struct catalog *found, const char *only)
{
    const struct catalog *catalog = watch->context.catalog;
    bool changed = false;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        enum verdict verdict =
            is_retired(watch, served) || !is_about(only, served) ? VERDICT_STAYS : verdict_of(watch, found, served);
        if (verdict == VERDICT_STAYS)
            continue;
        retire(watch, served, verdict == VERDICT_GONE ? STAGE_WITHDRAWN : STAGE_LINGERS);
        changed |= verdict == VERDICT_GONE;
    }
    return changed;
}

/* ---- the way out ------------------------------------------------------------------------------------------------------------------- */

static bool asked_lately(const struct watch *watch, const struct retired *retired, uint64_t now_us)
{
    uint64_t quiet_us = (uint64_t)watch->context.options->watch_us, used_us = atomic_load(&retired->served->used_us);
    uint64_t last_us = used_us > retired->since_us ? used_us : retired->since_us;
    return now_us < last_us + quiet_us && now_us < retired->since_us + LINGER_MAX;
}

static void unload(struct served *served)
{
    struct pen_memory memory;
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version = served->version;
    memcpy(name, served->name, sizeof name);
    served_free(served);
    pen_memory(&memory);
    log_event(LOG_INFO, "model_unloaded",
              "model=%s version=%" PRIu64 " models=%" PRIu64 " sessions=%" PRIu64 " weights_bytes=%" PRIu64, name,
              version, memory.models, memory.sessions, memory.weights_bytes);
}

/* True: the list of offers has changed. Sets *ret_done when it is freed. */
static bool retired_step(struct watch *watch, struct retired *retired, uint64_t now_us, bool *ret_done)
{
    struct served *served = retired->served;
    if (retired->stage == STAGE_LINGERS && !asked_lately(watch, retired, now_us)) {
        retired->stage = STAGE_WITHDRAWN;
        served->withdrawn = true;
        return true;
    }
    if (retired->stage == STAGE_WITHDRAWN && retired->generation != 0 &&
        atomic_load(&watch->settled) >= retired->generation) {
        catalog_take_out(watch->context.catalog, served);
        retired->stage = STAGE_OUT;
    }
    if (retired->stage == STAGE_OUT && atomic_load(&served->users) == 0) {
        unload(served);
        *ret_done = true;
    }
    return false;
}

static bool retired_steps(struct watch *watch)
{
    uint64_t now_us = clock_now_us();
    bool changed = false;
    for (size_t i = 0; i < watch->retired_count;) {
        bool done = false;
        changed |= retired_step(watch, &watch->retired[i], now_us, &done);
        if (done)
            watch->retired[i] = watch->retired[--watch->retired_count];
        else
            i++;
    }
    return changed;
}

/* ---- the thread -------------------------------------------------------------------------------------------------------------------- */

static void post(struct watch *watch)
{
    struct hello *hello = NULL;
    struct pen_error error = {0};
    if (hello_new(&watch->context.facts, &hello, &error) != PEN_OK) {
        log_event(LOG_ERROR, "update_failed", "error=%s", error.text);
        return;
    }
    pthread_mutex_lock(&watch->lock);
    hello_free(watch->posted); /* nobody has taken it: the newer one holds all of it */
    watch->posted = hello;
    uint64_t generation = ++watch->generation;
    atomic_store(&watch->any_posted, true);
    pthread_mutex_unlock(&watch->lock);
    for (size_t i = 0; i < watch->retired_count; i++)
        if (watch->retired[i].stage == STAGE_WITHDRAWN && watch->retired[i].generation == 0)
            watch->retired[i].generation = generation;
    outbox_wake(watch->context.outbox);
}

static enum pen_status scan(struct watch *watch, struct catalog *ret_found, struct pen_error *reterr)
{
    const struct options *options = watch->context.options;
    enum pen_status status = catalog_rescan(options->models, options->model_choices.items, options->model_choices.count,
                                            &watch->seen, ret_found, reterr);
    if (status == PEN_OK)
        orders_choose(watch->context.orders, options->models, ret_found);
    return status;
}

static bool look(struct watch *watch, bool *ret_again)
{
    struct catalog found;
    struct pen_error error = {0};
    enum pen_status status = scan(watch, &found, &error);
    if (status != PEN_OK && !watch->folder_lost)
        log_event(LOG_WARN, "folder_lost", "error=%s", error.text);
    watch->folder_lost = status != PEN_OK;
    if (status != PEN_OK)
        return false;
    bool loaded = load_one(watch, &found), changed = revive_some(watch, &found, NULL);
    changed |= retire_some(watch, &found, NULL);
    watch->before_count = found.entries_count;
    for (size_t i = 0; i < found.entries_count; i++)
        watch->before[i] = found.entries[i].stamp;
    catalog_fini(&found);
    *ret_again = loaded;
    return changed || loaded;
}

/* ---- orders ------------------------------------------------------------------------------------------------------------------------ */

static bool is_meant(const struct order *order, const char *name, uint64_t version)
{
    return strcmp(order->name, name) == 0 && (order->version == 0 || order->version == version);
}

/* Loads at once what the order means and does not serve yet; one that failed is tried again. */
static bool order_load(struct watch *watch, struct order *order, struct catalog *found)
{
    bool changed = revive_some(watch, found, order->name);
    size_t meant = 0;
    for (size_t i = 0; i < found->entries_count && order->outcome.status == PEN_OK && !stopping(watch); i++) {
        struct catalog_entry *entry = &found->entries[i];
        if (!is_meant(order, entry->name, entry->version))
            continue;
        meant++;
        if (!serving(watch, entry))
            changed |= entry_load(watch, entry, &order->outcome);
    }
    if (meant == 0)
        pen_error_set(&order->outcome, PEN_ERR_NOT_FOUND, "there is no such model in %.512s, or its config is wrong",
                      watch->context.options->models);
    if (order->outcome.status == PEN_OK)
        changed |= retire_some(watch, found, order->name);
    return changed;
}

static bool order_unload(struct watch *watch, struct order *order)
{
    const struct catalog *catalog = watch->context.catalog;
    size_t meant = 0;
    for (size_t i = 0; i < watch->retired_count; i++) { /* on its way out already: at once now */
        struct retired *retired = &watch->retired[i];
        if (retired->stage != STAGE_LINGERS || !is_meant(order, retired->served->name, retired->served->version))
            continue;
        retired->stage = STAGE_WITHDRAWN;
        retired->served->withdrawn = true;
        meant++;
    }
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        if (!is_meant(order, served->name, served->version) || is_retired(watch, served))
            continue;
        retire(watch, served, STAGE_WITHDRAWN);
        meant++;
    }
    if (meant == 0)
        pen_error_set(&order->outcome, PEN_ERR_NOT_FOUND, "this worker does not serve it");
    return meant > 0;
}

/* True: the list of offers has changed. */
static bool order_run(struct watch *watch, struct order *order)
{
    struct catalog found;
    bool changed = false;
    log_event(LOG_INFO, "model_order", "order=%s model=%s version=%" PRIu64, order->load ? "load" : "unload",
              order->name, order->version);
    if (orders_apply(watch->context.orders, order, &order->outcome) != PEN_OK)
        return false;
    if (!order->load)
        return order_unload(watch, order);
    if (scan(watch, &found, &order->outcome) == PEN_OK) {
        changed = order_load(watch, order, &found);
        catalog_fini(&found);
    }
    return changed;
}

/* The outcome is told behind the changed list, so that whoever asked finds the model. */
static void orders_run(struct watch *watch)
{
    struct order order;
    while (!stopping(watch) && orders_take(watch->context.orders, &order)) {
        if (order_run(watch, &order))
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

static void *watch_main(void *argument)
{
    struct watch *watch = argument;
    bool looks = watch->context.options->watch_us > 0;
    uint64_t interval_us = looks ? (uint64_t)watch->context.options->watch_us : ORDERS_ONLY_US;
    uint64_t look_us = clock_now_us() + interval_us;
    pthread_setname_np(pthread_self(), "watch");
    while (!stopping(watch)) {
        uint64_t now_us = clock_now_us(), wait_us = look_us > now_us ? look_us - now_us : 0;
        pause_for(watch, watch->retired_count > 0 && wait_us > STEP_US ? STEP_US : wait_us);
        orders_run(watch);
        bool changed = retired_steps(watch);
        if (clock_now_us() >= look_us && !stopping(watch)) {
            bool again = false; /* at once: there may be more to load */
            changed |= looks && look(watch, &again);
            look_us = clock_now_us() + (again ? 0 : interval_us);
        }
        if (changed)
            post(watch);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------- */

static int thread_start(struct watch *watch)
{
    sigset_t all, before;
    sigfillset(&all); /* signals go to the network thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
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
    for (size_t i = 0; i < watch->retired_count; i++)
        if (watch->retired[i].stage == STAGE_OUT) /* the others are still the catalog's */
            served_free(watch->retired[i].served);
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

struct hello *watch_take(struct watch *watch, uint64_t *ret_generation)
{
    if (!watch || !atomic_load_explicit(&watch->any_posted, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&watch->lock);
    struct hello *hello = watch->posted;
    watch->posted = NULL;
    atomic_store(&watch->any_posted, false);
    if (hello)
        *ret_generation = watch->generation;
    pthread_mutex_unlock(&watch->lock);
    return hello;
}

void watch_settled(struct watch *watch, uint64_t generation)
{
    atomic_store(&watch->settled, generation);
}
