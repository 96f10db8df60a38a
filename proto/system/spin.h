/*
 * spin.h - decides whether a short busy wait (spin) before sleeping is worth while.
 *
 * Waking a thread on another core costs 35-50 us (100 in some virtual machines); a spin that finds nothing costs its
 * own time. A thread spins as long as this pays: after SPIN_MISSES vain spins in a row only every SPIN_RETRY-th wait
 * spins. With one processor it never spins. A spinning thread yields to threads that wait for its processor. When such
 * a thread then computes for SPIN_CROWDED_US, the spinning thread gives up and sleeps, because the kernel lets a woken
 * thread run at once, but not one that waits for its turn.
 *
 * There are two ways to use it. Call spin_worthwhile and spin_result around a loop of your own. Or, in a loop that
 * looks at several things, call spin_on after each look that found nothing and spin_found after each look that found
 * something.
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
    uint64_t until_us, looked_us; /* while spinning */
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

/* Something was found, by spinning or after a sleep. */
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
