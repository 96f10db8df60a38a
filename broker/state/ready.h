/*
 * ready.h - chooses which offers of a model are weighed when a job needs a worker: a few that are likely to be done
 * first, for any number of workers.
 *
 * Offers with the same backend, precision and batch size form a class: their workers are alike, so a few of them are
 * enough. In a class the idle workers come first, the longest idle one ahead; then the busy ones, the one that got its
 * last work longest ago ahead, because it should be free first. Up to READY_LOOK offers are weighed, shared between the
 * classes. A quarter of each share is kept for busy workers, because a fast one that is nearly done may beat a slow
 * idle one.
 * Threads: owner.
 */
#ifndef READY_H
#define READY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "frame.h"

#define READY_LOOK 24u

struct offer;
struct model;

TAILQ_HEAD(ready_list, offer);

struct ready_class {
    TAILQ_ENTRY(ready_class) in_model;
    const struct model *model;
    char backend[32];
    enum precision precision;
    uint32_t rows_max;
    bool cold;                    /* offers whose models are not in memory: weighed in addition to the warm ones */
    struct ready_list idle, busy; /* by in_ready */
    size_t idle_count, busy_count;
};
TAILQ_HEAD(ready_classes, ready_class);

/* The offer joins its class, which is made when there is none. False without memory. */
bool ready_add(struct model *model, struct offer *offer, bool idle);
void ready_remove(struct model *model, struct offer *offer); /* does nothing when it is in no class */
/* The offer's worker has become idle, or holds work again. */
void ready_idle(struct offer *offer);
void ready_busy(struct offer *offer);

/* Calls `take` for offers in the order above until each class has had its share; take returns false for an offer
   that does not use up the share. */
void ready_look(const struct model *model, bool (*take)(void *context, struct offer *offer), void *context);

#endif
