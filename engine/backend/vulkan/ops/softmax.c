#include "backend/vulkan/ops/softmax.h"

#include "backend/vulkan/ops/ops.h"

/* Softmax and LogSoftmax over any axis; sums are f32 whatever the storage. */
#define WIDE_AXIS 128 /* from here on a workgroup shares a row */

static bool softmax_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    return (x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), x->shape.rank) >= 0) ||
           vk_refuse(ret_reason, "axis out of range");
}

static void rows_dispatch(struct vk_build *b, uint32_t y, uint32_t x, const struct shape *shape, int32_t axis,
                          bool logarithm, bool zero)
{
    size_t inner = 1, rows = (size_t)(shape_elements(shape) / shape->dim[axis]);
    for (int32_t d = axis + 1; d < shape->rank; d++) {
        inner *= (size_t)shape->dim[d];
    }
    bool wide = shape->dim[axis] >= WIDE_AXIS;
    struct vk_work *w = vk_dispatch(b, SHADER_softmax);
    vk_bind(w, y, VK_WRITE);
    vk_bind(w, x, VK_READ);
    vk_spec(w, logarithm);
    vk_spec(w, wide);
    vk_spec(w, zero);
    vk_push(w, rows);
    vk_push(w, (size_t)shape->dim[axis]);
    vk_push(w, inner);
    vk_items(w, wide ? rows * 64 : rows);
}

void vk_softmax_rows(struct vk_build *b, uint32_t y, uint32_t x, const struct shape *shape, int32_t axis,
                     bool logarithm)
{
    rows_dispatch(b, y, x, shape, axis, logarithm, false);
}

void vk_softmax_shares(struct vk_build *b, uint32_t y, uint32_t x, const struct shape *shape)
{
    rows_dispatch(b, y, x, shape, shape->rank - 1, false, true);
}

static void softmax_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    vk_softmax_rows(b, vk_out_cell(b, 0), vk_in_cell(b, 0), x, shape_axis(node_int(b->n, ATTR_axis, -1), x->rank),
                    b->n->op == OP_LogSoftmax);
}

const struct vk_op vk_op_softmax = {softmax_supports, NULL, softmax_build};
