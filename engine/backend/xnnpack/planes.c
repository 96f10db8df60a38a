#include "backend/xnnpack/planes.h"

static int64_t item(const struct node *n, enum attr_key key, int32_t index, int64_t def)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    return items != NULL && (uint32_t)index < count ? items[index] : def;
}

/* SAME: ceil(in / stride) outputs; the odd element of the padding goes to the end (UPPER) or to the front (LOWER). */
static void dim_pads(const struct node *n, struct planes *p, int32_t d, bool transposed)
{
    bool lower = node_text_is(n, ATTR_auto_pad, "SAME_LOWER", false);
    p->begin[d] = p->end[d] = 0;
    if (node_text_is(n, ATTR_auto_pad, "VALID", false)) {
        return;
    }
    if (!transposed && (lower || node_text_is(n, ATTR_auto_pad, "SAME_UPPER", false))) {
        int64_t reach = (p->out[d] - 1) * p->stride[d] + (p->kernel[d] - 1) * p->dilation[d] + 1;
        int64_t total = reach > p->in[d] ? reach - p->in[d] : 0;
        p->begin[d] = lower ? total - total / 2 : total / 2;
        p->end[d] = total - p->begin[d];
        return;
    }
    p->begin[d] = item(n, ATTR_pads, d, 0);
    p->end[d] = item(n, ATTR_pads, d + p->dims, 0);
}

bool planes_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 bool transposed, struct planes *ret_planes)
{
    struct planes p = {.dims = in->rank - 2, .last = node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC};
    int32_t first = p.last ? 1 : 2, channel = p.last ? in->rank - 1 : 1;
    if (in->rank != out->rank || p.dims < 1 || in->dim[0] != out->dim[0]) {
        return false;
    }
    p.batch = (size_t)in->dim[0];
    p.in_channels = (size_t)in->dim[channel];
    p.out_channels = (size_t)out->dim[channel];
    p.in_size = p.out_size = p.taps = 1;
    int64_t in_step = p.last ? in->dim[channel] : 1, out_step = p.last ? out->dim[channel] : 1;
    for (int32_t d = p.dims - 1; d >= 0; d--) {
        p.in[d] = in->dim[first + d];
        p.out[d] = out->dim[first + d];
        p.kernel[d] = kernel != NULL ? kernel[d] : item(n, ATTR_kernel_shape, d, 0);
        p.stride[d] = item(n, ATTR_strides, d, 1);
        p.dilation[d] = item(n, ATTR_dilations, d, 1);
        if (p.kernel[d] < 1 || p.kernel[d] > 1 << 20 || p.stride[d] < 1 || p.dilation[d] < 1 || p.stride[d] > 1 << 20 ||
            p.dilation[d] > 1 << 20 || p.taps > SIZE_MAX / (size_t)p.kernel[d] / 8) {
            return false;
        }
        dim_pads(n, &p, d, transposed);
        if (p.begin[d] < 0 || p.begin[d] > 1 << 20 || p.end[d] < 0) {
            return false;
        }
        p.in_step[d] = in_step;
        p.out_step[d] = out_step;
        in_step *= p.in[d];
        out_step *= p.out[d];
        p.in_size *= (size_t)p.in[d];
        p.out_size *= (size_t)p.out[d];
        p.taps *= (size_t)p.kernel[d];
    }
    *ret_planes = p;
    return true;
}

size_t planes_in_at(const struct planes *p, size_t batch, size_t channel)
{
    return batch * p->in_channels * p->in_size + channel * (p->last ? 1 : p->in_size);
}

size_t planes_out_at(const struct planes *p, size_t batch, size_t channel)
{
    return batch * p->out_channels * p->out_size + channel * (p->last ? 1 : p->out_size);
}

bool planes_next(int64_t *at, const int64_t *size, int32_t dims)
{
    for (int32_t d = dims - 1; d >= 0; d--) {
        if (++at[d] < size[d]) {
            return true;
        }
        at[d] = 0;
    }
    return false;
}

bool plane_form_supports(const struct plane_form *f, const struct graph *g, const struct node *n,
                         const char **ret_reason)
{
    return f->fast->supports(g, n, NULL) || f->supports(g, n, ret_reason);
}

enum pen_status plane_form_pack(const struct plane_form *f, const struct graph *g, const struct node *n,
                                void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    *ret_packed = NULL;
    *ret_bytes = 0;
    bool fast = f->fast->pack != NULL && f->fast->supports(g, n, NULL);
    return fast ? f->fast->pack(g, n, ret_packed, ret_bytes, reterr) : PEN_OK;
}

enum pen_status plane_form_build(const struct plane_form *f, struct build *b)
{
    return f->fast->supports(b->g, b->n, NULL) ? f->fast->build(b) : f->build(b);
}
