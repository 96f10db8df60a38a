#include "graph/infer_util.h"
#include "graph/rules.h"
#include "graph/axes.h"
#include "words.h"

#include <string.h>

/* Kernel, strides, dilations, pads of a window over `count` axes. */
struct window {
    int64_t kernel[PEN_MAX_RANK], stride[PEN_MAX_RANK], dilation[PEN_MAX_RANK], pad[2 * PEN_MAX_RANK];
    bool same, valid, ceil;
};

static enum pen_status read_window(const struct infer *c, int32_t count, struct window *w, struct pen_error *reterr)
{
    w->same = node_text_is(c->n, ATTR_auto_pad, "SAME_UPPER", false) ||
              node_text_is(c->n, ATTR_auto_pad, "SAME_LOWER", false);
    w->valid = node_text_is(c->n, ATTR_auto_pad, "VALID", false);
    w->ceil = node_int(c->n, ATTR_ceil_mode, 0) != 0;
    if (!infer_list(c, ATTR_strides, count, 1, 1, w->stride))
        return infer_fail(c, reterr, "strides must be %d positive numbers", count);
    if (!infer_list(c, ATTR_dilations, count, 1, 1, w->dilation))
        return infer_fail(c, reterr, "dilations must be %d positive numbers", count);
    if (!infer_list(c, ATTR_pads, 2 * count, 0, INT32_MIN, w->pad))
        return infer_fail(c, reterr, "pads must be %d numbers", 2 * count);
    if (w->valid)
        memset(w->pad, 0, sizeof w->pad);
    return PEN_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Windows that fit along one axis; false when none does. */
static bool window_size(const struct window *w, int32_t axis, int32_t count, int64_t in, int64_t *ret)
{
    int64_t span = (w->kernel[axis] - 1) * w->dilation[axis] + 1; /* both below 2^31 */
    if (in < 0) {
        *ret = SHAPE_DIM_UNKNOWN;
        return true;
    }
    if (in > INT64_MAX / 4)
        return false;
    if (w->same) {
        *ret = ceil_div(in, w->stride[axis]);
        return true;
    }
    int64_t room = in + w->pad[axis] + w->pad[count + axis] - span;
    if (room < 0 && !(w->ceil && room > -w->stride[axis])) /* rounded up, one window reaches past the end */
        return false;
    int64_t out = (w->ceil ? ceil_div(room, w->stride[axis]) : room / w->stride[axis]) + 1;
    if (w->ceil && (out - 1) * w->stride[axis] >= in + w->pad[axis])
        out--; /* a window that would start in the padding behind */
    *ret = out;
    return true;
}

static enum pen_status slide(const struct infer *c, const struct window *w, const struct spatial_axes *sp,
                             const struct shape *x, struct shape *y, struct pen_error *reterr)
{
    for (int32_t i = 0; i < sp->count; i++) {
        int32_t axis = sp->first + i;
        if (!window_size(w, i, sp->count, x->dim[axis], &y->dim[axis])) {
            char text[96];
            return infer_fail(c, reterr, "a window of %lld with dilation %lld does not fit axis %d of input %s",
                              (long long)w->kernel[i], (long long)w->dilation[i], axis,
                              shape_text(x, text, sizeof text));
        }
    }
    return PEN_OK;
}

/* ---- convolution ---------------------------------------------------------------------------------------------------- */

/* Where the parts of a weight tensor lie. */
struct weights {
    int64_t out, in, kernel[PEN_MAX_RANK];
};

static void read_weights(const struct node *n, const struct shape *w, int64_t group, struct weights *ret)
{
    int32_t count = w->rank - 2;
    switch (node_int(n, ATTR_weight_layout, WEIGHT_OIHW)) {
    case WEIGHT_OHWI:
        *ret = (struct weights){.out = w->dim[0], .in = w->dim[w->rank - 1]};
        memcpy(ret->kernel, w->dim + 1, (size_t)count * sizeof *w->dim);
        break;
    case WEIGHT_HWIO:
        *ret = (struct weights){.out = w->dim[w->rank - 1], .in = w->dim[w->rank - 2]};
        memcpy(ret->kernel, w->dim, (size_t)count * sizeof *w->dim);
        break;
    case WEIGHT_HWIM: {
        int64_t channels = w->dim[w->rank - 2], times = w->dim[w->rank - 1];
        *ret = (struct weights){.out = channels < 0 || times < 0 ? SHAPE_DIM_UNKNOWN : channels * times, .in = 1};
        (void)group;
        memcpy(ret->kernel, w->dim, (size_t)count * sizeof *w->dim);
        break;
    }
    default:
        *ret = (struct weights){.out = w->dim[0], .in = w->dim[1]};
        memcpy(ret->kernel, w->dim + 2, (size_t)count * sizeof *w->dim);
        break;
    }
}

static enum pen_status check_channels(const struct infer *c, const struct shape *x, const struct spatial_axes *sp,
                                      const struct weights *w, int64_t group, struct pen_error *reterr)
{
    int64_t channels = x->dim[sp->channel], want;
    if (group < 1 || group > INT32_MAX)
        return infer_fail(c, reterr, "group is %lld, it must be positive", (long long)group);
    if (w->in >= 0 && __builtin_mul_overflow(w->in, group, &want))
        return infer_fail(c, reterr, "weights are too large");
    if (channels >= 0 && w->in >= 0 && channels != w->in * group)
        return infer_fail(c, reterr, "the input has %lld %s, the weights need %lld in %lld %s", (long long)channels,
                          words_plural((uint64_t)channels, "channel", "channels"), (long long)(w->in * group),
                          (long long)group, words_plural((uint64_t)group, "group", "groups"));
    if (w->out >= 0 && w->out % group != 0)
        return infer_fail(c, reterr, "%lld output %s not divide into %lld groups", (long long)w->out,
                          words_plural((uint64_t)w->out, "channel does", "channels do"), (long long)group);
    return PEN_OK;
}

/* Kernel from the weights; kernel_shape must agree. Unknown weights: from kernel_shape alone. */
static enum pen_status conv_kernel(const struct infer *c, int32_t count, const int64_t *from_weights, struct window *w,
                                   struct pen_error *reterr)
{
    uint32_t given;
    const int64_t *list = node_ints(c->n, ATTR_kernel_shape, &given);
    if (list && given != (uint32_t)count)
        return infer_fail(c, reterr, "kernel_shape must be %d numbers", count);
    for (int32_t i = 0; i < count; i++) {
        int64_t k = from_weights ? from_weights[i] : SHAPE_DIM_UNKNOWN;
        if (!infer_same_dim(k, list ? list[i] : SHAPE_DIM_UNKNOWN, &w->kernel[i]))
            return infer_fail(c, reterr, "kernel_shape and the weights disagree");
        if (w->kernel[i] == 0 || w->kernel[i] > INT32_MAX)
            return infer_fail(c, reterr, "a kernel of size %lld", (long long)w->kernel[i]);
    }
    return PEN_OK;
}

/* x at input 0, weights at input `weights_at`. */
static enum pen_status conv_at(struct infer *c, uint32_t weights_at, enum pen_dtype dtype, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *wt = infer_shape_of(c, weights_at);
    int32_t rank = x->rank >= 0 ? x->rank : wt->rank;
    int64_t group = node_int(c->n, ATTR_group, 1);
    struct shape y = infer_unknown_of_rank(rank);
    struct spatial_axes sp;
    struct window w = {0};
    struct weights parts = {.out = SHAPE_DIM_UNKNOWN, .in = SHAPE_DIM_UNKNOWN};
    if (rank < 0) {
        y = shape_unknown();
        infer_put(c, 0, dtype, &y);
        return PEN_OK;
    }
    if (!spatial_axes_of(c->n, rank, &sp) || rank < 3)
        return infer_fail(c, reterr, "a convolution needs an input of 3 to 8 dimensions, it has %d", rank);
    if (wt->rank >= 0 && wt->rank != rank)
        return infer_fail(c, reterr, "the input has %d dimensions, the weights have %d", rank, wt->rank);
    if (wt->rank >= 0)
        read_weights(c->n, wt, group, &parts);
    enum pen_status status = read_window(c, sp.count, &w, reterr);
    if (status == PEN_OK)
        status = conv_kernel(c, sp.count, wt->rank >= 0 ? parts.kernel : NULL, &w, reterr);
    if (status != PEN_OK)
        return status;
    y.dim[sp.channel] = parts.out;
    if (x->rank < 0) {
        infer_put(c, 0, dtype, &y);
        return PEN_OK;
    }
    status = check_channels(c, x, &sp, &parts, group, reterr);
    y.dim[0] = x->dim[0];
    bool kernel_known = true;
    for (int32_t i = 0; i < sp.count; i++)
        kernel_known &= w.kernel[i] > 0;
    if (status == PEN_OK && kernel_known)
        status = slide(c, &w, &sp, x, &y, reterr);
    if (status == PEN_OK)
        infer_put(c, 0, dtype, &y);
    return status;
}

enum pen_status infer_conv(struct infer *c, struct pen_error *reterr)
{
    return conv_at(c, 1, c->n->op == OP_ConvInteger ? PEN_DTYPE_I32 : infer_dtype_of(c, 0), reterr);
}

enum pen_status infer_deform_conv(struct infer *c, struct pen_error *reterr)
{
    return conv_at(c, 1, infer_dtype_of(c, 0), reterr);
}

/* The element type is that of y_zero_point. */
enum pen_status infer_qlinear_conv(struct infer *c, struct pen_error *reterr)
{
    enum pen_dtype dtype = infer_dtype_of(c, 7);
    return conv_at(c, 3, dtype != PEN_DTYPE_NONE ? dtype : infer_dtype_of(c, 0), reterr);
}

enum pen_status infer_causal_conv(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *w = infer_shape_of(c, 1);
    struct shape state = *x;
    infer_put(c, 0, infer_dtype_of(c, 0), x);
    if (x->rank >= 0 && x->rank != 3)
        return infer_fail(c, reterr, "the input must be batch x channels x length");
    if (x->rank == 3)
        state.dim[2] = w->rank == 3 && w->dim[2] > 0 ? w->dim[2] - 1 : SHAPE_DIM_UNKNOWN;
    infer_put(c, 1, infer_dtype_of(c, 0), &state);
    return PEN_OK;
}

/* ---- transposed convolution --------------------------------------------------------------------------------------------- */

static enum pen_status transpose_dims(struct infer *c, const struct spatial_axes *sp, const struct window *w,
                                      const struct shape *x, struct shape *y, struct pen_error *reterr)
{
    int64_t extra[PEN_MAX_RANK];
    uint32_t given;
    const int64_t *fixed = node_ints(c->n, ATTR_output_shape, &given);
    if (!infer_list(c, ATTR_output_padding, sp->count, 0, 0, extra))
        return infer_fail(c, reterr, "output_padding must be %d numbers that are not negative", sp->count);
    if (fixed && given < (uint32_t)sp->count)
        return infer_fail(c, reterr, "output_shape must be %d numbers", sp->count);
    for (int32_t i = 0; i < sp->count; i++) {
        int32_t axis = sp->first + i;
        int64_t in = x->dim[axis], k = w->kernel[i];
        if (fixed) {
            y->dim[axis] = fixed[given - (uint32_t)sp->count + (uint32_t)i];
            if (y->dim[axis] < 0)
                return infer_fail(c, reterr, "output_shape has a negative size");
        } else if (in < 0 || k < 1) {
            y->dim[axis] = SHAPE_DIM_UNKNOWN;
        } else if (w->same) {
            if (!infer_mul_add(in, w->stride[i], 0, &y->dim[axis]))
                return infer_fail(c, reterr, "the output is too large");
        } else {
            int64_t add = extra[i] + (k - 1) * w->dilation[i] + 1 - w->pad[i] - w->pad[sp->count + i] - w->stride[i];
            if (!infer_mul_add(in, w->stride[i], add, &y->dim[axis]))
                return infer_fail(c, reterr, "the output would have a negative or too large size along axis %d", axis);
        }
    }
    return PEN_OK;
}

enum pen_status infer_conv_transpose(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *wt = infer_shape_of(c, 1);
    struct shape y = infer_unknown_of_rank(x->rank);
    struct spatial_axes sp;
    struct window w = {0};
    int64_t group = node_int(c->n, ATTR_group, 1);
    y.rank = x->rank;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    if (x->rank < 0)
        return PEN_OK;
    if (!spatial_axes_of(c->n, x->rank, &sp) || x->rank < 3)
        return infer_fail(c, reterr, "a convolution needs an input of 3 to 8 dimensions, it has %d", x->rank);
    if (wt->rank >= 0 && wt->rank != x->rank)
        return infer_fail(c, reterr, "the input has %d dimensions, the weights have %d", x->rank, wt->rank);
    if (group < 1 || group > INT32_MAX)
        return infer_fail(c, reterr, "group is %lld, it must be positive", (long long)group);
    bool known = wt->rank >= 0;
    if (known && !infer_mul_add(wt->dim[1], group, 0, &y.dim[sp.channel]))
        return infer_fail(c, reterr, "weights are too large");
    int64_t channels = x->dim[sp.channel];
    if (known && channels >= 0 && wt->dim[0] >= 0 && channels != wt->dim[0])
        return infer_fail(c, reterr, "the input has %lld channels, the weights need %lld", (long long)channels,
                          (long long)wt->dim[0]);
    if (known && wt->dim[0] >= 0 && wt->dim[0] % group != 0)
        return infer_fail(c, reterr, "%lld input channels do not divide into %lld groups", (long long)wt->dim[0],
                          (long long)group);
    enum pen_status status = read_window(c, sp.count, &w, reterr);
    if (status == PEN_OK)
        status = conv_kernel(c, sp.count, known ? wt->dim + 2 : NULL, &w, reterr);
    y.dim[0] = x->dim[0];
    if (status == PEN_OK)
        status = transpose_dims(c, &sp, &w, x, &y, reterr);
    if (status == PEN_OK)
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return status;
}

/* ---- pooling ---------------------------------------------------------------------------------------------------------------- */

enum pen_status infer_pool(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = *x;
    struct spatial_axes sp;
    struct window w = {0};
    enum pen_status status = PEN_OK;
    if (x->rank >= 0) {
        if (!spatial_axes_of(c->n, x->rank, &sp) || x->rank < 3)
            return infer_fail(c, reterr, "a pool needs an input of 3 to 8 dimensions, it has %d", x->rank);
        if (!node_attr(c->n, ATTR_kernel_shape) || !infer_list(c, ATTR_kernel_shape, sp.count, 1, 1, w.kernel))
            return infer_fail(c, reterr, "kernel_shape must be %d positive numbers", sp.count);
        status = read_window(c, sp.count, &w, reterr);
        for (int32_t i = 0; i < 2 * sp.count && status == PEN_OK && !w.same; i++) {
            if (w.pad[i] < 0)
                status = infer_fail(c, reterr, "pads of a pool must not be negative");
        }
        if (status == PEN_OK)
            status = slide(c, &w, &sp, x, &y, reterr);
    }
    if (status == PEN_OK) {
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
        infer_put(c, 1, PEN_DTYPE_I64, &y);
    }
    return status;
}

enum pen_status infer_global_pool(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    struct spatial_axes sp;
    if (y.rank >= 0) {
        if (!spatial_axes_of(c->n, y.rank, &sp))
            return infer_fail(c, reterr, "a global pool needs an input of at least 2 dimensions");
        for (int32_t i = 0; i < sp.count; i++)
            y.dim[sp.first + i] = 1;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_max_unpool(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(x->rank);
    struct window w = {0};
    int32_t count = x->rank - 2;
    y.rank = x->rank;
    if (x->rank >= 0 && x->rank < 3)
        return infer_fail(c, reterr, "the input needs at least 3 dimensions");
    if (infer_has(c, 2)) {
        size_t given;
        int64_t dims[PEN_MAX_RANK];
        int got = infer_ints(c, 2, dims, PEN_MAX_RANK, &given);
        if (got < 0 || (got == 1 && x->rank >= 0 && given != (size_t)x->rank))
            return infer_fail(c, reterr, "output_shape does not fit the input");
        if (got == 1)
            y = shape_of((int32_t)given, dims);
        for (int32_t i = 0; i < y.rank; i++) {
            if (y.dim[i] < -1)
                return infer_fail(c, reterr, "output_shape has a negative size");
        }
    } else if (x->rank >= 0) {
        enum pen_status status = read_window(c, count, &w, reterr);
        if (status != PEN_OK)
            return status;
        if (!infer_list(c, ATTR_kernel_shape, count, 1, 1, w.kernel))
            return infer_fail(c, reterr, "kernel_shape must be %d positive numbers", count);
        y.dim[0] = x->dim[0];
        y.dim[1] = x->dim[1];
        for (int32_t i = 0; i < count; i++) {
            int64_t add = w.kernel[i] - w.stride[i] - w.pad[i] - w.pad[count + i];
            if (!infer_mul_add(x->dim[2 + i], w.stride[i], add, &y.dim[2 + i]))
                return infer_fail(c, reterr, "the output would have a negative size");
        }
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}
