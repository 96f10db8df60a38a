/* watch_folder.c - one look at the folder: loads new models and withdraws those whose files are gone. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "assertion.h"
#include "deadline.h"
#include "loader.h"
#include "logline.h"
#include "model_file.h"
#include "residence.h"
#include "watch_own.h"
#include "upload_complete.h"

/* ---- lists ------------------------------------------------------------------------------------------------------------------------- */

static bool among(const uint64_t *list, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == key)
            return true;
    return false;
}

struct served *watch_serving(const struct watch *watch, const struct catalog_entry *entry)
{
    const struct catalog *catalog = watch->context.catalog;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->models[i]->stamp == entry->stamp && catalog->models[i]->version == entry->version &&
            strcmp(catalog->models[i]->name, entry->name) == 0)
            return catalog->models[i];
    return NULL;
}

/* ---- what is new ------------------------------------------------------------------------------------------------------------------- */

static void entry_waits(struct watch *watch, const struct catalog_entry *entry, const struct pen_error *error)
{
    catalog_waits(&watch->seen, entry->name, entry->version, error);
}

static void entry_failed(struct watch *watch, const struct catalog_entry *entry, const struct pen_error *error)
{
    if (error->status != PEN_ERR_NO_MEMORY) /* the next look, with the same files, may not fail this way */
        watch->failed[watch->failed_count++ % FAILED_MAX] = entry->stamp;
    watch_failed(watch, entry->name, entry->version, entry->stamp, error);
}

static void failed_forget(struct watch *watch, const struct catalog_entry *entry)
{
    for (size_t i = 0; i < FAILED_MAX && i < watch->failed_count; i++)
        if (watch->failed[i] == entry->stamp)
            watch->failed[i] = 0; /* 0 belongs to no entry */
}

/* True when the files changed while they were read: the model is then neither the old nor the new one, even if
   loading succeeded. */
static bool entry_changed(const struct catalog_entry *entry, struct pen_error *reterr)
{
    if (model_file_stamp(entry->path) == entry->files)
        return false;
    pen_error_set(reterr, PEN_ERR_BUSY, "files in %.512s changed while they were read", entry->path);
    return true;
}

static enum pen_status check_budget(uint64_t budget_bytes, const struct served *served, struct pen_error *reterr)
{
    if (budget_bytes == 0 || served->memory_bytes <= budget_bytes)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "it needs %" PRIu64 " bytes with its sessions, more than --memory-budget grants to all",
                         served->memory_bytes);
}

bool watch_entry_load(struct watch *watch, struct catalog_entry *entry, struct pen_error *reterr)
{
    const struct watch_context *context = &watch->context;
    struct served *served = NULL, *replaced = NULL;
    uint64_t start_us = clock_now_us();
    if (!entry->config.plan && upload_complete(entry->path, reterr) != PEN_OK) {
        entry_waits(watch, entry, reterr);
        return false;
    }
    log_event(LOG_INFO, "model_loading", "model=%s version=%" PRIu64, entry->name, entry->version);
    enum pen_status status =
        loader_run(context->engine, entry, context->facts.slots, context->facts.threads, &served, reterr);
    if (entry_changed(entry, reterr)) {
        served_free(served);
        entry_waits(watch, entry, reterr);
        return false;
    }
    if (status == PEN_OK) {
        residence_came(context->catalog, served, start_us, clock_now_us());
        status = check_budget((uint64_t)context->options->memory_budget, served, reterr);
    }
    if (status == PEN_OK)
        status = catalog_add(context->catalog, served, &replaced, reterr);
    if (status != PEN_OK) {
        served_free(served);
        residence_explain((uint64_t)context->options->memory_budget, reterr);
        entry_failed(watch, entry, reterr);
        return false;
    }
    PEN_ASSERT(!replaced || (replaced != served && replaced->version == served->version),
               "a model takes the place of its own version");
    PEN_ASSERT_SLOW(watch_serving(watch, entry) == served, "what was loaded serves its entry");
    served_log(served, clock_now_us() - start_us);
    catalog_seen_forget(&watch->seen, entry->name);
    failures_drop(watch->seen.failures, entry->name, entry->version, 0);
    failed_forget(watch, entry); /* an order has tried it again, so no other version must replace it */
    if (replaced) {
        retired_forget(&watch->retired, replaced); /* it may have been on its way out */
        retired_add(&watch->retired, replaced, STAGE_OUT);
    }
    if (residence_over(context->catalog, (uint64_t)context->options->memory_budget, served))
        retired_cool(&watch->retired, served); /* offered as cold from the start */
    return true;
}

static bool has_failed(const struct watch *watch, const struct catalog_entry *entry)
{
    return among(watch->failed, watch->failed_count < FAILED_MAX ? watch->failed_count : FAILED_MAX, entry->stamp);
}

/* Logged only when the change goes on: a change in one step is seen once. */
static void note_unrest(struct watch *watch, const struct catalog *found)
{
    uint64_t unrest[CATALOG_MODELS_MAX];
    size_t count = 0;
    PEN_ASSERT(found->entries_count <= CATALOG_MODELS_MAX, "a look has room for all that a scan may find");
    for (size_t i = 0; i < found->entries_count; i++) {
        const struct catalog_entry *entry = &found->entries[i];
        if (among(watch->before, watch->before_count, entry->stamp))
            continue;
        uint64_t key = catalog_entry_key(entry);
        unrest[count++] = key;
        if (!among(watch->unrest, watch->unrest_count, key))
            continue;
        struct pen_error error = {0};
        pen_error_set(&error, PEN_ERR_BUSY, "the files in %.512s are still changing", entry->path);
        entry_waits(watch, entry, &error);
    }
    memcpy(watch->unrest, unrest, count * sizeof *unrest);
    watch->unrest_count = count;
}

/* Loads one model per look, so that a warm model is offered before the next load begins. */
static bool load_one(struct watch *watch, struct catalog *found)
{
    for (size_t i = 0; i < found->entries_count && !watch_stopping(watch); i++) {
        struct catalog_entry *entry = &found->entries[i];
        if (!among(watch->before, watch->before_count, entry->stamp) || watch_serving(watch, entry) ||
            has_failed(watch, entry))
            continue;
        struct pen_error error = {0};
        if (watch_entry_load(watch, entry, &error))
            return true;
    }
    return false;
}

/* ---- what has gone ----------------------------------------------------------------------------------------------------------------- */

enum verdict { VERDICT_STAYS, VERDICT_REPLACED, VERDICT_REVOKED, VERDICT_GONE };

/* True when the version's folder still exists. It may be empty while other content is copied into it. */
static bool is_there(const struct served *served)
{
    const char *slash = strrchr(served->path, '/');
    int length = slash && !served->config.plan ? (int)(slash - served->path) : (int)strlen(served->path);
    char path[MODEL_FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%.*s", length, served->path);
    return access(path, F_OK) == 0;
}

/*
 * The model is not chosen any more. It is gone when its folder is. It is replaced once all chosen versions of its name
 * are served. A version higher than those does not linger, because "the highest version" must mean the chosen one at
 * once.
 */
static enum verdict verdict_of(const struct watch *watch, const struct catalog *found, const struct served *served)
{
    bool all = true;
    uint64_t highest = 0;
    for (size_t i = 0; i < found->entries_count; i++) {
        const struct catalog_entry *entry = &found->entries[i];
        if (strcmp(entry->name, served->name) != 0)
            continue;
        if (entry->version == served->version)
            return VERDICT_STAYS; /* its new content will replace it by itself */
        highest = entry->version > highest ? entry->version : highest;
        all &= watch_serving(watch, entry) != NULL;
    }
    if (!is_there(served))
        return VERDICT_GONE;
    if (highest == 0 || !all)
        return VERDICT_STAYS;
    return served->version > highest ? VERDICT_REVOKED : VERDICT_REPLACED;
}

/* only: the name of the model that an order is about; NULL = all. */
static bool is_about(const char *only, const struct served *served)
{
    return !only || strcmp(only, served->name) == 0;
}

struct found_again {
    const struct catalog *found;
    const char *only;
};

/* Somebody chose a version again that was on its way out. */
static bool is_found_again(const void *context, const struct served *served)
{
    const struct found_again *look = context;
    for (size_t i = 0; i < look->found->entries_count && is_about(look->only, served); i++)
        if (look->found->entries[i].stamp == served->stamp && look->found->entries[i].version == served->version &&
            strcmp(look->found->entries[i].name, served->name) == 0)
            return true;
    return false;
}

bool watch_revive(struct watch *watch, const struct catalog *found, const char *only)
{
    return retired_revive(&watch->retired, is_found_again, &(struct found_again){.found = found, .only = only});
}

/* A folder may be missing for a moment, for example while a link is replaced. So the watch's own look counts only
   when a second one misses the folder, too. */
static bool is_gone_for_good(const struct watch *watch, const struct served *served)
{
    for (size_t i = 0; i < watch->gone_count; i++)
        if (watch->gone[i] == served)
            return true;
    return false;
}

bool watch_retire(struct watch *watch, const struct catalog *found, const char *only)
{
    const struct catalog *catalog = watch->context.catalog;
    const struct served *gone[CATALOG_MODELS_MAX];
    size_t gone_count = 0;
    bool changed = false;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        enum verdict verdict = retired_has(&watch->retired, served) || !is_about(only, served)
                                   ? VERDICT_STAYS
                                   : verdict_of(watch, found, served);
        if (verdict == VERDICT_GONE)
            gone[gone_count++] = served;
        if (verdict == VERDICT_STAYS || (verdict == VERDICT_GONE && !only && !is_gone_for_good(watch, served)))
            continue;
        retired_add(&watch->retired, served, verdict == VERDICT_REPLACED ? STAGE_LINGERS : STAGE_WITHDRAWN);
        changed |= verdict != VERDICT_REPLACED;
    }
    if (only)
        return changed;
    PEN_ASSERT(gone_count <= catalog->count, "what has gone was in the catalog");
    memcpy(watch->gone, gone, gone_count * sizeof *gone);
    watch->gone_count = gone_count;
    return changed;
}

/* ---- a look ------------------------------------------------------------------------------------------------------------------------- */

/* Failures to drop: the version is not wanted any more, or the files are again those of the served model. */
struct failure_look {
    const struct watch *watch;
    const struct catalog *found;
};

static bool failure_stays(const void *context, const struct failure *failure)
{
    const struct failure_look *look = context;
    for (size_t i = 0; i < look->found->entries_count; i++) {
        const struct catalog_entry *entry = &look->found->entries[i];
        if (entry->version == failure->version && strcmp(entry->name, failure->name) == 0)
            return entry->stamp == failure->stamp || !watch_serving(look->watch, entry);
    }
    return false;
}

enum pen_status watch_scan(struct watch *watch, struct catalog *ret_found, struct pen_error *reterr)
{
    const struct options *options = watch->context.options;
    failures_look(watch->seen.failures);
    enum pen_status status = catalog_rescan(options->models, options->model_choices.items, options->model_choices.count,
                                            &watch->seen, ret_found, reterr);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < ret_found->entries_count; i++)
        if (has_failed(watch, &ret_found->entries[i]))
            catalog_stand_in(ret_found, i);
    orders_choose(watch->context.orders, options->models, ret_found);
    failures_looked(watch->seen.failures, failure_stays, &(struct failure_look){.watch = watch, .found = ret_found});
    return PEN_OK;
}

bool watch_look(struct watch *watch, bool *ret_again)
{
    struct catalog found;
    struct pen_error error = {0};
    enum pen_status status = watch_scan(watch, &found, &error);
    if (status != PEN_OK && !watch->folder_lost)
        log_event(LOG_WARN, "folder_lost", "error=%s", error.text);
    watch->folder_lost = status != PEN_OK;
    if (status != PEN_OK)
        return false;
    note_unrest(watch, &found);
    bool loaded = load_one(watch, &found), changed = watch_revive(watch, &found, NULL);
    changed |= watch_retire(watch, &found, NULL);
    watch->before_count = found.entries_count;
    for (size_t i = 0; i < found.entries_count; i++)
        watch->before[i] = found.entries[i].stamp;
    catalog_fini(&found);
    *ret_again = loaded;
    return changed || loaded;
}
