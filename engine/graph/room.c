#include "graph/room.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ALIGN_BYTES ((size_t)64)
#define HUGE_BYTES  ((size_t)2 << 20)  /* of a large page */
#define TRY_BYTES   ((size_t)64 << 20) /* of small pages before a large one is tried again */
#define SLOW_NS     600000             /* of a large page: its 512 small ones take about 800 us at once */

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t (*room_now_ns)(void) = thread_ns;

static atomic_size_t small_left; /* bytes that get small pages without a try; races lose a few */

static bool small_are_due(size_t bytes)
{
    const size_t left = atomic_load_explicit(&small_left, memory_order_relaxed);
    atomic_store_explicit(&small_left, left > bytes ? left - bytes : 0, memory_order_relaxed);
    return left > 0;
}

/*
 * Virtual machines get memory from their host when they first touch it, and give back large pages that nobody uses: then a large page costs 1 to 8 ms, and
 * small ones, which were used before, a fifth of that. Elsewhere large pages are filled three times as fast. The first one tells.
 */
bool room_large(void *memory, size_t bytes)
{
    if (small_are_due(bytes)) {
        return false;
    }
    (void)madvise(memory, HUGE_BYTES, MADV_HUGEPAGE); /* where the system has none they are small pages */
    const uint64_t begin = room_now_ns();
    *(volatile char *)memory = 0;
    if (room_now_ns() - begin > SLOW_NS) {
        atomic_store_explicit(&small_left, TRY_BYTES, memory_order_relaxed);
        return false;
    }
    (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    return true;
}

void *room_alloc(size_t bytes)
{
    void *memory = NULL;
    bool large = bytes >= HUGE_BYTES;
    if (posix_memalign(&memory, large ? HUGE_BYTES : ALIGN_BYTES, bytes) != 0) {
        return NULL;
    }
    if (large) {
        (void)room_large(memory, bytes);
    }
    return memory;
}

void room_later(void *memory, size_t bytes)
{
    if (bytes >= HUGE_BYTES) {
        (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    }
}
