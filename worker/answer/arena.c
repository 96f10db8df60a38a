/* arena.c - blocks of 1 MiB, or of what one piece needs. */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCK_BYTES ((size_t)1024 * 1024)
#define ALIGN       alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t used, room;
    max_align_t data[];
};

static struct arena_block *block_add(struct arena *arena, size_t bytes)
{
    size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    if (room > arena->limit - arena->total)
        return NULL;
    struct arena_block *block = malloc(sizeof *block + room);
    arena->starved = !block;
    if (!block)
        return NULL;
    *block = (struct arena_block){.next = arena->blocks, .room = room};
    arena->total += room;
    return arena->blocks = block;
}

void *arena_take(struct arena *arena, size_t count, size_t size)
{
    struct arena_block *block = arena->blocks;
    arena->starved = false;
    if (size && count > (SIZE_MAX - ALIGN) / size)
        return NULL;
    size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > arena->limit)
        return NULL;
    if (!block || block->room - block->used < bytes)
        block = block_add(arena, bytes);
    if (!block)
        return NULL;
    void *piece = (char *)block->data + block->used;
    block->used += bytes;
    return piece;
}

static void blocks_free(struct arena *arena, const struct arena_block *kept)
{
    for (struct arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        if (block != kept)
            free(block);
    }
}

void arena_reset(struct arena *arena)
{
    struct arena_block *kept = arena->blocks;
    while (kept && kept->room > BLOCK_BYTES)
        kept = kept->next;
    blocks_free(arena, kept);
    arena->blocks = kept;
    arena->total = kept ? kept->room : 0;
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
    }
}

void arena_fini(struct arena *arena)
{
    blocks_free(arena, NULL);
    arena->blocks = NULL;
    arena->total = 0;
}
