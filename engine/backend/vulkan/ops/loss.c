#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/softmax.h"

/* NegativeLogLikelihoodLoss, and SoftmaxCrossEntropyLoss as LogSoftmax in front of it. */

static bool loss_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *t = node_in(g, n, 1), *w = node_in(g, n, 2);
    int64_t ignore = node_int(n, ATTR_ignore_index, 0);
    if (!vk_dtype_is(x, PEN_DTYPE_F32) || (w != NULL && w->dtype != PEN_DTYPE_F32) ||
        (!vk_dtype_is(t, PEN_DTYPE_I64) && !vk_dtype_is(t, PEN_DTYPE_I32))) {
        return vk_refuse(ret_reason, "not for these types");
    }
    if (ignore != (int32_t)ignore) {
        return vk_refuse(ret_reason, "an ignored target beyond 32 bits");
    }
    return x->shape.rank >= 2 || vk_refuse(ret_reason, "scores without classes");
}

/* The logarithms that losses are taken from: the input, or its LogSoftmax along the classes, which may be an output, too. */
static uint32_t logarithms(struct vk_build *b, const struct shape *x)
{
    if (b->n->op == OP_NegativeLogLikelihoodLoss) {
        return vk_in_cell(b, 0);
    }
    uint32_t y = vk_out(b, 1) != NULL ? vk_out_cell(b, 1) : vk_temp_cell(b, (size_t)shape_elements(x));
    vk_softmax_rows(b, y, vk_in_cell(b, 0), x, 1, true);
    return y;
}

static void loss_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *t = &vk_in(b, 1)->shape;
    bool none = node_text_is(b->n, ATTR_reduction, "none", false),
         mean = node_text_is(b->n, ATTR_reduction, "mean", true);
    bool weights = vk_in(b, 2) != NULL;
    size_t targets = (size_t)shape_elements(t), classes = (size_t)x->dim[1], batch = (size_t)x->dim[0];
    if (targets == 0 || targets * classes != (size_t)shape_elements(x) ||
        (weights && vk_elements(vk_in(b, 2)) != classes)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "targets or weights do not fit the scores");
        return;
    }
    uint32_t from = logarithms(b, x);
    struct vk_work *w = vk_dispatch(b, SHADER_loss);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, from, VK_READ);
    vk_bind(w, vk_in_cell(b, 1), VK_READ);
    vk_bind(w, weights ? vk_in_cell(b, 2) : from, VK_READ);
    vk_bind(w, vk_flag_cell(b), VK_READ); /* atomic: may run beside others that report */
    vk_spec(w, none ? 0 : mean ? 2 : 1);
    vk_spec(w, vk_in(b, 1)->dtype == PEN_DTYPE_I64 ? 2 : 1);
    vk_spec(w, weights);
    vk_spec(w, node_attr(b->n, ATTR_ignore_index) != NULL);
    vk_spec(w, (uint32_t)(int32_t)node_int(b->n, ATTR_ignore_index, 0));
    vk_push(w, targets);
    vk_push(w, (size_t)b->index + 1);
    vk_push(w, classes);
    vk_push(w, targets / batch);
    vk_items(w, none ? targets : 1);
}

const struct vk_op vk_op_loss = {loss_supports, NULL, loss_build};
