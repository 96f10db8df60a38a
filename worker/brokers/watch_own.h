/*
 * watch_own.h - what watch.c and watch_folder.c share: the watch itself, and looks at the folder. Nobody else includes this.
 * Threads: the watch's, but for what the lock guards.
 */
#ifndef WATCH_OWN_H
#define WATCH_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "retired.h"
#include "watch.h"

#define FAILED_MAX 256u

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
    uint64_t unrest[CATALOG_MODELS_MAX];
    size_t unrest_count; /* versions that the last look saw other than the one before it */
    const struct served *gone[CATALOG_MODELS_MAX];
    size_t gone_count; /* whose folder the last look missed; only compared */
    uint64_t failed[FAILED_MAX];
    size_t failed_count; /* what could not be loaded, by content */
    struct retired_list retired;
    uint64_t room_us; /* when a model that waits for room is tried again; UINT64_MAX = none waits */
    bool folder_lost;
    uint64_t failures_told; /* failures_changes when the last hello was made */
    bool unposted;          /* offers have changed, and there was no memory to say so: soon again */
};

bool watch_stopping(struct watch *watch);

/* A model cannot be loaded, or never again: brokers are told, and the log. */
void watch_failed(struct watch *watch, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error);

/* What the folder holds, as orders and policies choose of it. Give *ret_found back with catalog_fini. */
enum pen_status watch_scan(struct watch *watch, struct catalog *ret_found, struct pen_error *reterr);
/* One look: loads at most one entry, withdraws what has gone. True: the list of offers has changed; ret_again: there may be more to load. */
bool watch_look(struct watch *watch, bool *ret_again);

/* The model that serves exactly this entry; NULL = none. */
struct served *watch_serving(const struct watch *watch, const struct catalog_entry *entry);
/* Loads, warms and adds it; false: *reterr says why, and it is told in the log. */
bool watch_entry_load(struct watch *watch, struct catalog_entry *entry, struct pen_error *reterr);
/* What is found again comes back; what is not goes. only: the name of the model that an order is about; NULL = all. True: offers have changed. */
bool watch_revive(struct watch *watch, const struct catalog *found, const char *only);
bool watch_retire(struct watch *watch, const struct catalog *found, const char *only);

#endif
