#include "backend/vulkan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

uint32_t vk_cell_root(const struct exec *e, uint32_t cell)
{
    PEN_ASSERT(cell < e->cell_count, "a cell is one of the exec's");
    while (e->cells[cell].parent != cell) {
        PEN_ASSERT(e->cells[cell].parent < cell, "a cell shares the memory of an older one");
        cell = e->cells[cell].parent;
    }
    return cell;
}

uint32_t vk_cell_add(struct exec *e, const struct vk_cell *cell)
{
    if (e->cell_count == e->cell_room) {
        uint32_t room = e->cell_room == 0 ? 64 : 2 * e->cell_room;
        struct vk_cell *cells = realloc(e->cells, room * sizeof *cells);
        if (cells == NULL) {
            return VK_CELL_NONE;
        }
        e->cells = cells;
        e->cell_room = room;
    }
    e->cells[e->cell_count] = *cell;
    e->cells[e->cell_count].parent = e->cell_count;
    return e->cell_count++;
}

struct vk_work *vk_work_add(struct exec *e)
{
    if (e->work_count == e->work_room) {
        uint32_t room = e->work_room == 0 ? 32 : 2 * e->work_room;
        struct vk_work *works = realloc(e->works, room * sizeof *works);
        if (works == NULL) {
            return NULL;
        }
        e->works = works;
        e->work_room = room;
    }
    struct vk_work *w = &e->works[e->work_count++];
    memset(w, 0, sizeof *w);
    w->groups[0] = w->groups[1] = w->groups[2] = 1;
    return w;
}

struct vk_slice vk_cell_slice(const struct exec *e, uint32_t cell)
{
    const struct vk_cell *c = &e->cells[vk_cell_root(e, cell)];
    if (c->kind == VK_CELL_FIXED) {
        struct vk_slice s = c->slice;
        s.offset += s.buffer == e->ferry.inbox.handle || s.buffer == e->staging_in.handle ? e->region * e->stride_in
                    : s.buffer == e->staging_out.handle                                   ? e->region * e->stride_out
                                                                                          : 0;
        return s;
    }
    VkDeviceSize bytes = (c->bytes + 3) / 4 * 4;
    PEN_ASSERT(e->arena.handle == VK_NULL_HANDLE || (bytes <= e->arena.bytes && c->offset <= e->arena.bytes - bytes),
               "a cell lies in the exec's arena");
    return (struct vk_slice){e->arena.handle, c->offset, bytes == 0 ? 4 : bytes};
}

bool vk_cell_staged(const struct exec *e, uint32_t cell)
{
    const struct vk_cell *c = &e->cells[vk_cell_root(e, cell)];
    return c->kind == VK_CELL_FIXED &&
           (c->slice.buffer == e->staging_in.handle || c->slice.buffer == e->ferry.inbox.handle ||
            c->slice.buffer == e->staging_out.handle);
}
