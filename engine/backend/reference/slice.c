/* Windows onto a tensor: Slice, Pad, CenterCropPad, Trilu, ReverseSequence. Source: ONNX. */
#include "backend/reference/raw.h"

#include <string.h>

/* One slice along an axis: clamps start and end as Python does, negative steps walk back. */
static int64_t slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *ret_start)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1; /* where both may lie */
    start = start < -dim ? low : start < 0 ? start + dim : start > high ? high : start;
    end = end < -dim ? low : end < 0 ? end + dim : end > high ? high : end;
    start = start < low ? low : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    *ret_start = start < 0 ? 0 : start;
    if (step > 0) {
        return end > start ? (end - start - 1) / step + 1 : 0;
    }
    return start > end ? (start - end - 1) / -step + 1 : 0;
}

/* data, starts, ends, axes, steps */
enum pen_status kernel_slice(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int64_t starts[PEN_MAX_RANK], ends[PEN_MAX_RANK], axes[PEN_MAX_RANK], steps[PEN_MAX_RANK], strides[PEN_MAX_RANK],
        offset = 0;
    size_t start_count = 0, end_count = 0, axis_count = 0, step_count = 0;
    struct shape out = *in;
    enum pen_status status = kernel_ints(k, 1, starts, PEN_MAX_RANK, &start_count);
    if (status == PEN_OK) {
        status = kernel_ints(k, 2, ends, PEN_MAX_RANK, &end_count);
    }
    if (status == PEN_OK) {
        status = kernel_ints(k, 3, axes, PEN_MAX_RANK, &axis_count);
    }
    if (status == PEN_OK) {
        status = kernel_ints(k, 4, steps, PEN_MAX_RANK, &step_count);
    }
    if (status == PEN_OK && (end_count != start_count || (axis_count != 0 && axis_count != start_count) ||
                             (step_count != 0 && step_count != start_count))) {
        status = kernel_fail(k, PEN_ERR_INVALID, "starts, ends, axes and steps differ in length");
    }
    dims_strides(in, strides);
    for (size_t i = 0; i < start_count && status == PEN_OK; i++) {
        int32_t axis = 0;
        int64_t step = step_count != 0 ? steps[i] : 1, first = 0;
        status = kernel_axis(k, axis_count != 0 ? axes[i] : (int64_t)i, in->rank, &axis);
        if (status == PEN_OK && (step == 0 || step == INT64_MIN)) {
            status = kernel_fail(k, PEN_ERR_INVALID, "step %lld", (long long)step);
        }
        if (status == PEN_OK) {
            out.dim[axis] = slice_axis(in->dim[axis], starts[i], ends[i], step, &first);
            offset += first * strides[axis];
            strides[axis] *= out.dim[axis] > 1 ? step : 1;
        }
    }
    struct raw x, y;
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    if (status == PEN_OK) {
        raw_gather(y.data, x.data, x.size, &out, strides, offset);
        raw_done(k, 0, &y);
    }
    return status;
}

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* Source index along a dim of output index i (already minus the pad), or -1 where the constant goes. */
static int64_t pad_source(enum pad_mode mode, int64_t i, int64_t dim)
{
    if (i >= 0 && i < dim) {
        return i;
    }
    switch (mode) {
    case PAD_EDGE:
        return i < 0 ? 0 : dim - 1;
    case PAD_WRAP:
        return (i % dim + dim) % dim;
    case PAD_REFLECT: { /* period 2 (dim - 1), the edge is not repeated */
        int64_t period = 2 * (dim - 1);
        int64_t r = period == 0 ? 0 : (i % period + period) % period;
        return r < dim ? r : period - r;
    }
    case PAD_CONSTANT:
    default:
        return -1;
    }
}

struct padding {
    enum pad_mode mode;
    int64_t begin[PEN_MAX_RANK], end[PEN_MAX_RANK];
};

/* data, pads, value, axes */
static enum pen_status padding_init(struct kernel_call *k, struct padding *p)
{
    int32_t rank = k->in[0].shape.rank;
    int64_t pads[2 * PEN_MAX_RANK], axes[PEN_MAX_RANK];
    size_t count = 0, axis_count = 0;
    memset(p, 0, sizeof *p);
    p->mode = node_text_is(k->n, ATTR_mode, "reflect", false) ? PAD_REFLECT
              : node_text_is(k->n, ATTR_mode, "edge", false)  ? PAD_EDGE
              : node_text_is(k->n, ATTR_mode, "wrap", false)  ? PAD_WRAP
                                                              : PAD_CONSTANT;
    enum pen_status status = kernel_ints(k, 1, pads, 2 * PEN_MAX_RANK, &count);
    if (status == PEN_OK) {
        status = kernel_ints(k, 3, axes, PEN_MAX_RANK, &axis_count);
    }
    size_t half = kernel_has(k, 3) ? axis_count : (size_t)rank;
    if (status == PEN_OK && count != 2 * half) {
        status = kernel_fail(k, PEN_ERR_INVALID, "%zu pads for %zu axes", count, half);
    }
    for (size_t i = 0; i < half && status == PEN_OK; i++) {
        int32_t axis = 0;
        status = kernel_axis(k, kernel_has(k, 3) ? axes[i] : (int64_t)i, rank, &axis);
        if (status == PEN_OK) {
            p->begin[axis] = pads[i];
            p->end[axis] = pads[half + i];
        }
    }
    return status;
}

static enum pen_status padding_shape(struct kernel_call *k, const struct padding *p, struct shape *ret)
{
    const struct shape *in = &k->in[0].shape;
    *ret = *in;
    for (int32_t d = 0; d < in->rank; d++) {
        if (__builtin_add_overflow(p->begin[d], p->end[d], &ret->dim[d]) ||
            __builtin_add_overflow(ret->dim[d], in->dim[d], &ret->dim[d]) || ret->dim[d] < 0 ||
            (in->dim[d] == 0 && p->mode != PAD_CONSTANT && ret->dim[d] > 0)) {
            return kernel_fail(k, PEN_ERR_SHAPE, "dimension %d of %lld cannot be padded by %lld and %lld", d,
                               (long long)in->dim[d], (long long)p->begin[d], (long long)p->end[d]);
        }
    }
    return PEN_OK;
}

static void pad_fill(const struct padding *p, const struct shape *in, const struct shape *out, const struct raw *x,
                     struct raw *y, const uint8_t *value)
{
    int64_t index[PEN_MAX_RANK] = {0}, strides[PEN_MAX_RANK];
    dims_strides(in, strides);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at = 0;
        for (int32_t d = 0; d < in->rank && at >= 0; d++) {
            int64_t from = pad_source(p->mode, index[d] - p->begin[d], in->dim[d]);
            at = from < 0 ? -1 : at + from * strides[d];
        }
        memcpy(y->data + (size_t)i * y->size, at < 0 ? value : x->data + (size_t)at * y->size, y->size);
        for (int32_t d = in->rank - 1; d >= 0 && ++index[d] == out->dim[d]; d--) {
            index[d] = 0;
        }
    }
}

enum pen_status kernel_pad(struct kernel_call *k)
{
    static const uint64_t zero[2];
    struct padding p;
    struct shape out;
    struct raw x, y, value = {.data = NULL};
    enum pen_status status = padding_init(k, &p);
    if (status == PEN_OK) {
        status = padding_shape(k, &p, &out);
    }
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK && kernel_has(k, 2) && shape_elements(&k->in[2].shape) > 0) {
        status = k->in[2].dtype == k->in[0].dtype ? raw_in(k, 2, &value)
                                                  : kernel_fail(k, PEN_ERR_DTYPE, "the value's type differs");
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    if (status == PEN_OK) {
        pad_fill(&p, &k->in[0].shape, &out, &x, &y, value.data != NULL ? value.data : (const uint8_t *)zero);
        raw_done(k, 0, &y);
    }
    return status;
}

/* Crops or pads around the centre: of an odd difference the smaller half is in front. */
enum pen_status kernel_center_crop_pad(struct kernel_call *k)
{
    static const uint64_t zero[2];
    const struct shape *in = &k->in[0].shape;
    int64_t want[PEN_MAX_RANK];
    size_t count = 0;
    uint32_t axis_count = 0;
    const int64_t *axes = node_ints(k->n, ATTR_axes, &axis_count);
    struct padding p = {.mode = PAD_CONSTANT};
    struct shape out;
    struct raw x, y;
    enum pen_status status = kernel_ints(k, 1, want, PEN_MAX_RANK, &count);
    if (status == PEN_OK && count != (axes != NULL ? axis_count : (size_t)in->rank)) {
        status = kernel_fail(k, PEN_ERR_INVALID, "%zu sizes for %u axes", count, axis_count);
    }
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        int32_t axis = 0;
        status = kernel_axis(k, axes != NULL ? axes[i] : (int64_t)i, in->rank, &axis);
        if (status == PEN_OK) {
            int64_t diff = want[i] - in->dim[axis]; /* floor halves both ways: crop starts at (dim - want) / 2 */
            p.begin[axis] = diff >= 0 ? diff / 2 : -(-diff / 2);
            p.end[axis] = diff - p.begin[axis];
        }
    }
    if (status == PEN_OK) {
        status = padding_shape(k, &p, &out);
    }
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    if (status == PEN_OK) {
        pad_fill(&p, in, &out, &x, &y, (const uint8_t *)zero);
        raw_done(k, 0, &y);
    }
    return status;
}

/* Keeps the upper (column >= row + k) or lower (column <= row + k) triangle of each matrix. */
enum pen_status kernel_trilu(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    bool upper = node_int(k->n, ATTR_upper, 1) != 0;
    int64_t diagonal = 0;
    size_t have = 0;
    struct raw x, y;
    enum pen_status status =
        s->rank >= 2 ? kernel_ints(k, 1, &diagonal, 1, &have) : kernel_fail(k, PEN_ERR_SHAPE, "needs rank 2");
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, s, &y);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t rows = s->dim[s->rank - 2], columns = s->dim[s->rank - 1];
    diagonal = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
    for (int64_t i = 0; i < y.count; i++) {
        int64_t row = i / columns % rows, column = i % columns;
        bool keep = upper ? column >= row + diagonal : column <= row + diagonal;
        if (keep) {
            memcpy(y.data + (size_t)i * y.size, x.data + (size_t)i * y.size, y.size);
        } else {
            memset(y.data + (size_t)i * y.size, 0, y.size);
        }
    }
    raw_done(k, 0, &y);
    return PEN_OK;
}

/* Reverses the first length[b] steps of each batch entry. */
enum pen_status kernel_reverse_sequence(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    int64_t batch_axis = node_int(k->n, ATTR_batch_axis, 1), time_axis = node_int(k->n, ATTR_time_axis, 0);
    struct raw x, y;
    if (s->rank < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0 ||
        shape_elements(&k->in[1].shape) != s->dim[batch_axis]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "lengths do not fit the batch");
    }
    enum pen_status status = raw_in(k, 0, &x);
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, s, &y);
    }
    if (status != PEN_OK) {
        return status;
    }
    size_t run = (size_t)dims_product(s, 2, s->rank) * y.size;
    for (int64_t i = 0; i < s->dim[0] * s->dim[1]; i++) {
        int64_t at[2] = {i / s->dim[1], i % s->dim[1]};
        int64_t length = load_one_i64(k->in[1].data, k->in[1].dtype, at[batch_axis]);
        int64_t t = at[time_axis];
        if (length < 0 || length > s->dim[time_axis]) {
            return kernel_fail(k, PEN_ERR_INVALID, "length %lld of %lld", (long long)length,
                               (long long)s->dim[time_axis]);
        }
        at[time_axis] = t < length ? length - 1 - t : t;
        memcpy(y.data + (size_t)i * run, x.data + (size_t)(at[0] * s->dim[1] + at[1]) * run, run);
    }
    raw_done(k, 0, &y);
    return PEN_OK;
}
