/*
 * heap.h - an intrusive binary heap: the item that comes before all others is on top, any item leaves in O(log n).
 *
 * An item stores its own place (a uint32_t, 0 = not in the heap), so that a cancelled job is removed without a search.
 * Threads: one-at-a-time.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

typedef bool (*heap_before)(const void *a, const void *b); /* strict order: a leaves before b */

struct heap {
    void **items;
    size_t count, capacity;
    heap_before before;
    size_t place_offset; /* of the item's uint32_t place */
};

void heap_init(struct heap *heap, heap_before before, size_t place_offset); /* takes no memory before the first push */
void heap_fini(struct heap *heap);                                          /* does not free the items */
void heap_settle(struct heap *heap);                                        /* gives back memory after a burst */
enum pen_status heap_push(struct heap *heap, void *item);                   /* NO_MEMORY: the item was not added */
void *heap_top(const struct heap *heap);                                    /* NULL if empty */
#define HEAP_FIRST_MAX 32u
/* The first `count` items in order, at most HEAP_FIRST_MAX; returns how many there are. */
size_t heap_first(const struct heap *heap, size_t count, void *ret_items[HEAP_FIRST_MAX]);
void heap_remove(struct heap *heap, void *item); /* does nothing when the item is not in the heap */
void heap_update(struct heap *heap, void *item); /* its order has changed; does nothing when it is not in the heap */
bool heap_holds(const struct heap *heap, const void *item);

#endif
