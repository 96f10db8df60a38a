/*
 * watchdog.h - a run that goes on long past its job's deadline is wedged: nothing but the end of the process frees its slot. So is a slot's thread that
 * stands still in a dispatch outside of a run, and one that has nothing to do and does not take what waits.
 *
 * Threads: owner - the network thread asks between messages.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "slot.h"

/* Of slots that should take what waits. */
struct watchdog {
    uint64_t since_us; /* the first look that saw it so; 0 = the last did not */
    size_t taken;      /* until then */
};

/*
 * When the run must be over: limit_us after its deadline, or after its start where it has none or it passed while another had the device. Outside of a run:
 * limit_us after the last step.
 * DEADLINE_NONE when idle or limit_us is 0.
 */
uint64_t watchdog_hard_us(const struct slot_running *running, uint64_t limit_us);

/* Looks at all slots; logs each wedged one (evt=wedged). Returns how many there are. */
size_t watchdog_check(struct slot *const *slots, size_t count, uint64_t limit_us, uint64_t now_us);

/* True (evt=wedged): for limit_us there was an idle slot, something waited, and nothing was taken. */
bool watchdog_idle(struct watchdog *watchdog, struct slot *const *slots, size_t count, struct handoff *handoff,
                   uint64_t limit_us, uint64_t now_us);

#endif
