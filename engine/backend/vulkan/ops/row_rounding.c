#include "backend/vulkan/op.h"
#include "backend/vulkan/ops/ops.h"

/* RowRounding: rows of TFLite's hybrid products, rounded to 8 bits and back. */
#define WIDE_ROW 128 /* from here on a workgroup shares a row */

static bool rounding_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    return (x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), x->shape.rank) >= 0) ||
           vk_refuse(ret_reason, "axis out of range");
}

static void rounding_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    size_t row = 1;
    for (int32_t d = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank); d < x->rank; d++) {
        row *= (size_t)x->dim[d];
    }
    size_t rows = (size_t)shape_elements(x) / row;
    bool wide = row >= WIDE_ROW;
    struct vk_work *w = vk_dispatch(b, SHADER_row_rounding);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_spec(w, node_int(b->n, ATTR_symmetric, 0) != 0);
    vk_spec(w, wide);
    vk_push(w, rows);
    vk_push(w, row);
    vk_items(w, wide ? rows * 64 : rows);
}

const struct vk_op vk_op_row_rounding = {rounding_supports, NULL, rounding_build};
