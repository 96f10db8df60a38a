/*
 * measurer.h - measures the models that nobody has measured yet, beside serving: one after the other, on a thread of the lowest priority (background.h).
 *
 * It begins a second after it was told of new models, so that a start is not slowed by it. While it measures a model, that model stays in memory.
 * Threads: new, start, stop, free owner; wake any.
 */
#ifndef MEASURER_H
#define MEASURER_H

#include "catalog.h"

struct measurer;

/* budget_bytes: --memory-budget; a model that would not fit a second time is not measured. 0 = no bound. */
struct measurer *measurer_new(struct catalog *catalog, uint64_t budget_bytes); /* NULL without memory */
/* told: called on its thread when a model has a result, or will have none. NO_MEMORY: there is no thread, and nothing is measured. */
enum pen_status measurer_start(struct measurer *measurer, void (*told)(void *context), void *context);
void measurer_wake(struct measurer *measurer); /* the catalog has changed; NULL is fine */
void measurer_stop(
    struct measurer *measurer); /* ends the run that is under way; NULL is fine, and so is a second one */
void measurer_free(struct measurer *measurer); /* stopped; NULL is fine */

#endif
