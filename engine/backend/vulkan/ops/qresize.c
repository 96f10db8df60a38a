#include "backend/vulkan/ops/qresize.h"

#include <math.h>
#include <stdlib.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/quantised.h"

bool vk_qresize_takes(const struct graph *g, const struct node *n)
{
    const struct value *x = node_in(g, n, 0);
    return node_int(n, ATTR_fixed_point, 0) != 0 && vk_is_byte(x) && x->shape.rank == 4;
}

/* Neighbours of position i and the weight of the second, of 2048; positions in single precision, as TFLite's runtime has them. */
static void neighbours(const struct node *n, int64_t in, int64_t out, int64_t i, uint32_t entry[3])
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    bool corners = node_text_is(n, key, "align_corners", false), half = node_text_is(n, key, "half_pixel", false);
    int64_t less = corners && out != 1 ? 1 : 0;
    float scale = (float)(in - less) / (float)(out - less), at = (float)i * scale;
    if (half) {
        at = at + (0.5f * scale - 0.5f);
    }
    at = fminf(fmaxf(at, 0.0f), (float)(in - 1));
    entry[0] = (uint32_t)at;
    entry[1] = (int64_t)entry[0] + 1 < in ? entry[0] + 1 : (uint32_t)(in - 1);
    entry[2] = (uint32_t)lrintf((at - (float)entry[0]) * 2048.0f);
}

static uint32_t table_cell(struct vk_build *b, const struct shape *x, const struct shape *y)
{
    size_t rows = (size_t)y->dim[1], columns = (size_t)y->dim[2], bytes = (rows + columns) * 3 * sizeof(uint32_t);
    uint32_t *table = malloc(bytes), cell = VK_CELL_NONE;
    if (table == NULL) {
        vk_build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a table");
        return cell;
    }
    for (size_t i = 0; i < rows + columns; i++) {
        bool row = i < rows;
        neighbours(b->n, x->dim[row ? 1 : 2], y->dim[row ? 1 : 2], (int64_t)(row ? i : i - rows), table + 3 * i);
    }
    cell = vk_host_cell(b, table, bytes);
    free(table);
    return cell;
}

void vk_qresize_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    if (y->rank != 4 || y->dim[0] != x->dim[0] || y->dim[3] != x->dim[3]) {
        vk_build_fail(b, PEN_ERR_SHAPE, "fixed-point resizing needs [batch, height, width, channels]");
        return;
    }
    uint32_t table = table_cell(b, x, y);
    struct vk_work *w = vk_dispatch(b, SHADER_qresize);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_bind(w, table, VK_READ);
    vk_spec(w, vk_in(b, 0)->dtype == PEN_DTYPE_I8);
    vk_push(w, vk_elements(vk_out(b, 0)));
    const int64_t words[] = {x->dim[1], x->dim[2], y->dim[1], y->dim[2], x->dim[3]};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, (size_t)words[i]);
    }
    vk_items(w, vk_elements(vk_out(b, 0)));
}
