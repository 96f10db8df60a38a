#include "large_block.h"

#include <pthread.h>
#include <sys/mman.h>

#include "deadline.h"

#define HUGE_PAGE_BYTES (2u * 1024u * 1024u)
#define HEAD_BYTES      4096u /* in front of the data, so that the data stays aligned to a page */

struct large_block {
    struct large_block *next; /* list of kept blocks, the most recently used first */
    size_t bytes;             /* of the mapping */
    uint64_t freed_us;
};

static struct {
    pthread_mutex_t lock;
    struct large_block *first;
    size_t bytes, bytes_max;
    unsigned count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Makes a mapping that begins at a huge page; gives back the excess at both ends. */
static struct large_block *block_map(size_t bytes)
{
    size_t wide = bytes + HUGE_PAGE_BYTES;
    uint8_t *memory = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t front = (HUGE_PAGE_BYTES - (uintptr_t)memory % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (front > 0)
        munmap(memory, front);
    munmap(memory + front + bytes, wide - front - bytes);
    struct large_block *block = (struct large_block *)(void *)(memory + front);
    madvise(block, bytes, MADV_HUGEPAGE); /* only a hint: without it the pages are small */
    block->bytes = bytes;
    return block;
}

static void block_unlink(struct large_block **at)
{
    struct large_block *block = *at;
    *at = block->next;
    kept.bytes -= block->bytes;
    kept.count--;
}

/* The smallest kept block that is large enough and wastes at most a quarter. */
static struct large_block *block_reuse(size_t bytes)
{
    struct large_block **best = NULL, *block = NULL;
    pthread_mutex_lock(&kept.lock);
    for (struct large_block **at = &kept.first; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->bytes <= bytes + bytes / 4 && (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    if (best) {
        block = *best;
        block_unlink(best);
    }
    pthread_mutex_unlock(&kept.lock);
    return block;
}

void large_block_give(void *data, void *hint)
{
    struct large_block *block = hint;
    (void)data;
    block->freed_us = clock_now_us();
    pthread_mutex_lock(&kept.lock);
    if (kept.count < LARGE_BLOCK_KEPT && block->bytes <= kept.bytes_max &&
        kept.bytes <= kept.bytes_max - block->bytes) {
        block->next = kept.first;
        kept.first = block;
        kept.bytes += block->bytes;
        kept.count++;
        block = NULL;
    }
    pthread_mutex_unlock(&kept.lock);
    if (block)
        munmap(block, block->bytes);
}

void *large_block_take(size_t bytes, void **ret_hint)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t whole = (bytes + HEAD_BYTES + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    struct large_block *block = block_reuse(whole);
    if (!block)
        block = block_map(whole);
    *ret_hint = block;
    return block ? (uint8_t *)block + HEAD_BYTES : NULL;
}

void large_block_keep(size_t bytes)
{
    pthread_mutex_lock(&kept.lock);
    kept.bytes_max = bytes;
    pthread_mutex_unlock(&kept.lock);
}

size_t large_block_trim(uint64_t now_us, uint64_t idle_us)
{
    struct large_block *old = NULL;
    pthread_mutex_lock(&kept.lock);
    for (struct large_block **at = &kept.first; *at;) {
        struct large_block *block = *at;
        if (now_us < block->freed_us + idle_us) {
            at = &block->next;
            continue;
        }
        block_unlink(at);
        block->next = old;
        old = block;
    }
    size_t bytes = kept.bytes;
    pthread_mutex_unlock(&kept.lock);
    for (struct large_block *next; old; old = next) {
        next = old->next;
        munmap(old, old->bytes);
    }
    return bytes;
}
