/* retired.c - a list and its stages. */
#include "retired.h"

#include "assertion.h"
#include "deadline.h"
#include "loader.h"
#include "logline.h"
#include "residence.h"

#include <inttypes.h>
#include <string.h>

#define LINGER_MAX 60000000u /* us: after this time a replaced model goes even if jobs still ask for it */

/* ---- the list ---------------------------------------------------------------------------------------------------------------------- */

void retired_add(struct retired_list *list, struct served *served, enum stage stage)
{
    if (list->count == RETIRED_MAX)
        return; /* the next look tries again */
    list->items[list->count++] = (struct retired){.served = served, .stage = stage, .since_us = clock_now_us()};
    served->withdrawn = stage != STAGE_LINGERS;
    PEN_ASSERT_SLOW(retired_has(list, served), "what was retired is in the list");
}

void retired_cool(struct retired_list *list, struct served *served)
{
    if (list->count == RETIRED_MAX)
        return;
    list->items[list->count++] =
        (struct retired){.served = served, .stage = STAGE_WITHDRAWN, .cools = true, .since_us = clock_now_us()};
    served->residence.leaving = true;
}

bool retired_has(const struct retired_list *list, const struct served *served)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].served == served)
            return true;
    return false;
}

static void drop(struct retired_list *list, size_t index)
{
    PEN_ASSERT(index < list->count, "what leaves the list is in it");
    list->items[index] = list->items[--list->count];
}

void retired_forget(struct retired_list *list, const struct served *served)
{
    for (size_t i = list->count; i-- > 0;)
        if (list->items[i].served == served)
            drop(list, i);
}

bool retired_revive(struct retired_list *list, bool (*again)(const void *context, const struct served *served),
                    const void *context)
{
    bool changed = false;
    for (size_t i = list->count; i-- > 0;) {
        struct retired *retired = &list->items[i];
        if (retired->stage == STAGE_OUT || retired->cools || !again(context, retired->served))
            continue;
        changed |= retired->served->withdrawn;
        retired->served->withdrawn = false;
        drop(list, i);
    }
    return changed;
}

size_t retired_hurry(struct retired_list *list, bool (*meant)(const void *context, const struct served *served),
                     const void *context)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct retired *retired = &list->items[i];
        if ((retired->stage != STAGE_LINGERS && !retired->cools) || !meant(context, retired->served))
            continue;
        retired->stage = STAGE_WITHDRAWN;
        retired->cools = false;
        retired->generation = 0;
        retired->served->withdrawn = true;
        count++;
    }
    return count;
}

void retired_offered(struct retired_list *list, uint64_t generation)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].stage == STAGE_WITHDRAWN && list->items[i].generation == 0)
            list->items[i].generation = generation;
}

/* ---- the way out ------------------------------------------------------------------------------------------------------------------- */

static bool asked_lately(const struct retired_list *list, const struct retired *retired, uint64_t now_us)
{
    uint64_t used_us = atomic_load(&retired->served->used_us);
    uint64_t last_us = used_us > retired->since_us ? used_us : retired->since_us;
    bool asked = now_us < last_us + list->quiet_us || retired->served->residence.sequences > 0;
    return asked && now_us < retired->since_us + LINGER_MAX;
}

static void log_gone(const char *event, const char *name, uint64_t version)
{
    struct pen_memory memory;
    pen_memory(&memory);
    log_event(LOG_INFO, event,
              "model=%s version=%" PRIu64 " models=%" PRIu64 " sessions=%" PRIu64 " weights_bytes=%" PRIu64, name,
              version, memory.models, memory.sessions, memory.weights_bytes);
}

static void unload(struct served *served)
{
    PEN_ASSERT(served->withdrawn && atomic_load(&served->users) == 0,
               "a model leaves memory when no job uses it and none can come");
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version = served->version;
    memcpy(name, served->name, sizeof name);
    loader_free(served);
    log_gone("model_unloaded", name, version);
}

/* No more jobs for it can come. True: it has left memory. */
static bool settle(struct retired_list *list, struct retired *retired)
{
    struct served *served = retired->served;
    if (retired->cools) {
        bool cool = residence_cool(list->catalog, served);
        atomic_fetch_add(&list->catalog->evictions, cool);
        if (cool)
            log_gone("model_evicted", served->name, served->version);
        return cool;
    }
    catalog_take_out(list->catalog, served);
    retired->stage = STAGE_OUT;
    return false;
}

/* True: the list of offers has changed. Sets *ret_done when it has left memory. */
static bool step(struct retired_list *list, struct retired *retired, uint64_t settled, uint64_t now_us, bool *ret_done)
{
    struct served *served = retired->served;
    if (retired->stage == STAGE_LINGERS && !asked_lately(list, retired, now_us)) {
        retired->stage = STAGE_WITHDRAWN;
        served->withdrawn = true;
        return true;
    }
    if (retired->stage == STAGE_WITHDRAWN && retired->generation != 0 && settled >= retired->generation)
        *ret_done = settle(list, retired);
    if (retired->stage == STAGE_OUT && atomic_load(&served->users) == 0) {
        unload(served);
        *ret_done = true;
    }
    return false;
}

bool retired_steps(struct retired_list *list, uint64_t settled)
{
    uint64_t now_us = clock_now_us();
    bool changed = false;
    for (size_t i = 0; i < list->count;) {
        bool done = false;
        changed |= step(list, &list->items[i], settled, now_us, &done);
        if (done)
            drop(list, i);
        else
            i++;
    }
    return changed;
}

void retired_fini(struct retired_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].stage == STAGE_OUT) /* the others still belong to the catalog */
            served_free(list->items[i].served);
}
