/*
 * ready.h - which offers of a model are looked at when a job needs a worker: a few that are likely to be done first, whatever the number of workers.
 *
 * Offers of one backend, precision and batch size are a class: their workers are alike, so that a few of them stand for all. In a class those whose worker holds nothing
 * come first, the longest idle ahead, then the busy ones, the longest not given work ahead: they should be the first to be free. Up to READY_LOOK
 * offers are looked at, shared between the classes, a quarter of each share kept for busy ones: a fast worker that is nearly done may beat an idle slow one.
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
    bool cold; /* their models are not in memory: looked at beside the warm ones, not instead of them */
    struct ready_list idle, busy; /* by in_ready */
    size_t idle_count, busy_count;
};
TAILQ_HEAD(ready_classes, ready_class);

/* The offer joins its class, made when it is the first. False without memory. */
bool ready_add(struct model *model, struct offer *offer, bool idle);
void ready_remove(struct model *model, struct offer *offer); /* nothing when it is in none */
/* Its worker holds nothing any more, or holds something. */
void ready_idle(struct offer *offer);
void ready_busy(struct offer *offer);

/* Calls `take` for offers in the order above until each class has given its share; take returns false for an offer that does not count. */
void ready_look(const struct model *model, bool (*take)(void *context, struct offer *offer), void *context);

#endif
