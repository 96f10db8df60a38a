#include "backend/vulkan/ops/ops.h"

/* Same bytes, another shape: no work. */

static bool view_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    if (n->op == OP_Dropout && (n->out_count > 1 || n->in_count > 2)) {
        return vk_refuse(ret_reason, "Dropout with a mask or in training");
    }
    return x->dtype == y->dtype || vk_refuse(ret_reason, "another type");
}

static void view_build(struct vk_build *b)
{
    if (vk_elements(vk_in(b, 0)) != vk_elements(vk_out(b, 0))) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
        return;
    }
    vk_view(b, 0);
}

const struct vk_op vk_op_view = {view_supports, NULL, view_build};
