/*
 * spin.h - is a short busy wait before sleeping worth it here? A cross-core wake costs 35-50 us, a spin that finds nothing costs itself.
 *
 * It is tried while it pays: after SPIN_MISSES fruitless ones in a row only every SPIN_RETRY-th wait spins. Off with one processor.
 * Threads: one-at-a-time.
 */
#ifndef SPIN_H
#define SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_MISSES 8u
#define SPIN_RETRY  32u

struct spin {
    uint64_t limit_us; /* 0 = never */
    uint32_t misses, skipped;
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
        return true;
    }
    return false;
}

static inline void spin_result(struct spin *spin, bool found)
{
    spin->misses = found ? 0 : spin->misses + 1;
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
