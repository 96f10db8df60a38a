/*
 * residence.h - which models are in memory: within --memory-budget, loaded when somebody asks, the least recently used going first.
 *
 * A cold model is described and offered like any other, with the time that loading it takes; a broker that wants it says so (CONTROL "warm"). One that
 * leaves is offered as cold first and freed when no job for it can be on its way (retired.h), so that none ever loses its model. Against
 * thrashing: what was loaded on demand stays RESIDENCE_STAY times as long as its loading took, so that of a worker between too many models at most a fifth of the
 * time goes into loading. A model with open sequences stays until they have ended, or were silent for too long.
 *
 * Threads: owner - the watch's thread; the catalog's lock guards what slots see.
 */
#ifndef RESIDENCE_H
#define RESIDENCE_H

#include "catalog.h"

#define RESIDENCE_STAY 4u

enum room {
    ROOM_FITS,
    ROOM_EVICT, /* when the victim is gone, ask again */
    ROOM_WAIT,  /* everything in memory came lately, or is on its way out */
    ROOM_NEVER  /* it alone is more than the budget */
};

/* Whether `wanted`, a cold model, may be loaded now. budget_bytes 0 = no bound. ret_victim with ROOM_EVICT, ret_when_us (try again) with ROOM_WAIT. */
enum room residence_room(const struct catalog *catalog, uint64_t budget_bytes, const struct served *wanted,
                         uint64_t now_us, struct served **ret_victim, uint64_t *ret_when_us);
/* A model that has just been loaded does not fit beside the others. */
bool residence_over(const struct catalog *catalog, uint64_t budget_bytes, const struct served *served);
/* The cold model that somebody has waited for longest; NULL = none. */
struct served *residence_wanted(const struct catalog *catalog);

/* A model was refused as too large: the sentence says whose bound it was, where that is --memory-budget. */
void residence_explain(uint64_t budget_bytes, struct pen_error *error);
/* It was loaded and warmed: what that took, and what it holds by the engine's count. */
void residence_came(struct catalog *catalog, struct served *served, uint64_t began_us, uint64_t now_us);
/* What all that are in memory hold by now: they grow with the shapes that jobs bring. */
void residence_weigh(struct catalog *catalog);
/* Models have grown beyond the budget together: the one that is to go; NULL = they have not, or nothing may go yet, or there is but one. */
struct served *residence_grown(const struct catalog *catalog, uint64_t budget_bytes, uint64_t now_us);
/* Cold from now on; false: a slot has it. */
bool residence_cool(struct catalog *catalog, struct served *served);
/* Back among the warm ones. */
void residence_warm(struct catalog *catalog, struct served *served);

#endif
