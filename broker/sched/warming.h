/*
 * warming.h - models that a worker offers and has not in memory (its --memory-budget): what they cost, and the word that has them loaded.
 *
 * A cold offer is weighed like any other, with the time that its load takes on top; when it wins, the worker is asked to load the model and its jobs
 * wait where they are: any other worker may still have them. An update says when it is warm.
 * Threads: owner.
 */
#ifndef WARMING_H
#define WARMING_H

#include "broker_state.h"

#define WARMING_UNKNOWN_US 10000000u /* past the expected end by so much: the worker is asked again */

/* Until the cold offer should be warm: its last load, twice where another model has to go for it and will be missed; late ones look ever worse. */
uint64_t warming_us(const struct offer *offer, uint64_t now_us);
/* The worker may be asked now: one model at a time. ret_when_us: else when to look again, UINT64_MAX = when something changes. */
bool warming_possible(const struct offer *offer, uint64_t now_us, uint64_t *ret_when_us);

#endif
