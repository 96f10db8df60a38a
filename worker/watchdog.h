/*
 * watchdog.h - a run that goes on long past its job's deadline is wedged: nothing but the end of the process frees its slot.
 *
 * Threads: owner - the network thread asks between messages.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "slot.h"

/* When the run must be over: limit_us after its deadline, or after its start where it has none. DEADLINE_NONE when idle or limit_us is 0. */
uint64_t watchdog_hard_us(const struct slot_running *running, uint64_t limit_us);

/* Looks at all slots; logs each wedged one (evt=wedged). Returns how many there are. */
size_t watchdog_check(struct slot *const *slots, size_t count, uint64_t limit_us, uint64_t now_us);

#endif
