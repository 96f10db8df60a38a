/*
 * retired.h - models on their way out of memory.
 *
 * Stages: replaced but still asked for; withdrawn while jobs may be on their way; used by a last run; freed. A model
 * that only cools stays in the catalog: it is offered as a cold one, and leaves memory after the last job.
 * Threads: owner - the watch's thread.
 */
#ifndef RETIRED_H
#define RETIRED_H

#include "catalog.h"

#define RETIRED_MAX CATALOG_MODELS_MAX

enum stage {
    STAGE_LINGERS,   /* replaced; offered as long as jobs ask for it */
    STAGE_WITHDRAWN, /* not offered; jobs may be on their way */
    STAGE_OUT        /* not in the catalog; a slot may still run it */
};

struct retired {
    struct served *served;
    enum stage stage;
    bool cools; /* it goes for lack of room: residence.h */
    uint64_t since_us, generation;
};

struct retired_list {
    struct retired items[RETIRED_MAX];
    size_t count;
    struct catalog *catalog; /* borrowed */
    uint64_t quiet_us;       /* a replaced model goes when nobody has asked for it for this long */
};

void retired_add(struct retired_list *list, struct served *served, enum stage stage);
void retired_cool(struct retired_list *list, struct served *served);
bool retired_has(const struct retired_list *list, const struct served *served);
void retired_forget(struct retired_list *list, const struct served *served); /* it is kept after all */

/* Keeps those for which `again` says that they are wanted after all. True: the list of offers has changed. */
bool retired_revive(struct retired_list *list, bool (*again)(const void *context, const struct served *served),
                    const void *context);
/* Withdraws at once those that linger or cool and for which `meant` is true. Returns how many. */
size_t retired_hurry(struct retired_list *list, bool (*meant)(const void *context, const struct served *served),
                     const void *context);

/* The hello of that number leaves the withdrawn models out; `settled`: no job for models that this hello or an
   earlier one left out is held or on its way. */
void retired_offered(struct retired_list *list, uint64_t generation);
/* Moves each model one stage on if it can. True: the list of offers has changed. */
bool retired_steps(struct retired_list *list, uint64_t settled);

void retired_fini(struct retired_list *list);

#endif
