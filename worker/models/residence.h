/*
 * residence.h - decides which models are in memory within --memory-budget: a model is loaded on demand, and the least
 * recently used one makes room.
 *
 * A model that is not in memory is cold. It is described and offered like any other, with the time that its loading
 * takes; a broker that has jobs for it asks for it (CONTROL "warm"). A model that must make room is first offered as
 * cold, and freed when no job for it can be on its way (retired.h), so no job finds its model gone. Against thrashing,
 * a model loaded on demand stays for RESIDENCE_STAY times its loading time, so a worker with too many models spends at
 * most a fifth of its time on loading. A model with open sequences stays until they have ended or were silent for too
 * long. With --idle-unload a model that no job uses goes to sleep: it becomes cold though there is room.
 *
 * Threads: owner - the watch's thread; the catalog's lock guards what slots see.
 */
#ifndef RESIDENCE_H
#define RESIDENCE_H

#include "catalog.h"

#define RESIDENCE_STAY 4u

enum room {
    ROOM_FITS,
    ROOM_EVICT, /* ask again when the victim is gone */
    ROOM_WAIT,  /* all models in memory came recently, or are on their way out */
    ROOM_NEVER  /* the model alone is larger than the budget */
};

/* May the cold model `wanted` be loaded now? budget_bytes 0 = no limit. ret_victim is set with ROOM_EVICT,
   ret_when_us (try again then) with ROOM_WAIT. */
enum room residence_room(const struct catalog *catalog, uint64_t budget_bytes, const struct served *wanted,
                         uint64_t now_us, struct served **ret_victim, uint64_t *ret_when_us);
/* True when a model that has just been loaded does not fit beside the others. */
bool residence_over(const struct catalog *catalog, uint64_t budget_bytes, const struct served *served);
/* The cold model that has been asked for longest; NULL = none. */
struct served *residence_wanted(const struct catalog *catalog);

/* A model was refused as too large: adds to the sentence that the limit was --memory-budget, if it was. */
void residence_explain(uint64_t budget_bytes, struct pen_error *error);
/* The model was loaded: records how long that took, and its size by the engine's count. */
void residence_came(struct catalog *catalog, struct served *served, uint64_t began_us, uint64_t now_us);
/* Measures all models in memory again: they grow with the shapes that jobs bring. */
void residence_weigh(struct catalog *catalog);
/* The models in memory have grown beyond the budget: the one that must go; NULL = they have not, or none may go yet,
   or there is only one. */
struct served *residence_grown(const struct catalog *catalog, uint64_t budget_bytes, uint64_t now_us);
/*
 * A model in memory that no job has used for idle_us (0 = models never sleep), so that it may go to sleep; NULL = none.
 * A model stays RESIDENCE_STAY times its loading time after it was loaded on demand, while a slot uses it, and while
 * its sequences are open. *ret_when_us: when to look again; UINT64_MAX = when something changes.
 */
struct served *residence_idle(const struct catalog *catalog, uint64_t idle_us, uint64_t now_us, uint64_t *ret_when_us);

/* The model is cold from now on; false: a slot uses it. */
bool residence_cool(struct catalog *catalog, struct served *served);
/* The model is warm again. */
void residence_warm(struct catalog *catalog, struct served *served);

#endif
