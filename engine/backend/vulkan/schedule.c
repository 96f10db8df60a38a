#include "backend/vulkan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/lifetime.h"

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* One level behind everything it must wait for: reads wait for writes, writes for reads and writes. */
static void level_find(struct exec *e, struct vk_work *w)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < w->key.bindings; i++) {
        const struct vk_cell *c = &e->cells[vk_cell_root(e, w->cells[i])];
        level = most(level, c->written);
        if ((w->access[i] & VK_WRITE) != 0) {
            level = most(level, c->read);
        }
    }
    w->level = level;
    for (uint32_t i = 0; i < w->key.bindings; i++) {
        struct vk_cell *c = &e->cells[vk_cell_root(e, w->cells[i])];
        if ((w->access[i] & VK_WRITE) != 0) {
            c->written = most(c->written, level + 1);
        }
        if ((w->access[i] & VK_READ) != 0) {
            c->read = most(c->read, level + 1);
        }
        c->first = c->used && c->first < level ? c->first : level;
        c->last = c->used && c->last > level ? c->last : level;
        c->used = true;
    }
    e->level_count = most(e->level_count, level + 1);
}

/* Counting sort: stable, so that works of a level keep the order of the file. */
static enum pen_status works_sort(struct exec *e)
{
    struct vk_work *sorted = calloc((size_t)e->work_count + 1, sizeof *sorted);
    uint32_t *at = calloc((size_t)e->level_count + 2, sizeof *at);
    if (sorted == NULL || at == NULL) {
        free(sorted);
        free(at);
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < e->work_count; i++) {
        at[e->works[i].level + 1]++;
    }
    for (uint32_t l = 0; l < e->level_count; l++) {
        at[l + 1] += at[l];
    }
    for (uint32_t i = 0; i < e->work_count; i++) {
        sorted[at[e->works[i].level]++] = e->works[i];
    }
    PEN_ASSERT(at[0] <= e->work_count && (e->work_count == 0 || at[e->level_count - 1] == e->work_count),
               "sorting by level keeps every work");
    free(at);
    free(e->works);
    e->works = sorted;
    e->work_room = e->work_count;
    return PEN_OK;
}

/* Cells of the arena by their levels; sizes are such that every offset keeps the device's alignment. */
static enum pen_status arena_lay(struct exec *e, size_t *ret_bytes)
{
    size_t align = (size_t)vk_slice_align(e->weights->device), count = 0;
    struct lifetime *items = calloc((size_t)e->cell_count + 1, sizeof *items);
    if (items == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < e->cell_count; i++) {
        const struct vk_cell *c = &e->cells[i];
        if (c->kind == VK_CELL_ARENA && c->used) {
            size_t whole = (c->bytes + LIFETIME_PAD + align - 1) / align * align;
            items[count++] = (struct lifetime){.bytes = whole - LIFETIME_PAD, .first = c->first, .last = c->last};
        }
    }
    enum pen_status status = lifetime_plan(items, count, ret_bytes);
    count = 0;
    for (uint32_t i = 0; i < e->cell_count && status == PEN_OK; i++) {
        struct vk_cell *c = &e->cells[i];
        if (c->kind == VK_CELL_ARENA && c->used) {
            c->offset = items[count++].offset;
            PEN_ASSERT(c->first <= c->last && c->last < e->level_count, "a cell lives in levels of the exec");
            PEN_ASSERT(c->offset % align == 0 && c->bytes <= *ret_bytes && c->offset <= *ret_bytes - c->bytes,
                       "a cell lies in the arena, aligned as the device wants it");
        }
    }
    free(items);
    return status;
}

static enum pen_status ranges_check(const struct exec *e, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < e->cell_count; i++) {
        if (e->cells[i].used && vk_cell_slice(e, i).bytes > e->weights->device->limits.maxStorageBufferRange) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                 "vulkan: a tensor of %zu bytes exceeds the device's buffer range of %u",
                                 e->cells[i].bytes, e->weights->device->limits.maxStorageBufferRange);
        }
    }
    return PEN_OK;
}

enum pen_status vk_schedule(struct exec *e, struct pen_error *reterr)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < e->work_count; i++) {
        level_find(e, &e->works[i]);
    }
    enum pen_status status = works_sort(e);
    if (status == PEN_OK) {
        status = arena_lay(e, &bytes);
    }
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "vulkan: no memory to order %u dispatches", e->work_count);
    }
    status = ranges_check(e, reterr);
    if (status == PEN_OK && !allowance_take(e->env->allowance, bytes + 256)) {
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "vulkan: values between nodes need %zu bytes, above the budget", bytes + 256);
    }
    return status == PEN_OK
               ? vk_buffer_new(e->weights->device, VK_MEMORY_DEVICE, bytes + 256, "activations", &e->arena, reterr)
               : status;
}
