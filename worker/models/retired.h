/*
 * retired.h - models on their way out of memory: replaced and still asked for, withdrawn with jobs on their way, used by a last run, freed.
 *
 * One that only cools stays in the catalog: it is offered as one that must be loaded first, and is not in memory when the last job has gone.
 * Threads: owner - the watch's thread.
 */
#ifndef RETIRED_H
#define RETIRED_H

#include "catalog.h"

#define RETIRED_MAX CATALOG_MODELS_MAX

enum stage {
    STAGE_LINGERS,   /* replaced; offered as long as jobs come */
    STAGE_WITHDRAWN, /* not offered; jobs may be on their way */
    STAGE_OUT        /* not in the catalog; a slot may still run it */
};

struct retired {
    struct served *served;
    enum stage stage;
    bool cools; /* for lack of room: residence.h */
    uint64_t since_us, generation;
};

struct retired_list {
    struct retired items[RETIRED_MAX];
    size_t count;
    struct catalog *catalog; /* borrowed */
    uint64_t quiet_us;       /* what is replaced goes when nobody has asked for it for so long */
};

void retired_add(struct retired_list *list, struct served *served, enum stage stage);
void retired_cool(struct retired_list *list, struct served *served);
bool retired_has(const struct retired_list *list, const struct served *served);
void retired_forget(struct retired_list *list, const struct served *served); /* it is not on its way out any more */

/* Those that `again` says are wanted after all stay. True: the list of offers has changed. */
bool retired_revive(struct retired_list *list, bool (*again)(const void *context, const struct served *served),
                    const void *context);
/* What lingers and is meant goes at once. Returns how many. */
size_t retired_hurry(struct retired_list *list, bool (*meant)(const void *context, const struct served *served),
                     const void *context);

/* A hello of that number says what is withdrawn; no job for what `settled` and those before it withdrew is held or on its way. */
void retired_offered(struct retired_list *list, uint64_t generation);
/* Everybody one step on. True: the list of offers has changed. */
bool retired_steps(struct retired_list *list, uint64_t settled);

void retired_fini(struct retired_list *list);

#endif
