/* watch_folder.c - one look at the folder: what is new is loaded, what has gone is withdrawn. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "deadline.h"
#include "loader.h"
#include "logline.h"
#include "residence.h"
#include "watch_own.h"

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

static void entry_failed(struct watch *watch, const struct catalog_entry *entry, const struct pen_error *error)
{
    watch->failed[watch->failed_count++ % FAILED_MAX] = entry->stamp;
    log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", entry->name, entry->version,
              pen_status_name(error->status), error->text);
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
    uint64_t start_us = clock_now_us(), arena_bytes = residence_arena_bytes();
    log_event(LOG_INFO, "model_loading", "model=%s version=%" PRIu64, entry->name, entry->version);
    enum pen_status status =
        loader_run(context->engine, entry, context->facts.slots, context->facts.threads, &served, reterr);
    if (status == PEN_OK) {
        residence_came(context->catalog, served, start_us, arena_bytes, clock_now_us());
        status = check_budget((uint64_t)context->options->memory_budget, served, reterr);
    }
    if (status == PEN_OK)
        status = catalog_add(context->catalog, served, &replaced, reterr);
    if (status != PEN_OK) {
        served_free(served);
        entry_failed(watch, entry, reterr);
        return false;
    }
    served_log(served, clock_now_us() - start_us);
    if (replaced) {
        retired_forget(&watch->retired, replaced); /* it may have been on its way out */
        retired_add(&watch->retired, replaced, STAGE_OUT);
    }
    if (residence_over(context->catalog, (uint64_t)context->options->memory_budget, served))
        retired_cool(&watch->retired, served); /* offered as cold from the first */
    return true;
}

/* One load for each look, so that what is warm is offered before the next one begins. */
static bool load_one(struct watch *watch, struct catalog *found)
{
    size_t failed = watch->failed_count < FAILED_MAX ? watch->failed_count : FAILED_MAX;
    for (size_t i = 0; i < found->entries_count && !watch_stopping(watch); i++) {
        struct catalog_entry *entry = &found->entries[i];
        if (entry->stamp == 0 || !among(watch->before, watch->before_count, entry->stamp) ||
            watch_serving(watch, entry) || among(watch->failed, failed, entry->stamp))
            continue;
        struct pen_error error = {0};
        return watch_entry_load(watch, entry, &error);
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
        all &= watch_serving(watch, entry) != NULL;
    }
    if (access(served->path, F_OK) != 0)
        return VERDICT_GONE; /* at once: "the highest version" must not mean it any more */
    return any && all ? VERDICT_REPLACED : VERDICT_STAYS;
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

/* Somebody went back to a version that was on its way out. */
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

bool watch_retire(struct watch *watch, const struct catalog *found, const char *only)
{
    const struct catalog *catalog = watch->context.catalog;
    bool changed = false;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        enum verdict verdict = retired_has(&watch->retired, served) || !is_about(only, served)
                                   ? VERDICT_STAYS
                                   : verdict_of(watch, found, served);
        if (verdict == VERDICT_STAYS)
            continue;
        retired_add(&watch->retired, served, verdict == VERDICT_GONE ? STAGE_WITHDRAWN : STAGE_LINGERS);
        changed |= verdict == VERDICT_GONE;
    }
    return changed;
}

/* ---- a look ------------------------------------------------------------------------------------------------------------------------- */

enum pen_status watch_scan(struct watch *watch, struct catalog *ret_found, struct pen_error *reterr)
{
    const struct options *options = watch->context.options;
    enum pen_status status = catalog_rescan(options->models, options->model_choices.items, options->model_choices.count,
                                            &watch->seen, ret_found, reterr);
    if (status == PEN_OK)
        orders_choose(watch->context.orders, options->models, ret_found);
    return status;
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
    bool loaded = load_one(watch, &found), changed = watch_revive(watch, &found, NULL);
    changed |= watch_retire(watch, &found, NULL);
    watch->before_count = found.entries_count;
    for (size_t i = 0; i < found.entries_count; i++)
        watch->before[i] = found.entries[i].stamp;
    catalog_fini(&found);
    *ret_again = loaded;
    return changed || loaded;
}
