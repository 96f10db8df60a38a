#include "hold.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct hold_block {
    struct hold_block *next;
    size_t bytes;
    _Alignas(16) char data[];
};

struct hold {
    atomic_uint references;
    struct hold_block *blocks; /* the newest first */
};

static atomic_size_t budget = (size_t)1 << 30, used;

static bool budget_take(size_t bytes)
{
    size_t before = atomic_fetch_add(&used, bytes);
    if (bytes <= atomic_load(&budget) && before <= atomic_load(&budget) - bytes)
        return true;
    atomic_fetch_sub(&used, bytes);
    return false;
}

void hold_budget_set(size_t bytes)
{
    atomic_store(&budget, bytes);
}

size_t hold_budget_used(void)
{
    return atomic_load(&used);
}

struct hold *hold_new(void)
{
    struct hold *hold = calloc(1, sizeof *hold);
    if (hold)
        atomic_init(&hold->references, 1);
    return hold;
}

void hold_retain(struct hold *hold)
{
    atomic_fetch_add(&hold->references, 1);
}

void hold_release(void *memory)
{
    struct hold *hold = memory;
    if (!hold || atomic_fetch_sub(&hold->references, 1) != 1)
        return;
    while (hold->blocks) {
        struct hold_block *block = hold->blocks;
        hold->blocks = block->next;
        atomic_fetch_sub(&used, block->bytes);
        free(block);
    }
    free(hold);
}

void *hold_take(struct hold *hold, size_t bytes)
{
    if (!budget_take(bytes))
        return NULL;
    struct hold_block *block = malloc(sizeof *block + bytes);
    if (!block) {
        atomic_fetch_sub(&used, bytes);
        return NULL;
    }
    block->next = hold->blocks;
    block->bytes = bytes;
    hold->blocks = block;
    return block->data;
}

void *hold_resize(struct hold *hold, size_t bytes)
{
    struct hold_block *old = hold->blocks;
    size_t more = bytes > old->bytes ? bytes - old->bytes : 0;
    if (!budget_take(more))
        return NULL;
    struct hold_block *block = realloc(old, sizeof *block + bytes);
    if (!block) {
        atomic_fetch_sub(&used, more);
        return NULL;
    }
    if (bytes < block->bytes)
        atomic_fetch_sub(&used, block->bytes - bytes);
    block->bytes = bytes;
    hold->blocks = block;
    return block->data;
}
