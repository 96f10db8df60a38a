#include "backend/vulkan/ops/epilogue.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/winograd.h"

/* Conv, NHWC: an implicit product; depthwise filters have a kernel of their own. Weights that are computed are packed on the device, on every run. */

static bool conv_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct filter f;
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    if (!window_supports(g, n, node_in(g, n, 1), ret_reason)) {
        return false;
    }
    return filter_read(n, &node_in(g, n, 1)->shape, &f) || vk_refuse(ret_reason, "weights do not fit the groups");
}

/* Per group padded to fours, so that a four of biases is one load. */
static void bias_pack(const struct filter *f, const float *bias, float *packed)
{
    size_t groups = vk_filter_depthwise(f) ? 1 : f->groups, outs = f->out / groups, width = (outs + 3) / 4 * 4;
    for (size_t o = 0; o < f->out; o++) {
        packed[o / outs * width + o % outs] = bias[o];
    }
}

/* Depthwise filters and their biases are few: they stay exact, which keeps some digits of deep models. */
static void wide_choose(struct vk_pack *p, const struct filter *f, uint32_t slot)
{
    if (vk_filter_depthwise(f)) {
        vk_pack_wide(p, slot);
    } else {
        vk_pack_wide_if_outside(p, slot);
    }
}

static enum pen_status conv_pack(struct vk_pack *p)
{
    struct filter f;
    const struct value *w = node_in(p->g, p->n, 1), *bias = node_in(p->g, p->n, 2);
    if (!filter_read(p->n, &w->shape, &f)) {
        return PEN_OK;
    }
    if (w->data != NULL && vk_winograd_takes(p, &f)) {
        enum pen_status status = vk_winograd_pack(p, &f, w->data);
        if (status != PEN_OK) {
            return status;
        }
    } else if (w->data != NULL) {
        float *packed = vk_pack_floats(p, 0, vk_filter_packed(&f));
        if (packed == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        vk_filter_pack(&f, w->data, 1.0f, packed);
        wide_choose(p, &f, 0);
        if (!vk_filter_depthwise(&f)) {
            vk_pack_bf16(p, 0);
        }
    }
    if (bias != NULL && bias->data != NULL && shape_elements(&bias->shape) == (int64_t)f.out) {
        float *packed = vk_pack_floats(p, 1, f.out + 4 * f.groups);
        if (packed == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        bias_pack(&f, bias->data, packed);
        wide_choose(p, &f, 1);
    }
    return PEN_OK;
}

/* A bias that is computed: its groups are padded by a repack of one row per group. */
static uint32_t bias_cell(struct vk_build *b, const struct filter *f)
{
    if (vk_in(b, 2) == NULL) {
        return VK_CELL_NONE;
    }
    uint32_t cell = vk_packed_cell(b, 1);
    if (cell != VK_CELL_NONE) {
        return cell;
    }
    struct filter row = {.groups = vk_filter_depthwise(f) ? 1 : f->groups,
                         .out = f->out,
                         .in = 1,
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .out_step = 1};
    return vk_filter_repack(b, &row, vk_in_cell(b, 2), 1.0f);
}

static void depthwise(struct vk_build *b, const struct window *w, uint32_t weights, uint32_t bias)
{
    struct vk_act act = vk_act_read(b->n);
    size_t rows = w->batch * w->out[0] * w->out[1], channels4 = (w->channels + 3) / 4;
    struct vk_work *work = vk_dispatch(b, SHADER_depthwise);
    vk_bind(work, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(work, vk_in_cell(b, 0), VK_READ);
    vk_bind(work, weights, VK_READ);
    vk_bind(work, bias != VK_CELL_NONE ? bias : weights, VK_READ);
    vk_spec_act(work, &act);
    vk_spec(work, bias != VK_CELL_NONE);
    vk_spec(work, w->channels % 4 == 0);
    vk_spec(work, vk_cell_wide(b, weights) | (uint32_t)vk_cell_wide(b, bias) << 1);
    const size_t sizes[] = {rows, w->in[0], w->in[1], w->channels, channels4, w->out[0], w->out[1]};
    vk_push_all(work, sizes, sizeof sizes / sizeof sizes[0]);
    vk_push_window(work, w);
    vk_items(work, rows * channels4);
}

static void conv_build(struct vk_build *b)
{
    const struct fact *x = vk_in(b, 0), *weights = vk_in(b, 1), *bias = vk_in(b, 2), *y = vk_out(b, 0);
    struct filter f;
    struct vk_product p = {.act = vk_act_read(b->n)};
    if (!filter_read(b->n, &weights->shape, &f) || !window_read(b->n, &x->shape, &y->shape, f.kernel, &p.w) ||
        !window_exact(&p.w) || p.w.channels != f.in * f.groups || y->shape.dim[y->shape.rank - 1] != (int64_t)f.out ||
        (bias != NULL && vk_elements(bias) != f.out)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
        return;
    }
    uint32_t winograd = vk_packed_cell(b, VK_WINOGRAD_SLOT);
    if (winograd != VK_CELL_NONE) {
        vk_winograd_build(b, &p.w, &f, winograd, bias_cell(b, &f));
        return;
    }
    if (b->epilogue == NULL && !vk_filter_depthwise(&f) && vk_epilogue_waits(b, bias != NULL)) {
        return;
    }
    p.weights = vk_packed_cell(b, 0);
    if (p.weights == VK_CELL_NONE) {
        p.weights = vk_filter_repack(b, &f, vk_in_cell(b, 1), 1.0f);
    }
    p.bias = bias_cell(b, &f);
    if (vk_filter_depthwise(&f)) {
        depthwise(b, &p.w, p.weights, p.bias);
        return;
    }
    p.conv = true;
    p.groups = f.groups;
    p.group_in = f.in;
    p.group_out = f.out / f.groups;
    p.x = vk_in_cell(b, 0);
    vk_epilogue_apply(b, &p);
    vk_product(b, &p);
}

const struct vk_op vk_op_conv = {conv_supports, conv_pack, conv_build};
