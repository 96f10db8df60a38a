#include "backend/window.h"

static bool refused(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return false;
}

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

bool window_supports(const struct graph *g, const struct node *n, const struct value *weights, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (node_int(n, ATTR_layout, LAYOUT_NCHW) != LAYOUT_NHWC) {
        return refused(ret_reason, "not in NHWC layout");
    }
    if (x == NULL || x->shape.rank < 3 || x->shape.rank > 4) {
        return refused(ret_reason, "only one or two spatial dims");
    }
    int32_t spatial = x->shape.rank - 2;
    if (!ints_fit(n, ATTR_strides, spatial, 1) || !ints_fit(n, ATTR_dilations, spatial, 1) ||
        !ints_fit(n, ATTR_pads, 2 * spatial, 0) || !ints_fit(n, ATTR_kernel_shape, spatial, 1)) {
        return refused(ret_reason, "strides, dilations, kernel or padding out of range");
    }
    if (weights == NULL && node_attr(n, ATTR_kernel_shape) == NULL) {
        return refused(ret_reason, "no kernel_shape");
    }
    if (weights != NULL && (weights->shape.rank != x->shape.rank || !shape_known(&weights->shape))) {
        return refused(ret_reason, "weights of unknown shape");
    }
    return true;
}

static size_t item(const struct node *n, enum attr_key key, int32_t index, size_t def)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    return items != NULL && (uint32_t)index < count ? (size_t)items[index] : def;
}

static void dim_read(const struct node *n, int32_t spatial, int32_t d, const int64_t *kernel, struct window *w)
{
    int32_t at = d + (2 - spatial); /* one dim: the width */
    w->kernel[at] = kernel != NULL ? (size_t)kernel[d] : item(n, ATTR_kernel_shape, d, 1);
    w->stride[at] = item(n, ATTR_strides, d, 1);
    w->dilation[at] = item(n, ATTR_dilations, d, 1);
    w->begin[at] = item(n, ATTR_pads, d, 0);
    w->end[at] = item(n, ATTR_pads, d + spatial, 0);
}

/* SAME: the output has ceil(in / stride) elements; the odd padding element goes to the end (UPPER) or to the front (LOWER). */
static void pads_resolve(const struct node *n, struct window *w, int at)
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

bool window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 struct window *ret_window)
{
    if (in->rank != out->rank || in->rank < 3 || in->rank > 4 || in->dim[0] != out->dim[0]) {
        return false;
    }
    int32_t spatial = in->rank - 2;
    struct window w = {.batch = (size_t)in->dim[0],
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

bool window_exact(const struct window *w)
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

bool window_point(const struct window *w)
{
    return w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && w->begin[0] == 0 &&
           w->begin[1] == 0 && w->in[0] == w->out[0] && w->in[1] == w->out[1];
}
