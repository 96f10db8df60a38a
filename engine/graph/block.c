#include "graph/block.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/room.h"

#if defined(__SANITIZE_ADDRESS__)
#define SEES_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEES_ADDRESSES 1
#endif
#endif

/* The sanitizer does not watch mappings: it is told what lies behind a constant and its padding. */
#ifdef SEES_ADDRESSES
#include <sanitizer/asan_interface.h>
static void fence(const struct block *b, size_t used)
{
    __asan_poison_memory_region(b->base + used, b->mapped - used);
}
static void fence_drop(const struct block *b)
{
    __asan_unpoison_memory_region(b->base, b->mapped);
}
#else
static void fence(const struct block *b, size_t used)
{
    (void)b, (void)used;
}
static void fence_drop(const struct block *b)
{
    (void)b;
}
#endif

#define HUGE_BYTES                                                                                                     \
    ((size_t)2 << 20) /* of a large page; a weight of 9 MiB is filled 4 times as fast in them (bench_load) */

static size_t whole(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* A large block begins at a large page. */
static unsigned char *map_aligned(size_t mapped)
{
    unsigned char *from = mmap(NULL, mapped + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED)
        return MAP_FAILED;
    size_t head = whole((uintptr_t)from, HUGE_BYTES) - (uintptr_t)from;
    if (head > 0)
        munmap(from, head);
    if (head < HUGE_BYTES)
        munmap(from + head + mapped, HUGE_BYTES - head);
    (void)room_large(from + head, mapped);
    return from + head;
}

static size_t pages(size_t bytes)
{
    long page = sysconf(_SC_PAGESIZE);
    return whole(bytes, page > 0 ? (size_t)page : 4096);
}

bool block_reserve(struct block *ret_block, size_t bytes, size_t pad)
{
    size_t mapped = pages(bytes + pad);
    unsigned char *base = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    *ret_block = (struct block){.base = base, .bytes = bytes, .mapped = mapped, .sealed = true};
    fence(ret_block, bytes + pad);
    return true;
}

bool block_map(struct block *ret_block, size_t bytes, size_t pad)
{
    size_t mapped = pages(bytes + pad);
    unsigned char *base = mapped >= HUGE_BYTES
                              ? map_aligned(mapped)
                              : mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return false;
    (void)madvise(base, mapped, MADV_POPULATE_WRITE); /* in one go; where the kernel cannot, page by page */
    *ret_block = (struct block){.base = base, .bytes = bytes, .mapped = mapped};
    fence(ret_block, bytes + pad);
    return true;
}

void block_unmap(struct block *b)
{
    fence_drop(b);
    munmap(b->base, b->mapped);
}

bool block_holds(const struct block *b, const void *memory)
{
    return (uintptr_t)memory >= (uintptr_t)b->base && (uintptr_t)memory < (uintptr_t)b->base + b->mapped;
}

bool block_seal(struct block *b)
{
    b->sealed = mprotect(b->base, b->mapped, PROT_NONE) == 0;
    if (b->sealed)
        (void)madvise(b->base, b->mapped, MADV_DONTNEED); /* zero when it is read again */
    return b->sealed;
}

bool block_unseal(struct block *b)
{
    b->sealed = mprotect(b->base, b->mapped, PROT_READ | PROT_WRITE) != 0;
    return !b->sealed;
}
