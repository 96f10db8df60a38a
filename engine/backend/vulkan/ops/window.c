#include "backend/vulkan/ops/window.h"

static bool ints_fit(const struct node *n, enum attr_key key, int32_t count, int64_t least)
{
    uint32_t have = 0;
    const int64_t *items = node_ints(n, key, &have);
    if (items != NULL && have != (uint32_t)count) {
        return false;
    }
    for (uint32_t i = 0; i < have; i++) {
        if (items[i] < least || items[i] > 1 << 20) {
            return false;
        }
    }
    return true;
}

bool vk_window_supports(const struct graph *g, const struct node *n, const struct value *weights,
                        const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (node_int(n, ATTR_layout, LAYOUT_NCHW) != LAYOUT_NHWC) {
        return vk_refuse(ret_reason, "not in NHWC layout");
    }
    if (x == NULL || x->shape.rank < 3 || x->shape.rank > 4) {
        return vk_refuse(ret_reason, "only one or two spatial dims");
    }
    int32_t spatial = x->shape.rank - 2;
    if (!ints_fit(n, ATTR_strides, spatial, 1) || !ints_fit(n, ATTR_dilations, spatial, 1) ||
        !ints_fit(n, ATTR_pads, 2 * spatial, 0) || !ints_fit(n, ATTR_kernel_shape, spatial, 1)) {
        return vk_refuse(ret_reason, "strides, dilations, kernel or padding out of range");
    }
    if (weights == NULL && node_attr(n, ATTR_kernel_shape) == NULL) {
        return vk_refuse(ret_reason, "no kernel_shape");
    }
    if (weights != NULL && (weights->shape.rank != x->shape.rank || !shape_known(&weights->shape))) {
        return vk_refuse(ret_reason, "weights of unknown shape");
    }
    return true;
}

static size_t item(const struct node *n, enum attr_key key, int32_t index, size_t def)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    return items != NULL && (uint32_t)index < count ? (size_t)items[index] : def;
}

static void dim_read(const struct node *n, int32_t spatial, int32_t d, const int64_t *kernel, struct vk_window *w)
{
    int32_t at = d + (2 - spatial); /* one dim: the width */
    w->kernel[at] = kernel != NULL ? (size_t)kernel[d] : item(n, ATTR_kernel_shape, d, 1);
    w->stride[at] = item(n, ATTR_strides, d, 1);
    w->dilation[at] = item(n, ATTR_dilations, d, 1);
    w->begin[at] = item(n, ATTR_pads, d, 0);
    w->end[at] = item(n, ATTR_pads, d + spatial, 0);
}

/* SAME: the output has ceil(in / stride) elements; the odd padding element goes to the end (UPPER) or to the front (LOWER). */
static void pads_resolve(const struct node *n, struct vk_window *w, int at)
{
    if (node_text_is(n, ATTR_auto_pad, "VALID", false)) {
        w->begin[at] = w->end[at] = 0;
    } else if (!node_text_is(n, ATTR_auto_pad, "NOTSET", true)) {
        size_t reach = (w->out[at] - 1) * w->stride[at] + (w->kernel[at] - 1) * w->dilation[at] + 1;
        size_t total = reach > w->in[at] ? reach - w->in[at] : 0;
        w->begin[at] = node_text_is(n, ATTR_auto_pad, "SAME_LOWER", false) ? total - total / 2 : total / 2;
        w->end[at] = total - w->begin[at];
    }
}

bool vk_window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                    struct vk_window *ret_window)
{
    if (in->rank != out->rank || in->rank < 3 || in->rank > 4 || in->dim[0] != out->dim[0]) {
        return false;
    }
    int32_t spatial = in->rank - 2;
    struct vk_window w = {.batch = (size_t)in->dim[0],
                          .channels = (size_t)in->dim[in->rank - 1],
                          .in = {1, 1},
                          .out = {1, 1},
                          .kernel = {1, 1},
                          .stride = {1, 1},
                          .dilation = {1, 1}};
    for (int32_t d = 0; d < spatial; d++) {
        int at = d + (2 - spatial);
        w.in[at] = (size_t)in->dim[1 + d];
        w.out[at] = (size_t)out->dim[1 + d];
        dim_read(n, spatial, d, kernel, &w);
        if (w.in[at] == 0 || w.out[at] == 0) {
            return false;
        }
        pads_resolve(n, &w, at);
    }
    *ret_window = w;
    return true;
}

bool vk_window_exact(const struct vk_window *w)
{
    for (int at = 0; at < 2; at++) {
        size_t reach = (w->kernel[at] - 1) * w->dilation[at] + 1;
        size_t padded = w->in[at] + w->begin[at] + w->end[at];
        if (reach > padded || (padded - reach) / w->stride[at] + 1 != w->out[at]) {
            return false;
        }
    }
    return true;
}

/* ---- weights ---- */

static void steps_read(enum weight_layout layout, struct vk_filter *f)
{
    size_t pixels = f->kernel_h * f->kernel_w;
    switch (layout) {
    case WEIGHT_OHWI:
        f->in_step = 1;
        f->w_step = f->in;
        f->h_step = f->in * f->kernel_w;
        f->out_step = f->in * pixels;
        break;
    case WEIGHT_HWIO:
    case WEIGHT_HWIM:
        f->out_step = 1;
        f->in_step = f->out;
        f->w_step = f->in * f->out;
        f->h_step = f->in * f->out * f->kernel_w;
        break;
    case WEIGHT_OIHW:
    default:
        f->w_step = 1;
        f->h_step = f->kernel_w;
        f->in_step = pixels;
        f->out_step = f->in * pixels;
        break;
    }
}

bool vk_filter_read(const struct node *n, const struct shape *shape, struct vk_filter *ret_filter)
{
    if (!shape_known(shape) || shape->rank < 3 || shape->rank > 4 || shape_elements(shape) <= 0) {
        return false;
    }
    enum weight_layout layout = (enum weight_layout)node_int(n, ATTR_weight_layout, WEIGHT_OIHW);
    int32_t spatial = shape->rank - 2;
    int32_t first = layout == WEIGHT_OIHW ? 2 : layout == WEIGHT_OHWI ? 1 : 0; /* of the kernel's dims */
    const int64_t *d = shape->dim;
    int64_t groups = node_int(n, ATTR_group, 1);
    int64_t out = layout == WEIGHT_OIHW || layout == WEIGHT_OHWI ? d[0] : d[spatial + 1];
    int64_t in = layout == WEIGHT_OIHW ? d[1] : layout == WEIGHT_OHWI ? d[spatial + 1] : d[spatial];
    if (layout == WEIGHT_HWIM) { /* channels, multiplier: one input channel per group */
        if (groups != d[spatial]) {
            return false;
        }
        out = d[spatial] * d[spatial + 1];
        in = 1;
    }
    if (groups < 1 || out % groups != 0) {
        return false;
    }
    struct vk_filter f = {.groups = (size_t)groups, .out = (size_t)out, .in = (size_t)in};
    f.kernel[0] = d[first];
    f.kernel[1] = spatial == 2 ? d[first + 1] : 0;
    f.kernel_h = spatial == 2 ? (size_t)d[first] : 1;
    f.kernel_w = (size_t)d[first + spatial - 1];
    steps_read(layout, &f);
    *ret_filter = f;
    return true;
}

bool vk_filter_depthwise(const struct vk_filter *f)
{
    return f->in == 1 && f->groups > 1 && f->groups == f->out;
}

/* A depthwise filter packs its groups as the outputs of one. */
static size_t groups_of(const struct vk_filter *f)
{
    return vk_filter_depthwise(f) ? 1 : f->groups;
}

static size_t width_of(const struct vk_filter *f)
{
    return (f->out / groups_of(f) + 3) / 4 * 4;
}

size_t vk_filter_packed(const struct vk_filter *f)
{
    return groups_of(f) * f->kernel_h * f->kernel_w * f->in * width_of(f);
}

void vk_filter_pack(const struct vk_filter *f, const float *weights, float scale, float *packed)
{
    size_t groups = groups_of(f), outs = f->out / groups, width = width_of(f);
    for (size_t g = 0; g < groups; g++) {
        for (size_t k = 0; k < f->kernel_h * f->kernel_w * f->in; k++) {
            size_t c = k % f->in, tap = k / f->in;
            const float *from = weights + g * outs * f->out_step + c * f->in_step + tap / f->kernel_w * f->h_step +
                                tap % f->kernel_w * f->w_step;
            for (size_t o = 0; o < outs; o++) {
                packed[o] = scale * from[o * f->out_step];
            }
            packed += width;
        }
    }
}

uint32_t vk_filter_repack(struct vk_build *b, const struct vk_filter *f, uint32_t weights, float scale)
{
    uint32_t cell = vk_temp_cell(b, vk_filter_packed(f));
    struct vk_work *w = vk_dispatch(b, SHADER_repack);
    vk_bind(w, cell, VK_WRITE);
    vk_bind(w, weights, VK_READ);
    const size_t words[] = {vk_filter_packed(f), width_of(f), f->out / groups_of(f), f->kernel_h,
                            f->kernel_w,         f->in,       f->out_step,           f->in_step,
                            f->h_step,           f->w_step};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_push_float(w, scale);
    vk_items(w, vk_filter_packed(f));
    return cell;
}
