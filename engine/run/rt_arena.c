#include "run/rt_arena.h"

#include <stdlib.h>

#include "assertion.h"
#include "graph/lifetime.h"
#include "graph/room.h"

#define BLOCK_BYTES_MIN ((size_t)256 * 1024)

struct rt_block {
    struct rt_block *next;
    size_t room, used;
    unsigned char *bytes;
};

static void *memory_alloc(struct rt_memory *m, size_t bytes)
{
    return rt_arena_alloc((struct rt_arena *)(void *)m, bytes);
}

void rt_arena_init(struct rt_arena *a, uint64_t limit_bytes)
{
    *a = (struct rt_arena){.memory = {.alloc = memory_alloc}, .limit = limit_bytes};
    a->total = &a->own;
    a->refused = &a->own_refused;
}

void rt_arena_init_beside(struct rt_arena *a, struct rt_arena *first)
{
    rt_arena_init(a, first->limit);
    a->total = first->total;
    a->ledger = first->ledger;
    a->refused = first->refused;
}

struct rt_mark rt_arena_mark(const struct rt_arena *a)
{
    return (struct rt_mark){a->current, a->current != NULL ? a->current->used : 0};
}

void rt_arena_release(struct rt_arena *a, const struct rt_mark *mark)
{
    for (struct rt_block *b = mark->block != NULL ? mark->block->next : a->blocks; b != NULL; b = b->next) {
        b->used = 0;
    }
    a->current = mark->block != NULL ? mark->block : a->blocks;
    if (mark->block != NULL) {
        PEN_ASSERT(mark->used <= mark->block->room, "a place to go back to lies in its block");
        mark->block->used = mark->used;
    }
}

void rt_arena_reset(struct rt_arena *a)
{
    for (struct rt_block *b = a->blocks; b != NULL; b = b->next) {
        b->used = 0;
    }
    a->current = a->blocks;
}

void rt_arena_fini(struct rt_arena *a)
{
    for (struct rt_block *b = a->blocks, *next; b != NULL; b = next) {
        next = b->next;
        free(b->bytes);
        free(b);
    }
    a->blocks = a->current = NULL;
    if (a->ledger != NULL) {
        ledger_book(a->ledger, a->own, 0);
    }
    PEN_ASSERT(*a->total >= a->own, "the sum of arenas holds each of them");
    *a->total -= a->total != &a->own ? a->own : 0;
    a->own = 0;
}

/* Within what the session may hold; buckets that are not in use give way. */
static bool ledger_allows(struct ledger *l, size_t bytes)
{
    while (l != NULL && (bytes > ledger_limit(l) || l->bytes > ledger_limit(l) - bytes)) {
        if (bytes > ledger_limit(l) || !l->make_room(l->context)) {
            return false;
        }
    }
    return true;
}

static struct rt_block *block_add(struct rt_arena *a, size_t bytes)
{
    size_t room = bytes > BLOCK_BYTES_MIN ? bytes : BLOCK_BYTES_MIN;
    if (room > a->limit || *a->total > a->limit - room || !ledger_allows(a->ledger, room)) {
        *a->refused = true;
        return NULL;
    }
    struct rt_block *b = calloc(1, sizeof *b);
    if (b == NULL || (b->bytes = room_alloc(room)) == NULL) {
        free(b);
        return NULL;
    }
    b->room = room;
    a->own += room;
    if (a->ledger != NULL) {
        ledger_book(a->ledger, 0, room);
    }
    *a->total += a->total != &a->own ? room : 0;
    b->next = a->current != NULL ? a->current->next : NULL;
    if (a->current != NULL) {
        a->current->next = b;
    } else {
        a->blocks = b;
    }
    return b;
}

void *rt_arena_alloc(struct rt_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - LIFETIME_PAD - LIFETIME_ALIGN) {
        return NULL;
    }
    size_t need = (bytes + LIFETIME_PAD + LIFETIME_ALIGN - 1) & ~(size_t)(LIFETIME_ALIGN - 1);
    while (a->current != NULL && a->current->room - a->current->used < need && a->current->next != NULL) {
        a->current = a->current->next;
    }
    if (a->current == NULL || a->current->room - a->current->used < need) {
        struct rt_block *b = block_add(a, need);
        if (b == NULL) {
            return NULL;
        }
        a->current = b;
    }
    void *memory = a->current->bytes + a->current->used;
    a->current->used += need;
    PEN_ASSERT(a->current->used <= a->current->room, "what is taken from a block lies in it");
    return memory;
}
