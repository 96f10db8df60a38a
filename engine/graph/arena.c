#include "graph/arena.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/block.h"
#include "graph/poison.h"

#define CHUNK_BYTES (64u * 1024)
#define BIG_BYTES   (16u * 1024) /* larger ones get a chunk of their own */
#define ALIGN       64u
#define PAD         64u /* vector kernels read past the end of constants */

struct chunk {
    struct chunk *next;
    size_t used, room;
    unsigned char *base; /* 64-byte aligned */
};

struct graph_arena {
    uint64_t limit, total;
    struct chunk *small; /* being filled */
    struct chunk *big;
    struct block *blocks; /* of constants; sorted by address when `sorted` */
    size_t block_count, block_room;
    bool sorted;
    bool starved;
};

struct graph_arena *arena_new(uint64_t limit)
{
    struct graph_arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->limit = limit;
    return arena;
}

static void chunks_free(struct chunk *chunk)
{
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void arena_free(struct graph_arena *arena)
{
    if (!arena)
        return;
    chunks_free(arena->small);
    chunks_free(arena->big);
    for (size_t i = 0; i < arena->block_count; i++)
        block_unmap(&arena->blocks[i]);
    free(arena->blocks);
    free(arena);
}

static struct chunk *chunk_new(size_t room)
{
    /* calloc leaves fresh pages of a large block untouched. */
    unsigned char *block = calloc(1, sizeof(struct chunk) + room + ALIGN);
    if (!block)
        return NULL;
    struct chunk *chunk = (struct chunk *)(void *)block;
    uintptr_t base = (uintptr_t)block + sizeof *chunk;
    chunk->base = block + sizeof *chunk + (ALIGN - base % ALIGN) % ALIGN;
    chunk->room = room;
    return chunk;
}

static void *alloc_big(struct graph_arena *arena, size_t bytes)
{
    struct chunk *chunk = chunk_new(bytes);
    if (!chunk)
        return NULL;
    chunk->next = arena->big;
    arena->big = chunk;
    return chunk->base;
}

static void *alloc_small(struct graph_arena *arena, size_t bytes, size_t align)
{
    struct chunk *chunk = arena->small;
    size_t start = chunk ? (chunk->used + align - 1) / align * align : 0;
    if (!chunk || start + bytes > chunk->room) {
        chunk = chunk_new(CHUNK_BYTES);
        if (!chunk)
            return NULL;
        chunk->next = arena->small;
        arena->small = chunk;
        poison_set(chunk->base, chunk->room);
        start = 0;
    }
    chunk->used = start + bytes;
    PEN_ASSERT(chunk->used <= chunk->room, "what is taken from a chunk lies in it");
    return chunk->base + start;
}

static bool within_limit(const struct graph_arena *arena, size_t bytes)
{
    return bytes <= SIZE_MAX / 2 && arena->total + bytes <= arena->limit;
}

void *arena_alloc(struct graph_arena *arena, size_t bytes)
{
    if (!within_limit(arena, bytes))
        return NULL;
    size_t room = bytes >= ALIGN ? bytes + PAD : bytes + 1;
    void *memory = room > BIG_BYTES ? alloc_big(arena, room) : alloc_small(arena, room, bytes >= ALIGN ? ALIGN : 16);
    arena->starved |= !memory;
    if (memory)
        arena->total += bytes;
    if (memory && room <= BIG_BYTES)
        poison_clear(memory, bytes >= ALIGN ? room : bytes);
    PEN_ASSERT(arena->total <= arena->limit, "a graph's memory stays within its limit");
    return memory;
}

bool arena_starved(const struct graph_arena *arena)
{
    return arena->starved;
}

static bool chunks_own(const struct chunk *chunk, uintptr_t at)
{
    for (; chunk; chunk = chunk->next) {
        if (at >= (uintptr_t)chunk->base && at < (uintptr_t)chunk->base + chunk->room)
            return true;
    }
    return false;
}

bool arena_owns(const struct graph_arena *arena, const void *memory)
{
    for (size_t i = 0; i < arena->block_count; i++) {
        if (block_holds(&arena->blocks[i], memory))
            return true;
    }
    return chunks_own(arena->small, (uintptr_t)memory) || chunks_own(arena->big, (uintptr_t)memory);
}

uint64_t arena_bytes(const struct graph_arena *arena)
{
    return arena->total;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------ */

static bool room_for_block(struct graph_arena *arena)
{
    if (arena->block_count < arena->block_room)
        return true;
    size_t room = arena->block_room ? arena->block_room * 2 : 16;
    struct block *bigger = realloc(arena->blocks, room * sizeof *bigger);
    if (!bigger)
        return false;
    arena->blocks = bigger;
    arena->block_room = room;
    return true;
}

/* NULL: the system refuses. */
static void *block_add(struct graph_arena *arena, size_t bytes, bool (*map)(struct block *b, size_t bytes, size_t pad))
{
    if (!room_for_block(arena) || !map(&arena->blocks[arena->block_count], bytes, PAD)) {
        arena->starved = true;
        return NULL;
    }
    arena->sorted = false;
    return arena->blocks[arena->block_count++].base;
}

void *arena_alloc_data(struct graph_arena *arena, size_t bytes)
{
    if (bytes + PAD <= BIG_BYTES || !within_limit(arena, bytes))
        return arena_alloc(arena, bytes);
    void *memory = block_add(arena, bytes, block_map);
    arena->total += memory ? bytes : 0;
    return memory;
}

void *arena_reserve_data(struct graph_arena *arena, size_t bytes)
{
    return bytes <= SIZE_MAX / 2 ? block_add(arena, bytes, block_reserve) : NULL;
}

size_t arena_block_count(const struct graph_arena *arena)
{
    return arena->block_count;
}

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return (uintptr_t)x->base < (uintptr_t)y->base ? -1 : (uintptr_t)x->base > (uintptr_t)y->base;
}

size_t arena_block_find(struct graph_arena *arena, const void *memory)
{
    if (!arena->sorted && arena->block_count > 0)
        qsort(arena->blocks, arena->block_count, sizeof *arena->blocks, by_address);
    arena->sorted = true;
    size_t first = 0, end = arena->block_count; /* blocks before `first` begin at or before memory */
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if ((uintptr_t)arena->blocks[middle].base <= (uintptr_t)memory)
            first = middle + 1;
        else
            end = middle;
    }
    return first > 0 && block_holds(&arena->blocks[first - 1], memory) ? first - 1 : ARENA_NO_BLOCK;
}

void arena_blocks_keep(struct graph_arena *arena, const bool *keep)
{
    size_t kept = 0;
    for (size_t i = 0; i < arena->block_count; i++) {
        struct block *b = &arena->blocks[i];
        if (keep[i]) {
            arena->blocks[kept++] = *b;
            continue;
        }
        PEN_ASSERT(b->sealed || arena->total >= b->bytes, "a block that goes was counted");
        arena->total -= b->sealed ? 0 : b->bytes;
        block_unmap(b);
    }
    arena->block_count = kept;
}

bool arena_block_seal(struct graph_arena *arena, size_t block)
{
    struct block *b = &arena->blocks[block];
    bool was = b->sealed, done = was || block_seal(b);
    PEN_ASSERT(was || arena->total >= b->bytes, "a block that is sealed was counted");
    if (done && !was)
        arena->total -= b->bytes;
    return done;
}

bool arena_block_sealed(const struct graph_arena *arena, size_t block)
{
    return arena->blocks[block].sealed;
}

bool arena_block_unseal(struct graph_arena *arena, size_t block)
{
    struct block *b = &arena->blocks[block];
    if (b->sealed && block_unseal(b))
        arena->total += b->bytes;
    return !b->sealed;
}
