#include "graph/arena.h"

#include <stdlib.h>
#include <string.h>

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
        start = 0;
    }
    chunk->used = start + bytes;
    return chunk->base + start;
}

void *arena_alloc(struct graph_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 || arena->total + bytes > arena->limit)
        return NULL;
    size_t room = bytes >= ALIGN ? bytes + PAD : bytes + 1;
    void *memory = room > BIG_BYTES ? alloc_big(arena, room) : alloc_small(arena, room, bytes >= ALIGN ? ALIGN : 16);
    if (memory)
        arena->total += bytes;
    return memory;
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
    return chunks_own(arena->small, (uintptr_t)memory) || chunks_own(arena->big, (uintptr_t)memory);
}

uint64_t arena_bytes(const struct graph_arena *arena)
{
    return arena->total;
}
