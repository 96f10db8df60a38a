#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/filter.h"
#include "backend/vulkan/ops/qpool.h"

/* MaxPool, AveragePool, LpPool, NHWC. */
enum pool_kind { POOL_MAX = 0, POOL_AVERAGE = 1, POOL_AVERAGE_PADDED = 2, POOL_LP = 3 };

static bool pool_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (vk_qpool_takes(g, n)) {
        return window_supports(g, n, NULL, ret_reason);
    }
    if (!vk_all_f32(g, n)) { /* the indices of MaxPool are i64 */
        return vk_refuse(ret_reason, n->out_count > 1 ? "MaxPool with indices" : "only f32");
    }
    return window_supports(g, n, NULL, ret_reason);
}

static enum pool_kind kind_of(const struct node *n)
{
    if (n->op == OP_LpPool) {
        return POOL_LP;
    }
    if (n->op == OP_MaxPool) {
        return POOL_MAX;
    }
    return node_int(n, ATTR_count_include_pad, 0) != 0 ? POOL_AVERAGE_PADDED : POOL_AVERAGE;
}

static void pool_build(struct vk_build *b)
{
    struct window w;
    struct vk_act act = vk_act_read(b->n);
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    if (!window_read(b->n, x, y, NULL, &w) || x->dim[x->rank - 1] != y->dim[y->rank - 1]) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and output do not fit the window");
        return;
    }
    if (vk_qpool_takes(b->g, b->n)) {
        vk_qpool_largest(b, &w);
        return;
    }
    struct vk_work *work = vk_dispatch(b, SHADER_pool);
    vk_bind(work, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(work, vk_in_cell(b, 0), VK_READ);
    vk_spec_act(work, &act);
    vk_spec(work, kind_of(b->n));
    const size_t words[] = {vk_elements(vk_out(b, 0)),
                            w.in[0],
                            w.in[1],
                            w.channels,
                            w.out[0],
                            w.out[1],
                            w.kernel[0],
                            w.kernel[1],
                            w.stride[0],
                            w.stride[1],
                            w.dilation[0],
                            w.dilation[1],
                            w.begin[0],
                            w.begin[1],
                            w.in[0] + w.end[0],
                            w.in[1] + w.end[1]};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(work, words[i]);
    }
    vk_push_float(work, (float)node_int(b->n, ATTR_p, 2));
    vk_items(work, words[0]);
}

const struct vk_op vk_op_pool = {pool_supports, NULL, pool_build};
