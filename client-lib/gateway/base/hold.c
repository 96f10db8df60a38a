#include "hold.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "assertion.h"

/* Small pieces share a block; the budget counts blocks with their heads, so that many small pieces are not had for less than they cost. */
#define CHUNK_BYTES 2048u
#define ALIGNMENT   16u

struct hold_block {
    struct hold_block *next;
    size_t bytes; /* of data */
    _Alignas(ALIGNMENT) char data[];
};

struct hold {
    atomic_uint references;
    struct hold_block *blocks; /* the newest first */
    char *chunk;               /* [chunk_left], of one of the blocks */
    size_t chunk_left;
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
        atomic_fetch_sub(&used, sizeof *block + block->bytes);
        free(block);
    }
    free(hold);
}

static char *take_block(struct hold *hold, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 || !budget_take(sizeof(struct hold_block) + bytes))
        return NULL;
    struct hold_block *block = malloc(sizeof *block + bytes);
    if (!block) {
        atomic_fetch_sub(&used, sizeof *block + bytes);
        return NULL;
    }
    block->next = hold->blocks;
    block->bytes = bytes;
    hold->blocks = block;
    return block->data;
}

static char *take_piece(struct hold *hold, size_t bytes)
{
    if (bytes > hold->chunk_left) {
        char *chunk = take_block(hold, CHUNK_BYTES);
        if (!chunk)
            return NULL;
        hold->chunk = chunk;
        hold->chunk_left = CHUNK_BYTES;
    }
    char *piece = hold->chunk;
    hold->chunk += bytes;
    hold->chunk_left -= bytes;
    return piece;
}

void *hold_take(struct hold *hold, size_t bytes)
{
    size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return bytes <= HOLD_PIECE_BYTES ? take_piece(hold, rounded) : take_block(hold, bytes);
}

static bool is_chunk(const struct hold *hold, const struct hold_block *block)
{
    return hold->chunk > block->data && hold->chunk <= block->data + block->bytes;
}

void *hold_resize(struct hold *hold, size_t bytes)
{
    struct hold_block *old = hold->blocks;
    PEN_ASSERT(!is_chunk(hold, old), "a piece that shares its block keeps its size");
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
