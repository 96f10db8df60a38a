#include "graph/lifetime.h"

#include <stdbool.h>
#include <stdlib.h>

#include "assertion.h"

/* Largest first; ties by first step, so that the plan does not depend on the sort. */
static int by_size(const void *a, const void *b)
{
    const struct lifetime *x = *(const struct lifetime *const *)a, *y = *(const struct lifetime *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int alive_together(const struct lifetime *a, const struct lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static size_t extent(const struct lifetime *item)
{
    return (item->bytes + LIFETIME_PAD + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
}

/* The tightest gap between placed neighbours that holds the item. `placed` is sorted by offset. */
static size_t best_offset(const struct lifetime *item, struct lifetime *const *placed, size_t count)
{
    size_t need = extent(item), end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!alive_together(item, placed[i]))
            continue;
        if (placed[i]->offset > end) {
            size_t gap = placed[i]->offset - end;
            if (gap >= need && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
        }
        size_t after = placed[i]->offset + extent(placed[i]);
        if (after > end)
            end = after;
    }
    return best != SIZE_MAX ? best : end;
}

static void insert_by_offset(struct lifetime **placed, size_t count, struct lifetime *item)
{
    size_t i = count;
    for (; i > 0 && placed[i - 1]->offset > item->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = item;
}

/* All items side by side must fit a size_t: then no offset can overflow. */
static enum pen_status check_total(const struct lifetime *items, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (items[i].last < items[i].first)
            return PEN_ERR_INVALID;
        if (items[i].bytes > SIZE_MAX - LIFETIME_PAD - LIFETIME_ALIGN)
            return PEN_ERR_TOO_LARGE;
        if (__builtin_add_overflow(total, extent(&items[i]), &total))
            return PEN_ERR_TOO_LARGE;
    }
    return PEN_OK;
}

/* No two buffers that are alive at the same step share a byte, padding included. */
static bool apart(const struct lifetime *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct lifetime *a = &items[i], *b = &items[k];
            if (alive_together(a, b) && a->offset < b->offset + extent(b) && b->offset < a->offset + extent(a))
                return false;
        }
    }
    return true;
}

enum pen_status lifetime_plan(struct lifetime *items, size_t count, size_t *ret_bytes)
{
    enum pen_status status = check_total(items, count);
    if (status != PEN_OK)
        return status;
    size_t arena = 0;
    if (count == 0) {
        *ret_bytes = 0;
        return PEN_OK;
    }
    struct lifetime **order = calloc(count, 2 * sizeof(struct lifetime *));
    if (!order)
        return PEN_ERR_NO_MEMORY;
    struct lifetime **placed = order + count;
    for (size_t i = 0; i < count; i++)
        order[i] = &items[i];
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count; i++) {
        struct lifetime *item = order[i];
        item->offset = best_offset(item, placed, i);
        PEN_ASSERT(item->offset % LIFETIME_ALIGN == 0, "every offset in an arena is aligned");
        insert_by_offset(placed, i, item);
        if (item->offset + extent(item) > arena)
            arena = item->offset + extent(item);
    }
    free(order);
    PEN_ASSERT_SLOW(apart(items, count), "buffers that are alive at the same step share no byte of the arena");
    *ret_bytes = arena;
    return PEN_OK;
}
