#include "backend/reference/scratch.h"

#include <stdlib.h>

#include "assertion.h"
#include "graph/lifetime.h"
#include "graph/room.h"

#define SCRATCH_BLOCK ((size_t)1 << 20)

/* The data follows, 64-byte aligned. */
struct scratch_block {
    struct scratch_block *next;
    size_t room, used;
    uint8_t *data;
};

static struct scratch_block *block_new(size_t room)
{
    struct scratch_block *b = malloc(sizeof *b);
    void *data = b != NULL ? room_alloc(room) : NULL;
    if (data == NULL) {
        free(b);
        return NULL;
    }
    *b = (struct scratch_block){.room = room, .data = data};
    return b;
}

/* Appends behind the last block. */
static struct scratch_block *block_add(struct scratch *s, size_t need)
{
    size_t room = need < SCRATCH_BLOCK ? SCRATCH_BLOCK : need;
    if (room > s->limit || s->bytes > s->limit - room) {
        s->refused = true;
        return NULL;
    }
    struct scratch_block *b = block_new(room), **at = &s->first;
    if (b == NULL) {
        return NULL;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = b;
    s->bytes += room;
    PEN_ASSERT(s->bytes <= s->limit, "scratch memory stays within its limit");
    return b;
}

static void *scratch_alloc(struct rt_memory *m, size_t bytes)
{
    struct scratch *s = (struct scratch *)(void *)m;
    if (bytes > SIZE_MAX - LIFETIME_PAD - LIFETIME_ALIGN) {
        return NULL;
    }
    size_t need = (bytes + LIFETIME_PAD + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
    while (s->current != NULL && s->current->room - s->current->used < need) {
        s->current = s->current->next;
    }
    if (s->current == NULL) {
        s->current = block_add(s, need);
    }
    if (s->current == NULL) {
        return NULL;
    }
    void *data = s->current->data + s->current->used;
    s->current->used += need;
    PEN_ASSERT(s->current->used <= s->current->room, "what is taken from a block lies in it");
    return data;
}

void scratch_init(struct scratch *s, uint64_t limit_bytes)
{
    *s = (struct scratch){.memory = {.alloc = scratch_alloc}, .limit = limit_bytes};
}

void scratch_fini(struct scratch *s)
{
    while (s->first != NULL) {
        struct scratch_block *next = s->first->next;
        free(s->first->data);
        free(s->first);
        s->first = next;
    }
    s->current = NULL;
}

void scratch_reset(struct scratch *s)
{
    for (struct scratch_block *b = s->first; b != NULL; b = b->next) {
        b->used = 0;
    }
    s->current = s->first;
}
