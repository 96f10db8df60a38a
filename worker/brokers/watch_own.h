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
    pthread_mutex_t lock; /* guards stop, ordered, changed, posted, generation */
    pthread_cond_t wake;
    bool stop, ordered, changed;
    struct hello *posted;
    atomic_bool any_posted; /* may be read without the lock */
    uint64_t generation;
    atomic_uint_fast64_t settled;

    struct catalog_seen seen; /* failures that were logged already */
    uint64_t before[CATALOG_MODELS_MAX];
    size_t before_count; /* what the last look found */
    uint64_t unrest[CATALOG_MODELS_MAX];
    size_t unrest_count; /* versions that differ between the last look and the one before it */
    const struct served *gone[CATALOG_MODELS_MAX];
    size_t gone_count; /* models whose folder the last look did not find; the pointers are only compared */
    uint64_t failed[FAILED_MAX];
    size_t failed_count; /* entries that could not be loaded, by content */
    struct retired_list retired;
    uint64_t idle_us; /* when to look for models that go to sleep; UINT64_MAX = when something changes */
    uint64_t room_us; /* when to try a model again that waits for room; UINT64_MAX = none waits */
    bool folder_lost;
    uint64_t failures_told; /* failures_changes when the last hello was made */
    bool unposted;          /* offers have changed, but there was no memory to tell: try again soon */
};

bool watch_stopping(struct watch *watch);

/* A model cannot be loaded, now or ever: tells the brokers and the log. */
void watch_failed(struct watch *watch, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error);

/* The content of the folder after orders and policies have chosen from it. Free *ret_found with catalog_fini. */
enum pen_status watch_scan(struct watch *watch, struct catalog *ret_found, struct pen_error *reterr);
/* One look: loads at most one entry and withdraws models whose files are gone. True: the list of offers has changed;
   ret_again: there may be more to load. */
bool watch_look(struct watch *watch, bool *ret_again);

/* The model that serves exactly this entry; NULL = none. */
struct served *watch_serving(const struct watch *watch, const struct catalog_entry *entry);
/* Loads, warms and adds the entry; false: *reterr says why, and it was logged. */
bool watch_entry_load(struct watch *watch, struct catalog_entry *entry, struct pen_error *reterr);
/* Models that are found again are offered again; those that are not found go. only: the name in an order; NULL = all
   models. True: offers have changed. */
bool watch_revive(struct watch *watch, const struct catalog *found, const char *only);
bool watch_retire(struct watch *watch, const struct catalog *found, const char *only);

/* Loads the model that has waited longest, once there is room; a model leaves for it, or because all have grown. True: the list of offers has changed. */
bool watch_room_step(struct watch *watch);
/* Models that no job has used for --idle-unload go to sleep. True: the list of offers has changed. */
bool watch_idle_step(struct watch *watch);
/* In how many us to look again at what changes by itself. */
uint64_t watch_step_us(const struct watch *watch, uint64_t now_us);

#endif
