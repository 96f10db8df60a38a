/* residence.c - sums and comparisons over a list of at most 256 models. */
#include "residence.h"

#include "assertion.h"
#include "deadline.h"
#include "loader.h"
#include "logline.h"

#include <inttypes.h>
#include <string.h>

#define STEP_US          1000u   /* how often to look at a model that is on its way out */
#define SEQUENCE_STEP_US 100000u /* how often to look whether sequences and runs have ended */

static bool resident(const struct served *served)
{
    return !served->residence.cold && !served->config.plan; /* an ensemble has no memory of its own; its steps have */
}

static uint64_t resident_bytes(const struct catalog *catalog, const struct served *but)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->models[i] != but && resident(catalog->models[i]))
            bytes += catalog->models[i]->memory_bytes;
    return bytes;
}

static uint64_t last_used_us(const struct served *served)
{
    uint64_t used_us = atomic_load(&served->used_us);
    return used_us > served->residence.loaded_us ? used_us : served->residence.loaded_us;
}

static uint64_t stays_until_us(const struct served *served)
{
    return served->residence.loaded_us + RESIDENCE_STAY * served->residence.load_us;
}

/* NULL: no model may go yet; *ret_when_us says when one may. */
static struct served *least_recent(const struct catalog *catalog, uint64_t now_us, uint64_t *ret_when_us)
{
    struct served *victim = NULL;
    *ret_when_us = UINT64_MAX;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        uint64_t until_us = stays_until_us(served);
        if (!resident(served))
            continue;
        if (served->residence.sequences > 0 && until_us < now_us + SEQUENCE_STEP_US)
            until_us = now_us + SEQUENCE_STEP_US;
        if (until_us > now_us)
            *ret_when_us = until_us < *ret_when_us ? until_us : *ret_when_us;
        else if (!victim || last_used_us(served) < last_used_us(victim))
            victim = served;
    }
    return victim;
}

static bool any_leaves(const struct catalog *catalog)
{
    bool any = false;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct served *served = catalog->models[i];
        any |= resident(served) && (served->residence.leaving || atomic_load(&served->withdrawn));
    }
    return any;
}

enum room residence_room(const struct catalog *catalog, uint64_t budget_bytes, const struct served *wanted,
                         uint64_t now_us, struct served **ret_victim, uint64_t *ret_when_us)
{
    if (!residence_over(catalog, budget_bytes, wanted))
        return ROOM_FITS;
    if (wanted->memory_bytes > budget_bytes)
        return ROOM_NEVER;
    *ret_when_us = now_us + STEP_US;
    if (any_leaves(catalog))
        return ROOM_WAIT;
    *ret_victim = least_recent(catalog, now_us, ret_when_us);
    return *ret_victim ? ROOM_EVICT : ROOM_WAIT;
}

bool residence_over(const struct catalog *catalog, uint64_t budget_bytes, const struct served *served)
{
    return budget_bytes != 0 && resident_bytes(catalog, served) + served->memory_bytes > budget_bytes;
}

struct served *residence_wanted(const struct catalog *catalog)
{
    struct served *longest = NULL;
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        uint64_t wanted_us = served->residence.wanted_us;
        if (wanted_us != 0 && !resident(served) && (!longest || wanted_us < longest->residence.wanted_us))
            longest = served;
    }
    return longest;
}

void residence_explain(uint64_t budget_bytes, struct pen_error *error)
{
    const struct pen_error why = *error;
    if (budget_bytes != 0 && why.status == PEN_ERR_TOO_LARGE && !strstr(why.text, "--memory-budget"))
        pen_error_set(error, why.status, "%.700s; that is more than --memory-budget grants to all", why.text);
}

void residence_came(struct catalog *catalog, struct served *served, uint64_t began_us, uint64_t now_us)
{
    if (served->config.plan)
        return;
    pthread_mutex_lock(&catalog->lock);
    served->residence.load_us = now_us - began_us;
    served->residence.came_us = served->residence.came_us ? served->residence.came_us : now_us;
    served->memory_bytes = pen_model_memory(served->model);
    pthread_mutex_unlock(&catalog->lock);
}

void residence_weigh(struct catalog *catalog)
{
    pthread_mutex_lock(&catalog->lock);
    for (size_t i = 0; i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        if (resident(served) && served->model)
            served->memory_bytes = pen_model_memory(served->model);
    }
    pthread_mutex_unlock(&catalog->lock);
}

struct served *residence_grown(const struct catalog *catalog, uint64_t budget_bytes, uint64_t now_us)
{
    uint64_t when_us;
    size_t count = 0;
    for (size_t i = 0; i < catalog->count; i++)
        count += resident(catalog->models[i]);
    if (budget_bytes == 0 || count < 2 || resident_bytes(catalog, NULL) <= budget_bytes || any_leaves(catalog))
        return NULL;
    return least_recent(catalog, now_us, &when_us);
}

static uint64_t awake_until_us(const struct served *served, uint64_t idle_us, uint64_t now_us)
{
    uint64_t used_us = last_used_us(served);
    uint64_t until_us = (used_us > served->residence.came_us ? used_us : served->residence.came_us) + idle_us;
    bool busy = served->residence.sequences > 0 || atomic_load(&served->users) > 0;
    if (busy && until_us < now_us + SEQUENCE_STEP_US)
        until_us = now_us + SEQUENCE_STEP_US;
    return until_us > stays_until_us(served) ? until_us : stays_until_us(served);
}

struct served *residence_idle(const struct catalog *catalog, uint64_t idle_us, uint64_t now_us, uint64_t *ret_when_us)
{
    *ret_when_us = UINT64_MAX;
    for (size_t i = 0; idle_us != 0 && i < catalog->count; i++) {
        struct served *served = catalog->models[i];
        if (!resident(served) || served->residence.leaving || served->residence.wanted_us != 0 ||
            atomic_load(&served->withdrawn))
            continue;
        uint64_t until_us = awake_until_us(served, idle_us, now_us);
        if (until_us <= now_us)
            return served;
        *ret_when_us = until_us < *ret_when_us ? until_us : *ret_when_us;
    }
    return NULL;
}

bool residence_cool(struct catalog *catalog, struct served *served)
{
    pthread_mutex_lock(&catalog->lock);
    bool free_of_jobs = atomic_load(&served->users) == 0;
    PEN_ASSERT(!served->residence.cold, "a model cools that was in memory");
    if (free_of_jobs) {
        served->residence.cold = true;
        served->residence.leaving = false;
    }
    pthread_mutex_unlock(&catalog->lock);
    if (free_of_jobs)
        loader_cool(served);
    return free_of_jobs;
}

void residence_warm(struct catalog *catalog, struct served *served)
{
    pthread_mutex_lock(&catalog->lock);
    PEN_ASSERT(served->residence.cold && served->model, "a model that is warm again was cold, and its content is here");
    served->residence.cold = false;
    served->residence.wanted_us = 0;
    served->residence.loaded_us = clock_now_us();
    pthread_mutex_unlock(&catalog->lock);
    atomic_fetch_add(&catalog->loads, 1);
}
