/*
 * watchdog.h - finds wedged slots, which only the end of the process can free. A slot is wedged when its run goes on
 * long past the job's deadline, when its thread makes no progress in a dispatch outside of a run, or when it is idle
 * and does not take a dispatch that waits.
 *
 * Threads: owner - the network thread asks between messages.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "slot.h"

/* For idle slots that should take the dispatches that wait. */
struct watchdog {
    uint64_t since_us; /* the first look that saw this state; 0 = the last look did not */
    size_t taken;      /* dispatches taken up to then */
};

/*
 * When the run must be over: limit_us after its deadline; or after its start when it has no deadline, or when the
 * deadline passed while another run had the device. Outside of a run: limit_us after the last step. DEADLINE_NONE when
 * the slot is idle or limit_us is 0.
 */
uint64_t watchdog_hard_us(const struct slot_running *running, uint64_t limit_us);

/* Looks at all slots and logs each wedged one (evt=wedged). Returns how many are wedged. */
size_t watchdog_check(struct slot *const *slots, size_t count, uint64_t limit_us, uint64_t now_us);

/* True (evt=wedged): for limit_us a slot was idle and a dispatch waited, but none was taken. */
bool watchdog_idle(struct watchdog *watchdog, struct slot *const *slots, size_t count, struct handoff *handoff,
                   uint64_t limit_us, uint64_t now_us);

#endif
