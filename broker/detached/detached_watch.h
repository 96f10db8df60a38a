/*
 * detached_watch.h - clients that wait for detached jobs, found by the id of their fetch and by the job that they want.
 * Threads: owner.
 */
#ifndef DETACHED_WATCH_H
#define DETACHED_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "job_id.h"
#include "session.h"
#include "table.h"

#define WATCHES_MAX 65536u

enum watch_for { WATCH_REPLY, WATCH_STATE }; /* the job's reply, or how far it is */

struct watch {
    struct table_node by_own, by_wanted;
    TAILQ_ENTRY(watch) in_all;
    struct job_id own, wanted;
    const struct tenant *tenant;
    enum watch_for what;
    bool known;       /* Redis has the job: the client waits for it even while Redis is gone */
    uint64_t look_us; /* when Redis was asked last */
};
TAILQ_HEAD(watch_list, watch);

struct watches {
    struct table by_own, by_wanted;
    struct watch_list all; /* in the order in which Redis was asked, the longest ago first */
    uint32_t count;
};

enum pen_status watches_init(struct watches *watches);
void watches_fini(struct watches *watches);

/* NULL: WATCHES_MAX clients wait already, or there is no memory. */
struct watch *watch_new(struct watches *watches, struct job_id own, struct job_id wanted, const struct tenant *tenant,
                        enum watch_for what);
void watch_free(struct watches *watches, struct watch *watch);
struct watch *watch_find(const struct watches *watches, struct job_id own);
/* The first client that waits for the wanted job, and the next one; NULL = no more. Find the next one before you
   free this one. */
struct watch *watch_first(const struct watches *watches, struct job_id wanted);
struct watch *watch_next(const struct watches *watches, const struct watch *watch);

#endif
