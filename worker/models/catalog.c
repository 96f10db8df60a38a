/* catalog.c - loads entries as models, with one sentence for each that cannot be served; and lets slots find models. */
#include "catalog_own.h"

#include "assertion.h"
#include "deadline.h"
#include "ensemble.h"
#include "error_complete.h"
#include "logline.h"
#include "model_file.h"
#include "upload_complete.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool known(const struct catalog *catalog, const char *name, uint64_t version)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->models[i]->version == version && strcmp(catalog->models[i]->name, name) == 0)
            return true;
    return false;
}

static enum pen_status kind_check(const struct config *config, const struct pen_engine *engine,
                                  struct pen_error *reterr)
{
    const char *backend = pen_engine_backend(engine);
    bool gpu = pen_engine_on_device(engine);
    if (config->instance_kind == CONFIG_KIND_GPU && !gpu)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "instance_group says KIND_GPU, but this worker's backend is %s", backend);
    if (config->instance_kind == CONFIG_KIND_CPU && gpu)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "instance_group says KIND_CPU, but this worker's backend is %s", backend);
    return PEN_OK;
}

/* Its file is the config.json that it was read from. */
static enum pen_status ensemble_load(struct catalog_entry *entry, struct served **ret_served, struct pen_error *reterr)
{
    char path[CATALOG_PATH_BYTES];
    const char *file = entry->config.pbtxt ? "config.pbtxt" : "config.json";
    snprintf(path, sizeof path, "%.3072s/%s", entry->path, file);
    if (access(path, F_OK) != 0)
        snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(entry->path, '/') - entry->path), entry->path, file);
    enum pen_status status = ensemble_new(entry->name, entry->version, path, &entry->config, ret_served, reterr);
    if (status == PEN_OK)
        (*ret_served)->stamp = entry->stamp;
    return status;
}

/* Logs settings of a config that have no effect, once for each load. */
static void config_log(const struct served *served)
{
    const struct config *config = &served->config;
    if (config->ignored[0])
        log_event(LOG_WARN, "config_ignored", "model=%s version=%" PRIu64 " file=config.pbtxt fields=%s reason=%s",
                  served->name, served->version, config->ignored, "they have no effect here: see deploy/TRITON.md");
    if (config->pbtxt_beside)
        log_event(LOG_WARN, "config_ignored", "model=%s version=%" PRIu64 " file=config.pbtxt reason=%s", served->name,
                  served->version, "config.json lies beside it and counts alone");
}

static enum pen_status entry_load(struct catalog_entry *entry, struct pen_engine *engine, struct served **ret_served,
                                  struct pen_error *reterr)
{
    char file[MODEL_FILE_PATH_BYTES];
    if (entry->config.plan)
        return ensemble_load(entry, ret_served, reterr);
    enum pen_status status = kind_check(&entry->config, engine, reterr);
    if (status == PEN_OK)
        status = model_file_find(entry->path, file, reterr);
    if (status == PEN_OK)
        status = upload_pointer_check(file, reterr);
    if (status == PEN_OK)
        status = served_new(engine, entry->name, entry->version, file, &entry->config, ret_served, reterr);
    if (status == PEN_OK) {
        (*ret_served)->stamp = entry->stamp;
        (*ret_served)->folder = strdup(entry->path);
        (*ret_served)->files = entry->files;
    }
    return status;
}

enum pen_status catalog_entry_load(struct catalog_entry *entry, struct pen_engine *engine, struct served **ret_served,
                                   struct pen_error *reterr)
{
    enum pen_status status = entry_load(entry, engine, ret_served, reterr);
    if (status == PEN_OK)
        config_log(*ret_served);
    return status;
}

static enum pen_status models_room(struct catalog *catalog, struct pen_error *reterr)
{
    if (!catalog->models)
        catalog->models = calloc(CATALOG_MODELS_MAX, sizeof *catalog->models);
    return catalog->models ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of models");
}

/* False: the reason was logged. */
static bool one_load(struct catalog *catalog, struct pen_engine *engine, struct catalog_entry *entry,
                     catalog_loaded *loaded, void *context)
{
    struct served *served = NULL, *replaced = NULL;
    struct pen_error error = {0};
    uint64_t began_us = clock_now_us();
    enum pen_status status = catalog_entry_load(entry, engine, &served, &error);
    if (status == PEN_OK)
        status = catalog_add(catalog, served, &replaced, &error);
    if (status == PEN_OK && loaded)
        status = loaded(context, served, began_us, &error);
    if (error_complete(&error, status, "load the model") == PEN_OK)
        return true;
    if (served)
        catalog_take_out(catalog, served);
    served_free(served);
    catalog_failed(catalog, entry->name, entry->version, entry->stamp, &error);
    return false;
}

enum pen_status catalog_load(struct catalog *catalog, struct pen_engine *engine, bool (*stop)(void),
                             catalog_loaded *loaded, void *context, struct pen_error *reterr)
{
    enum pen_status status = models_room(catalog, reterr);
    for (size_t i = 0; status == PEN_OK && i < catalog->entries_count && !(stop && stop()); i++) {
        struct catalog_entry *entry = &catalog->entries[i];
        if (known(catalog, entry->name, entry->version)) /* or chosen twice */
            continue;
        if (!one_load(catalog, engine, entry, loaded, context))
            catalog_stand_in(catalog, i);
    }
    return status;
}

void catalog_fini(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        served_free(catalog->models[i]);
    while (catalog->entries_count > 0)
        catalog_entry_drop(catalog, catalog->entries_count - 1);
    failures_free(catalog->failures);
    free(catalog->models);
    free(catalog->entries);
    pthread_mutex_destroy(&catalog->lock);
    memset(catalog, 0, sizeof *catalog);
    pthread_mutex_init(&catalog->lock, NULL); /* so that a second fini is fine */
}

static bool better(const struct served *served, const struct served *best)
{
    if (!best || served->withdrawn != best->withdrawn)
        return !best || best->withdrawn;
    return served->version > best->version;
}

struct served *catalog_find(const struct catalog *catalog, const char *name, uint64_t version)
{
    struct served *best = NULL;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        if (strcmp(served->name, name) == 0 && (version == 0 || served->version == version) && better(served, best))
            best = served;
    }
    return best;
}

/* ---- while slots serve --------------------------------------------------------------------------------------------------------- */

enum pen_status catalog_take(struct catalog *catalog, const char *name, uint64_t version, struct served **ret_served)
{
    pthread_mutex_lock(&catalog->lock);
    struct served *served = catalog_find(catalog, name, version);
    bool cold = served && served->residence.cold;
    if (served && !cold)
        atomic_fetch_add(&served->users, 1);
    pthread_mutex_unlock(&catalog->lock);
    if (!served || cold)
        return cold ? PEN_ERR_UNAVAILABLE : PEN_ERR_NOT_FOUND;
    atomic_store_explicit(&served->used_us, clock_now_us(), memory_order_relaxed);
    *ret_served = served;
    return PEN_OK;
}

struct served *catalog_take_unmeasured(struct catalog *catalog)
{
    struct served *found = NULL;
    pthread_mutex_lock(&catalog->lock);
    for (size_t i = 0; !found && i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        bool open = atomic_load(&served->measured_as) == SERVED_NOT_MEASURED && !served->config.plan;
        if (open && !served->residence.cold && !served->withdrawn)
            found = served;
    }
    if (found)
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&catalog->lock);
    return found;
}

struct served *catalog_take_ensemble(struct catalog *catalog, size_t *at)
{
    struct served *found = NULL;
    pthread_mutex_lock(&catalog->lock);
    for (; !found && *at < catalog->count; (*at)++) {
        struct served *served = catalog->models[*at];
        if (served->config.plan && !served->withdrawn)
            found = served;
    }
    if (found)
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&catalog->lock);
    return found;
}

static size_t place_of(const struct catalog *catalog, const struct served *served)
{
    size_t i = 0;
    while (i < catalog->count &&
           (catalog->models[i]->version != served->version || strcmp(catalog->models[i]->name, served->name) != 0))
        i++;
    return i;
}

enum pen_status catalog_add(struct catalog *catalog, struct served *served, struct served **ret_replaced,
                            struct pen_error *reterr)
{
    enum pen_status status = models_room(catalog, reterr);
    size_t place = place_of(catalog, served);
    if (status == PEN_OK && place == CATALOG_MODELS_MAX)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a worker serves at most %u models", CATALOG_MODELS_MAX);
    if (status != PEN_OK)
        return status;
    if (served->files_input >= 0)
        atomic_store(&catalog->files_taken, true);
    if (served->outputs_count > atomic_load(&catalog->outputs_most))
        atomic_store(&catalog->outputs_most, served->outputs_count);
    pthread_mutex_lock(&catalog->lock);
    if (place < catalog->count)
        *ret_replaced = catalog->models[place];
    else
        catalog->count++;
    PEN_ASSERT(place < catalog->count, "a model is in the catalog once it has come");
    catalog->models[place] = served;
    pthread_mutex_unlock(&catalog->lock);
    return PEN_OK;
}

void catalog_take_out(struct catalog *catalog, struct served *served)
{
    pthread_mutex_lock(&catalog->lock);
    size_t place = 0;
    while (place < catalog->count && catalog->models[place] != served)
        place++;
    if (place < catalog->count)
        catalog->count--;
    for (; place < catalog->count; place++)
        catalog->models[place] = catalog->models[place + 1];
    pthread_mutex_unlock(&catalog->lock);
}
