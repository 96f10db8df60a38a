#include "memory_reserve.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

static struct block {
    const size_t bytes, below; /* below: for allocations smaller than this */
    _Atomic(void *) held;
} blocks[] = {{.bytes = 16 * MIB, .below = 2 * MIB}, {.bytes = 8 * MIB, .below = MIB / 16}};

enum { BLOCKS = sizeof blocks / sizeof blocks[0], LAST = BLOCKS - 1 };

static atomic_bool wanted;  /* since the first memory_reserve_hold */
static atomic_bool guarded; /* since the last block was first held: without it large allocations fail */

/* Asks the blocks themselves: a separate counter could miss one that another thread gives back at the same time. */
static bool is_held(const struct block *block)
{
    return atomic_load_explicit(&block->held, memory_order_relaxed) != NULL;
}

uint64_t memory_reserve_missing(void)
{
    uint64_t bytes = 0;
    if (!atomic_load_explicit(&wanted, memory_order_relaxed))
        return 0;
    for (size_t i = 0; i < BLOCKS; i++)
        bytes += is_held(&blocks[i]) ? 0 : blocks[i].bytes;
    return bytes;
}

static void take(struct block *block)
{
    void *none = NULL;
    if (is_held(block))
        return;
    void *memory = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED && !atomic_compare_exchange_strong(&block->held, &none, memory))
        munmap(memory, block->bytes);
}

void memory_reserve_hold(void)
{
    atomic_store(&wanted, true);
    for (size_t i = BLOCKS; i-- > 0;)
        take(&blocks[i]);
    if (is_held(&blocks[LAST]))
        atomic_store(&guarded, true);
}

/* ---- large blocks of others ---- */

#define PACED_FROM  (64u * 1024u) /* smaller ones are libzmq's queues, which end the program when they get no memory */
#define PAUSE_NS    1000000
#define PAUSES_MAX  100
#define TRIM_PAUSES 20 /* what is free inside the allocator counts as used: every so many-th pause gives it back */

static _Atomic(memory_reserve_left) watch;
static void *watch_context;
static atomic_llong allowance; /* what may be taken until the next look */
static _Thread_local bool is_owner;

void memory_reserve_watch(memory_reserve_left left, void *context)
{
    watch_context = context;
    is_owner = true;
    atomic_store(&allowance, 0);
    atomic_store(&watch, left);
}

#ifdef MEMORY_RESERVE_ALLOCATOR

/* False: there was no room for a while. */
static bool paced(size_t bytes)
{
    memory_reserve_left left = bytes >= PACED_FROM && !is_owner ? atomic_load(&watch) : NULL;
    if (!left || atomic_fetch_sub(&allowance, (long long)bytes) >= (long long)bytes)
        return true;
    for (int pause = 0; pause < PAUSES_MAX; pause++) {
        uint64_t room = left(watch_context);
        if (room >= bytes) {
            uint64_t more = (room - bytes) / 2;
            atomic_store(&allowance, more < INT64_MAX ? (long long)more : INT64_MAX);
            return true;
        }
        if (pause % TRIM_PAUSES == 0)
            malloc_trim(0);
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    errno = ENOMEM;
    return false;
}

#endif

#ifdef MEMORY_RESERVE_ALLOCATOR /* not under sanitizers, which bring their own */

/* The C library's own, under the names that it exports for this. */
void *library_malloc(size_t bytes) __asm__("__libc_malloc");
void *library_calloc(size_t count, size_t bytes) __asm__("__libc_calloc");
void *library_realloc(void *block, size_t bytes) __asm__("__libc_realloc");

/* Gives back the first block that may serve the allocation. Trying again is also worth while when another thread has
   just given one back. */
static bool drop(size_t bytes, uint64_t missing_before)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        void *memory = bytes < blocks[i].below ? atomic_exchange(&blocks[i].held, NULL) : NULL;
        if (!memory)
            continue;
        munmap(memory, blocks[i].bytes);
        return true;
    }
    return memory_reserve_missing() != missing_before;
}

static bool denied(size_t bytes)
{
    if (bytes < blocks[LAST].below || is_held(&blocks[LAST]) || !atomic_load_explicit(&guarded, memory_order_relaxed))
        return false;
    errno = ENOMEM;
    return true;
}

/* Replaces the C library's function in the whole program, so that allocations of other libraries get here, too. */
__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    uint64_t before = memory_reserve_missing();
    if (!paced(bytes))
        return NULL;
    void *block = denied(bytes) ? NULL : library_malloc(bytes);
    while (!block && drop(bytes, before)) {
        before = memory_reserve_missing();
        block = library_malloc(bytes);
    }
    return block;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    size_t whole;
    uint64_t before = memory_reserve_missing();
    if (__builtin_mul_overflow(count, bytes, &whole))
        whole = SIZE_MAX;
    void *block = denied(whole) ? NULL : library_calloc(count, bytes);
    while (!block && drop(whole, before)) {
        before = memory_reserve_missing();
        block = library_calloc(count, bytes);
    }
    return block;
}

__attribute__((visibility("default"))) void *realloc(void *former, size_t bytes)
{
    uint64_t before = memory_reserve_missing();
    void *block = library_realloc(former, bytes);
    while (!block && bytes > 0 && drop(bytes, before)) {
        before = memory_reserve_missing();
        block = library_realloc(former, bytes);
    }
    return block;
}

#endif
