#include "backend/xnnpack/window.h"

#include <math.h>

#include "backend/xnnpack/isa.h"

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
        return refuse(ret_reason, "not in NHWC layout");
    }
    if (x == NULL || x->shape.rank < 3 || x->shape.rank > 4) {
        return refuse(ret_reason, "only one or two spatial dims");
    }
    int32_t spatial = x->shape.rank - 2;
    if (!ints_fit(n, ATTR_strides, spatial, 1) || !ints_fit(n, ATTR_dilations, spatial, 1) ||
        !ints_fit(n, ATTR_pads, 2 * spatial, 0) || !ints_fit(n, ATTR_kernel_shape, spatial, 1)) {
        return refuse(ret_reason, "strides, dilations, kernel or padding out of range");
    }
    if (weights == NULL && node_attr(n, ATTR_kernel_shape) == NULL) {
        return refuse(ret_reason, "no kernel_shape");
    }
    if (weights != NULL && (weights->shape.rank != x->shape.rank || !shape_known(&weights->shape))) {
        return refuse(ret_reason, "weights of unknown shape");
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

static bool read_all(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                     struct window *w)
{
    if (in->rank != out->rank || in->rank < 3 || in->rank > 4 || in->dim[0] != out->dim[0]) {
        return false;
    }
    int32_t spatial = in->rank - 2;
    *w = (struct window){.batch = (size_t)in->dim[0],
                         .channels = (size_t)in->dim[in->rank - 1],
                         .in = {1, 1},
                         .out = {1, 1},
                         .kernel = {1, 1},
                         .stride = {1, 1},
                         .dilation = {1, 1}};
    for (int32_t d = 0; d < spatial; d++) {
        int at = d + (2 - spatial);
        w->in[at] = (size_t)in->dim[1 + d];
        w->out[at] = (size_t)out->dim[1 + d];
        dim_read(n, spatial, d, kernel, w);
        if (w->in[at] == 0 || w->out[at] == 0) {
            return false;
        }
        pads_resolve(n, w, at);
    }
    return true;
}

bool window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 struct window *ret_window)
{
    struct window w;
    if (!read_all(n, in, out, kernel, &w)) {
        return false;
    }
    for (int at = 0; at < 2; at++) {
        size_t reach = (w.kernel[at] - 1) * w.dilation[at] + 1;
        size_t padded = w.in[at] + w.begin[at] + w.end[at];
        if (reach > padded || (padded - reach) / w.stride[at] + 1 != w.out[at]) {
            return false;
        }
    }
    *ret_window = w;
    return true;
}

bool window_read_any(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                     struct window *ret_window)
{
    struct window w;
    if (!read_all(n, in, out, kernel, &w)) {
        return false;
    }
    *ret_window = w;
    return true;
}

bool window_read_pool(const struct node *n, const struct shape *in, const struct shape *out, struct window *ret_window)
{
    struct window w;
    if (!read_all(n, in, out, NULL, &w) || in->dim[in->rank - 1] != out->dim[in->rank - 1]) {
        return false;
    }
    *ret_window = w;
    return true;
}

struct act act_read(const struct node *n)
{
    struct act a = {.min = -INFINITY, .max = INFINITY, .fn = UNARY_NONE};
    switch ((enum activation)node_int(n, ATTR_act, ACT_NONE)) {
    case ACT_CLAMP:
        a.min = node_float(n, ATTR_act_min, -INFINITY);
        a.max = node_float(n, ATTR_act_max, INFINITY);
        break;
    case ACT_HARDSWISH:
        a.fn = UNARY_HARDSWISH;
        break;
    case ACT_LEAKY:
        a.fn = UNARY_LEAKY;
        a.a = node_float(n, ATTR_act_alpha, 0.01f);
        break;
    case ACT_SIGMOID:
        a.fn = UNARY_SIGMOID;
        break;
    case ACT_TANH:
        a.fn = UNARY_TANH;
        break;
    case ACT_SWISH:
        a.fn = UNARY_SWISH;
        a.a = node_float(n, ATTR_act_alpha, 1.0f);
        break;
    case ACT_NONE:
    default:
        break;
    }
    return a;
}

struct act_job {
    struct unary_call {
        enum unary_fn fn;
        float a, b;
    } call;
    float *y;
    size_t count;
};

static void act_task(void *context, size_t unit)
{
    const struct act_job *j = context;
    size_t from = unit * CHUNK;
    size_t n = j->count - from < CHUNK ? j->count - from : CHUNK;
    isa_own()->unary(j->call.fn, j->y + from, j->y + from, n, j->call.a, j->call.b);
}

void act_run(const struct act *a, float *y, size_t count, struct run *r)
{
    if (a->fn != UNARY_NONE) {
        struct act_job j = {{a->fn, a->a, 0.0f}, y, count};
        parallel(r, act_task, &j, (count + CHUNK - 1) / CHUNK);
    }
}

void act_all(const struct act *a, float *y, size_t count, struct run *r)
{
    if (isfinite(a->min) || isfinite(a->max)) {
        struct act_job j = {{UNARY_CLAMP, a->min, a->max}, y, count};
        parallel(r, act_task, &j, (count + CHUNK - 1) / CHUNK);
    }
    act_run(a, y, count, r);
}
