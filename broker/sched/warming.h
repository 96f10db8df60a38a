/*
 * warming.h - models that a worker offers but does not have in memory (its --memory-budget): what loading them costs,
 * and when to ask for it.
 *
 * Such an offer is cold. It is weighed like any other, with the time of its load added. When it wins, the worker is
 * asked to load the model; the jobs stay in their lane, so another worker may still run them. The worker's update says
 * when the model is loaded.
 * Threads: owner.
 */
#ifndef WARMING_H
#define WARMING_H

#include "broker_state.h"

#define WARMING_UNKNOWN_US 10000000u /* the load is later than expected by so much: ask the worker again */

/* Expected time until the cold offer is loaded: the time of its last load; twice that when another model that is
   still used must go for it. A late load looks worse the later it gets. */
uint64_t warming_us(const struct offer *offer, uint64_t now_us);
/* True when the worker may be asked now: it loads one model at a time. *ret_when_us: otherwise when to look again;
   UINT64_MAX = when something changes. */
bool warming_possible(const struct offer *offer, uint64_t now_us, uint64_t *ret_when_us);

#endif
