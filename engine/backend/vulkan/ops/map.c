#include "backend/vulkan/ops/map.h"

#include <stdlib.h>

void vk_map_init(struct vk_map *m, size_t size)
{
    *m = (struct vk_map){.size = size};
}

int32_t *vk_map_add(struct vk_map *m, size_t out, size_t step)
{
    int32_t *grown = m->rank < VK_MAP_DIMS ? realloc(m->table, (m->used + out + 1) * sizeof *grown) : NULL;
    if (grown == NULL) {
        return NULL;
    }
    m->table = grown;
    m->dim[m->rank] = out;
    m->step[m->rank] = step * (m->size == 8 ? 2 : 1);
    m->at[m->rank++] = m->used;
    m->used += out;
    return grown + m->used - out;
}

/* The words of an element keep their places. */
static bool words_add(struct vk_map *m)
{
    int32_t *table = vk_map_add(m, 2, 1);
    if (table != NULL) {
        m->step[m->rank - 1] = 1;
        table[0] = 0;
        table[1] = 1;
    }
    return table != NULL;
}

void vk_map_dispatch(struct vk_build *b, struct vk_map *m, uint32_t value)
{
    size_t two = m->size == 8 ? 2 : 1, count = vk_elements(vk_out(b, 0)) * two;
    if (two == 2 && !words_add(m)) {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a table, or too many dims");
    }
    uint32_t table = b->status == PEN_OK ? vk_host_cell(b, m->table, m->used * sizeof *m->table) : VK_CELL_NONE;
    struct vk_work *w = vk_dispatch(b, m->size == 1 ? SHADER_map8 : m->size == 2 ? SHADER_map16 : SHADER_map32);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, table, VK_READ);
    vk_bind(w, value != UINT32_MAX ? vk_in_cell(b, value) : vk_in_cell(b, 0), VK_READ);
    vk_spec(w, (uint32_t)m->rank);
    vk_push(w, count);
    vk_push(w, value != UINT32_MAX ? two : 0);
    for (int32_t d = 0; d < VK_MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->dim[d] : 1);
    }
    for (int32_t d = 0; d < VK_MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->step[d] : 0);
    }
    for (int32_t d = 0; d < VK_MAP_DIMS; d++) {
        vk_push(w, d < m->rank ? m->at[d] : 0);
    }
    vk_items(w, count);
    free(m->table);
    *m = (struct vk_map){0};
}
