/*
 * spin.h - is a short busy wait before sleeping worth it here? A wake across cores costs 35-50 us (100 in some virtual machines), a spin that finds nothing
 * costs itself.
 *
 * It is tried while it pays: after SPIN_MISSES fruitless ones in a row only every SPIN_RETRY-th wait spins. Off with one processor. A spinner makes way for
 * threads that wait for its processor; where such a one then computed for SPIN_CROWDED_US it gives up: who sleeps is let in by the kernel at once when it is
 * woken, who waits for its turn is not.
 *
 * Two ways to use it: spin_worthwhile and spin_result around a loop of one's own; or spin_on after each look that found nothing and spin_found after each
 * that found something, in a loop that looks at several things.
 * Threads: one-at-a-time.
 */
#ifndef SPIN_H
#define SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_MISSES     8u
#define SPIN_RETRY      32u
#define SPIN_CROWDED_US 300u

enum spin_state { SPIN_READY, SPIN_LOOKING, SPIN_SPENT };

struct spin {
    uint64_t limit_us; /* 0 = never */
    uint32_t misses, skipped;
    uint64_t tried;
    enum spin_state state;
    uint64_t until_us, looked_us; /* while looking */
};

static inline void spin_init(struct spin *spin, uint64_t limit_us)
{
    *spin = (struct spin){.limit_us = limit_us};
}

static inline bool spin_worthwhile(struct spin *spin)
{
    if (spin->limit_us == 0)
        return false;
    if (spin->misses < SPIN_MISSES || ++spin->skipped >= SPIN_RETRY) {
        spin->skipped = 0;
        spin->tried++;
        return true;
    }
    return false;
}

static inline void spin_result(struct spin *spin, bool found)
{
    spin->misses = found ? 0 : spin->misses + 1;
}

/* Nothing was found. True: look again; false: sleep. */
static inline bool spin_on(struct spin *spin, uint64_t now_us)
{
    if (spin->state == SPIN_SPENT)
        return false;
    if (spin->state == SPIN_READY) {
        bool worthwhile = spin_worthwhile(spin);
        spin->state = worthwhile ? SPIN_LOOKING : SPIN_SPENT;
        spin->until_us = now_us + spin->limit_us;
        spin->looked_us = now_us;
        return worthwhile;
    }
    if (now_us >= spin->until_us || now_us - spin->looked_us >= SPIN_CROWDED_US) {
        spin_result(spin, false);
        spin->state = SPIN_SPENT;
    }
    spin->looked_us = now_us;
    return spin->state == SPIN_LOOKING;
}

/* Something was found, while looking or after a sleep. */
static inline void spin_found(struct spin *spin)
{
    if (spin->state == SPIN_LOOKING)
        spin_result(spin, true);
    spin->state = SPIN_READY;
}

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
