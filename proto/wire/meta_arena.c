/* meta_arena.c - the bounded bump allocator behind meta_unpack. */
#include "tensor_codec.h"

#include <stdalign.h>
#include <stdlib.h>

#define BLOCK_BYTES_FIRST 8192u
#define BLOCK_BYTES_KEPT                                                                                               \
    (256u *                                                                                                            \
     1024u) /* a reset keeps one block of at most this: no malloc in the steady state, no memory held after a giant */

struct meta_block {
    struct meta_block *next; /* the older block */
    size_t size, used;
    alignas(max_align_t) unsigned char bytes[];
};

static struct meta_block *block_new(struct meta_arena *arena, size_t wanted)
{
    size_t left = arena->limit - arena->total;
    size_t size = arena->blocks ? 2 * arena->blocks->size : BLOCK_BYTES_FIRST;
    if (wanted > left)
        return NULL;
    size = size < wanted ? wanted : size;
    size = size > left ? left : size;
    struct meta_block *block = malloc(sizeof *block + size);
    arena->starved |= !block;
    if (!block)
        return NULL;
    *block = (struct meta_block){.next = arena->blocks, .size = size, .used = 0};
    arena->blocks = block;
    arena->total += size;
    return block;
}

static void *arena_alloc(void *data, size_t size)
{
    struct meta_arena *arena = data;
    struct meta_block *block = arena->blocks;
    if (size > arena->limit)
        return NULL;
    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!block || size > block->size - block->used) {
        block = block_new(arena, size);
        if (!block)
            return NULL;
    }
    void *bytes = block->bytes + block->used;
    block->used += size;
    arena->used += size;
    return bytes;
}

static void arena_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer; /* the next reset frees everything */
}

void meta_arena_init(struct meta_arena *arena, size_t limit_bytes)
{
    *arena = (struct meta_arena){
        .allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = arena},
        .limit = limit_bytes & ~(alignof(max_align_t) - 1),
    };
}

bool meta_arena_reserve(struct meta_arena *arena)
{
    return arena->blocks || block_new(arena, 1);
}

void meta_arena_reset(struct meta_arena *arena)
{
    struct meta_block *kept = NULL;
    for (struct meta_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        if (block->size <= BLOCK_BYTES_KEPT && (!kept || block->size > kept->size)) {
            free(kept);
            kept = block;
        } else {
            free(block);
        }
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
    }
    arena->blocks = kept;
    arena->starved = false;
    arena->nul = NULL;
    arena->used = 0;
    arena->total = kept ? kept->size : 0;
}

void meta_arena_fini(struct meta_arena *arena)
{
    for (struct meta_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->blocks = NULL;
    arena->used = arena->total = 0;
}

void *meta_unpack(struct meta_arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                  size_t size)
{
    void *message = protobuf_c_message_unpack(descriptor, &arena->allocator, size, bytes);
    arena->nul = message ? meta_nul(descriptor, bytes, size) : NULL;
    return arena->nul ? NULL : message;
}

enum pen_status meta_refusal(const struct meta_arena *arena, const char *malformed, struct pen_error *reterr)
{
    if (arena->nul)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the text of the field '%s' has a NUL byte in it; names and texts have none", arena->nul);
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s", malformed);
}
