#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"

/* ConvTranspose, NHWC, weights [in, out / groups, kh, kw]. The output's size decides the padding where the node leaves it open. */

static struct filter filter_of(const struct node *n, const struct shape *w)
{
    size_t groups = (size_t)node_int(n, ATTR_group, 1), two = w->rank == 4;
    size_t kh = two ? (size_t)w->dim[2] : 1, kw = (size_t)w->dim[w->rank - 1], outs = (size_t)w->dim[1];
    struct filter f = {.groups = groups,
                       .out = outs * groups,
                       .in = (size_t)w->dim[0] / (groups == 0 ? 1 : groups),
                       .kernel_h = kh,
                       .kernel_w = kw,
                       .out_step = kh * kw,
                       .in_step = outs * kh * kw,
                       .h_step = kw,
                       .w_step = 1};
    f.kernel[0] = w->dim[2];
    f.kernel[1] = two ? w->dim[3] : 0;
    return f;
}

/* Output channel o of group g starts at g * group_in * outs * taps, which is not o * out_step: groups are packed one by one. */
static void pack_groups(const struct filter *f, const float *w, float *packed)
{
    struct filter one = *f;
    one.groups = 1;
    one.out = f->out / f->groups;
    for (size_t g = 0; g < f->groups; g++) {
        vk_filter_pack(&one, w + g * f->in * f->in_step, 1.0f, packed + g * vk_filter_packed(&one));
    }
}

static bool deconv_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    int64_t groups = node_int(n, ATTR_group, 1);
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    if (!window_supports(g, n, w, ret_reason)) {
        return false;
    }
    bool constant = w->data != NULL || groups == 1; /* computed weights are repacked for one group */
    return (constant && (bias == NULL || bias->data != NULL) && groups >= 1 && w->shape.dim[0] % groups == 0) ||
           vk_refuse(ret_reason, "computed weights of groups, or a computed bias");
}

static enum pen_status deconv_pack(struct vk_pack *p)
{
    const struct value *w = node_in(p->g, p->n, 1), *bias = node_in(p->g, p->n, 2);
    struct filter f = filter_of(p->n, &w->shape);
    size_t outs = f.out / f.groups, width = (outs + 3) / 4 * 4;
    if (w->data != NULL) {
        float *packed = vk_pack_floats(p, 0, f.groups * f.kernel_h * f.kernel_w * f.in * width);
        if (packed == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        pack_groups(&f, w->data, packed);
    }
    float *row = bias != NULL ? vk_pack_floats(p, 1, f.groups * width) : NULL;
    for (size_t o = 0; row != NULL && o < f.out; o++) {
        row[o / outs * width + o % outs] = ((const float *)bias->data)[o];
    }
    return bias == NULL || row != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static size_t item_of(const struct node *n, enum attr_key key, int32_t index)
{
    const int64_t item = node_item(n, key, index, 0);
    return item > 0 ? (size_t)item : 0;
}

/* Padding at the front of one dim: out = (in - 1) * stride + reach + output_padding - pads. */
static size_t begin_of(const struct node *n, const struct window *w, int at, size_t extra)
{
    bool same = !node_text_is(n, ATTR_auto_pad, "NOTSET", true) && !node_text_is(n, ATTR_auto_pad, "VALID", false);
    if (!same && node_attr(n, ATTR_output_shape) == NULL) {
        return w->begin[at];
    }
    size_t whole = (w->in[at] - 1) * w->stride[at] + (w->kernel[at] - 1) * w->dilation[at] + 1 + extra;
    size_t total = whole > w->out[at] ? whole - w->out[at] : 0;
    return node_text_is(n, ATTR_auto_pad, "SAME_UPPER", false) ? total / 2 : total - total / 2;
}

static void deconv_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape, *weights = &vk_in(b, 1)->shape;
    struct filter f = filter_of(b->n, weights);
    struct vk_act act = vk_act_read(b->n);
    struct window w;
    if (!window_read(b->n, x, y, f.kernel, &w) || w.channels != f.in * f.groups ||
        y->dim[y->rank - 1] != (int64_t)f.out || (vk_in(b, 2) != NULL && vk_elements(vk_in(b, 2)) != f.out)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
        return;
    }
    int32_t first = x->rank - 4; /* one dim: its numbers are those of the width */
    uint32_t packed = vk_packed_cell(b, 0), bias = vk_in(b, 2) != NULL ? vk_packed_cell(b, 1) : VK_CELL_NONE;
    if (packed == VK_CELL_NONE) {
        packed = vk_filter_repack(b, &f, vk_in_cell(b, 1), 1.0f);
    }
    size_t rows = w.batch * w.out[0] * w.out[1], outs = f.out / f.groups, out4 = (outs + 3) / 4;
    struct vk_work *work = vk_dispatch(b, SHADER_deconv);
    vk_bind(work, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(work, vk_in_cell(b, 0), VK_READ);
    vk_bind(work, packed, VK_READ);
    vk_bind(work, bias != VK_CELL_NONE ? bias : packed, VK_READ);
    vk_spec_act(work, &act);
    vk_spec(work, bias != VK_CELL_NONE);
    const size_t words[] = {rows,
                            w.in[0],
                            w.in[1],
                            w.channels,
                            w.out[0],
                            w.out[1],
                            f.out,
                            w.kernel[0],
                            w.kernel[1],
                            w.stride[0],
                            w.stride[1],
                            w.dilation[0],
                            w.dilation[1],
                            begin_of(b->n, &w, 0, item_of(b->n, ATTR_output_padding, first)),
                            begin_of(b->n, &w, 1, item_of(b->n, ATTR_output_padding, first + 1)),
                            f.in,
                            outs,
                            out4,
                            f.groups};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(work, words[i]);
    }
    vk_items(work, rows * f.groups * out4);
}

const struct vk_op vk_op_deconv = {deconv_supports, deconv_pack, deconv_build};
