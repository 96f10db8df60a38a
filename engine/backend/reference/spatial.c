#include "backend/reference/spatial.h"

#include <string.h>

void spatial_make(int64_t batch, int64_t channels, int32_t dims, const int64_t *size, bool nhwc, struct spatial *ret)
{
    *ret = (struct spatial){.dims = dims, .nhwc = nhwc, .batch = batch, .channels = channels, .positions = 1};
    for (int32_t d = dims - 1; d >= 0; d--) {
        ret->size[d] = size[d];
        ret->stride[d] = nhwc ? ret->positions * channels : ret->positions;
        ret->positions *= size[d];
    }
    ret->stride_batch = ret->positions * channels;
    ret->stride_channel = nhwc ? 1 : ret->positions;
    ret->stride_position = nhwc ? channels : 1;
}

enum pen_status spatial_of(struct kernel_call *k, const struct shape *shape, struct spatial *ret)
{
    bool nhwc = node_int(k->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
    if (shape->rank < 2) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs batch and channels, input has rank %d", shape->rank);
    }
    spatial_make(shape->dim[0], nhwc ? shape->dim[shape->rank - 1] : shape->dim[1], shape->rank - 2,
                 shape->dim + (nhwc ? 1 : 2), nhwc, ret);
    return PEN_OK;
}

struct shape spatial_shape(const struct spatial *s)
{
    struct shape shape = {.rank = s->dims + 2};
    shape.dim[0] = s->batch;
    shape.dim[s->nhwc ? s->dims + 1 : 1] = s->channels;
    memcpy(shape.dim + (s->nhwc ? 1 : 2), s->size, (size_t)s->dims * sizeof s->size[0]);
    return shape;
}

void spatial_index(const int64_t *size, int32_t dims, int64_t index, int64_t *ret_at)
{
    for (int32_t d = dims - 1; d >= 0; d--) {
        ret_at[d] = index % size[d];
        index /= size[d];
    }
}

static enum pen_status window_ints(struct kernel_call *k, enum attr_key key, int32_t want, int64_t def, int64_t least,
                                   int64_t *ret)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(k->n, key, &count);
    for (int32_t i = 0; i < want; i++) {
        ret[i] = items != NULL && (uint32_t)i < count ? items[i] : def;
        if (ret[i] < least || ret[i] > INT32_MAX) {
            return kernel_fail(k, PEN_ERR_INVALID, "attribute %s holds %lld", attr_name(key), (long long)ret[i]);
        }
    }
    if (items != NULL && count != (uint32_t)want) {
        return kernel_fail(k, PEN_ERR_INVALID, "attribute %s has %u items for %d dimensions", attr_name(key), count,
                           want);
    }
    return PEN_OK;
}

/* SAME_UPPER puts the odd pixel at the end, SAME_LOWER at the beginning. */
static void same_pads(struct window *w, const struct spatial *in, bool upper)
{
    for (int32_t d = 0; d < w->dims; d++) {
        int64_t out = (in->size[d] + w->stride[d] - 1) / w->stride[d];
        int64_t span = (w->kernel[d] - 1) * w->dilation[d] + 1;
        int64_t total = (out - 1) * w->stride[d] + span - in->size[d];
        total = total < 0 ? 0 : total;
        w->pad_begin[d] = upper ? total / 2 : total - total / 2;
        w->pad_end[d] = total - w->pad_begin[d];
    }
}

enum pen_status window_init(struct kernel_call *k, const struct spatial *in, const int64_t *kernel, bool transposed,
                            struct window *ret)
{
    int64_t pads[2 * SPATIAL_MAX];
    bool upper = node_text_is(k->n, ATTR_auto_pad, "SAME_UPPER", false);
    bool lower = node_text_is(k->n, ATTR_auto_pad, "SAME_LOWER", false);
    bool valid = node_text_is(k->n, ATTR_auto_pad, "VALID", false);
    *ret = (struct window){.dims = in->dims, .taps = 1};
    for (int32_t d = 0; d < in->dims; d++) {
        ret->kernel[d] = kernel[d];
        ret->taps *= kernel[d];
        if (kernel[d] < 1 || ret->taps > INT32_MAX) {
            return kernel_fail(k, PEN_ERR_INVALID, "kernel dimension %d is %lld", d, (long long)kernel[d]);
        }
    }
    enum pen_status status = window_ints(k, ATTR_strides, in->dims, 1, 1, ret->stride);
    if (status == PEN_OK) {
        status = window_ints(k, ATTR_dilations, in->dims, 1, 1, ret->dilation);
    }
    if (status != PEN_OK || valid) {
        return status;
    }
    if ((upper || lower) && !transposed) {
        same_pads(ret, in, upper);
        return PEN_OK;
    }
    status = window_ints(k, ATTR_pads, 2 * in->dims, 0, transposed ? INT32_MIN : 0, pads);
    for (int32_t d = 0; d < in->dims && status == PEN_OK; d++) {
        ret->pad_begin[d] = pads[d];
        ret->pad_end[d] = pads[in->dims + d];
    }
    return status;
}

int64_t window_out(const struct window *w, int32_t d, int64_t in_size, bool ceil_mode)
{
    int64_t span = (w->kernel[d] - 1) * w->dilation[d] + 1;
    int64_t room = in_size + w->pad_begin[d] + w->pad_end[d] - span;
    if (room < 0) { /* rounded up, one window reaches past the end */
        return ceil_mode && room > -w->stride[d] && in_size + w->pad_begin[d] > 0 ? 1 : 0;
    }
    int64_t out = room / w->stride[d] + 1;
    if (ceil_mode && room % w->stride[d] != 0 && out * w->stride[d] < in_size + w->pad_begin[d]) {
        out++; /* a last partial window, unless it would start in the padding at the end */
    }
    return out;
}
