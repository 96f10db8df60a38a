#include "heap.h"

#include <stdlib.h>

#include "assertion.h"

#define FIRST_ITEMS 16u

static uint32_t *place_of(const struct heap *heap, const void *item)
{
    return (uint32_t *)(void *)((char *)(uintptr_t)item + heap->place_offset);
}

static void put(struct heap *heap, size_t index, void *item)
{
    heap->items[index] = item;
    *place_of(heap, item) = (uint32_t)(index + 1);
}

/* The item is in order with its parent and its children. */
static bool in_order(const struct heap *heap, size_t index)
{
    const void *item = heap->items[index];
    size_t child = 2 * index + 1;
    return (index == 0 || !heap->before(item, heap->items[(index - 1) / 2])) &&
           (child >= heap->count || !heap->before(heap->items[child], item)) &&
           (child + 1 >= heap->count || !heap->before(heap->items[child + 1], item));
}

static bool stands_there(const struct heap *heap, const void *item)
{
    uint32_t place = *place_of(heap, item);
    return place > 0 && place <= heap->count && heap->items[place - 1] == item;
}

static void sift_up(struct heap *heap, size_t index)
{
    void *item = heap->items[index];
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!heap->before(item, heap->items[parent]))
            break;
        put(heap, index, heap->items[parent]);
        index = parent;
    }
    put(heap, index, item);
}

static void sift_down(struct heap *heap, size_t index)
{
    void *item = heap->items[index];
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!heap->before(heap->items[child], item))
            break;
        put(heap, index, heap->items[child]);
        index = child;
    }
    put(heap, index, item);
}

void heap_init(struct heap *heap, heap_before before, size_t place_offset)
{
    *heap = (struct heap){.before = before, .place_offset = place_offset};
}

void heap_fini(struct heap *heap)
{
    free(heap->items);
    heap->items = NULL;
    heap->count = heap->capacity = 0;
}

static enum pen_status grow(struct heap *heap)
{
    size_t capacity = heap->capacity ? heap->capacity * 2 : FIRST_ITEMS;
    if (capacity >= UINT32_MAX)
        return PEN_ERR_NO_MEMORY;
    void **items = realloc(heap->items, capacity * sizeof *items);
    if (!items)
        return PEN_ERR_NO_MEMORY;
    heap->items = items;
    heap->capacity = capacity;
    return PEN_OK;
}

void heap_settle(struct heap *heap)
{
    size_t capacity = heap->capacity;
    while (capacity > FIRST_ITEMS && capacity / 2 >= heap->count)
        capacity /= 2;
    void **items = capacity < heap->capacity ? realloc(heap->items, capacity * sizeof *items) : NULL;
    if (!items)
        return;
    heap->items = items;
    heap->capacity = capacity;
}

enum pen_status heap_push(struct heap *heap, void *item)
{
    PEN_ASSERT(!heap_holds(heap, item), "what comes into a heap is in none yet");
    if (heap->count == heap->capacity && grow(heap) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    heap->items[heap->count] = item;
    sift_up(heap, heap->count++);
    PEN_ASSERT_SLOW(stands_there(heap, item), "an item of a heap knows its place");
    PEN_ASSERT_SLOW(in_order(heap, *place_of(heap, item) - 1), "nobody in a heap comes before its parent");
    return PEN_OK;
}

void *heap_top(const struct heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}

void heap_remove(struct heap *heap, void *item)
{
    uint32_t place = *place_of(heap, item);
    if (place == 0)
        return;
    size_t index = place - 1;
    PEN_ASSERT(index < heap->count && heap->items[index] == item, "an item leaves the heap from its own place");
    *place_of(heap, item) = 0;
    void *last = heap->items[--heap->count];
    if (last == item)
        return;
    put(heap, index, last);
    sift_up(heap, index);
    sift_down(heap, *place_of(heap, last) - 1);
}

void heap_update(struct heap *heap, void *item)
{
    uint32_t place = *place_of(heap, item);
    if (place == 0)
        return;
    PEN_ASSERT(stands_there(heap, item), "an item of a heap knows its place");
    sift_up(heap, place - 1);
    sift_down(heap, *place_of(heap, item) - 1);
    PEN_ASSERT_SLOW(in_order(heap, *place_of(heap, item) - 1), "nobody in a heap comes before its parent");
}

bool heap_holds(const struct heap *heap, const void *item)
{
    return *place_of(heap, item) != 0;
}

/* The next item is always a child of one that was taken already: these are few enough to look at each. */
size_t heap_first(const struct heap *heap, size_t count, void *ret_items[HEAP_FIRST_MAX])
{
    size_t open[HEAP_FIRST_MAX + 1] = {0}, open_count = heap->count > 0, found = 0;
    count = count < HEAP_FIRST_MAX ? count : HEAP_FIRST_MAX;
    while (found < count && open_count > 0) {
        size_t least = 0;
        for (size_t i = 1; i < open_count; i++) {
            if (heap->before(heap->items[open[i]], heap->items[open[least]]))
                least = i;
        }
        size_t at = open[least], left = 2 * at + 1;
        ret_items[found++] = heap->items[at];
        open[least] = open[--open_count];
        for (size_t child = left; child < left + 2 && child < heap->count; child++)
            open[open_count++] = child;
    }
    return found;
}
