/* Parts, joins and repetitions of tensors. */
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"

enum pen_status infer_concat(struct infer *c, struct pen_error *reterr)
{
    struct shape y = shape_unknown();
    int32_t axis = -1;
    int64_t total = 0;
    enum pen_dtype dtype = PEN_DTYPE_NONE;
    for (uint32_t i = 0; i < c->n->in_count; i++) {
        const struct shape *x = infer_shape_of(c, i);
        if (dtype == PEN_DTYPE_NONE)
            dtype = infer_dtype_of(c, i);
        if (x->rank < 0) {
            total = SHAPE_DIM_UNKNOWN;
            continue;
        }
        if (y.rank < 0) {
            y = *x;
            axis = shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
            if (axis < 0)
                return infer_fail(c, reterr, "axis is out of range");
        }
        if (x->rank != y.rank)
            return infer_fail(c, reterr, "input %u has %d dimensions, the first has %d", i, x->rank, y.rank);
        for (int32_t k = 0; k < y.rank; k++) {
            if (k != axis && !infer_same_dim(x->dim[k], y.dim[k], &y.dim[k]))
                return infer_fail(c, reterr, "input %u differs from the others along axis %d", i, k);
        }
        if (total >= 0 && (x->dim[axis] < 0 || __builtin_add_overflow(total, x->dim[axis], &total)))
            total = SHAPE_DIM_UNKNOWN;
    }
    if (y.rank >= 0)
        y.dim[axis] = total;
    infer_put(c, 0, dtype, &y);
    return PEN_OK;
}

/* Lengths of the parts: from the input, or equal ones of which the last may be shorter. */
static enum pen_status split_lengths(struct infer *c, int64_t whole, uint32_t parts, int64_t *ret_equal,
                                     struct pen_error *reterr)
{
    int64_t given = node_int(c->n, ATTR_num_outputs, parts);
    if (given != parts)
        return infer_fail(c, reterr, "num_outputs is %lld, the node has %u outputs", (long long)given, parts);
    *ret_equal = whole < 0 ? SHAPE_DIM_UNKNOWN : (whole + parts - 1) / parts;
    return PEN_OK;
}

static int64_t part_length(int64_t whole, int64_t equal, uint32_t i)
{
    if (whole < 0)
        return SHAPE_DIM_UNKNOWN;
    int64_t left = whole - equal * i;
    return left < 0 ? 0 : left < equal ? left : equal;
}

enum pen_status infer_split(struct infer *c, struct pen_error *reterr)
{
    enum { PARTS = 256 };
    const struct shape *x = infer_shape_of(c, 0);
    int64_t lengths[PARTS], equal = SHAPE_DIM_UNKNOWN, sum = 0;
    size_t count = 0;
    struct shape y = *x;
    int32_t axis = x->rank < 0 ? 0 : shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
    if (axis < 0)
        return infer_fail(c, reterr, "axis is out of range");
    bool listed = infer_has(c, 1);
    int got = listed ? infer_ints(c, 1, lengths, PARTS, &count) : 0;
    if (got == 1 && count != c->n->out_count)
        return infer_fail(c, reterr, "%zu lengths for %u outputs", count, c->n->out_count);
    int64_t whole = x->rank >= 0 ? x->dim[axis] : SHAPE_DIM_UNKNOWN;
    enum pen_status status = listed ? PEN_OK : split_lengths(c, whole, c->n->out_count, &equal, reterr);
    for (size_t i = 0; i < count && got == 1; i++) {
        if (lengths[i] < 0 || __builtin_add_overflow(sum, lengths[i], &sum))
            return infer_fail(c, reterr, "a length is negative");
    }
    if (got == 1 && whole >= 0 && sum != whole)
        return infer_fail(c, reterr, "lengths add up to %lld, the axis has %lld", (long long)sum, (long long)whole);
    for (uint32_t i = 0; i < c->n->out_count && status == PEN_OK; i++) {
        if (y.rank >= 0)
            y.dim[axis] = got == 1 ? lengths[i] : listed ? SHAPE_DIM_UNKNOWN : part_length(whole, equal, i);
        infer_put(c, i, infer_dtype_of(c, 0), &y);
    }
    return status;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Items of start : end : step along an axis of size `dim`, as NumPy counts them. */
static int64_t slice_size(int64_t dim, int64_t start, int64_t end, int64_t step)
{
    if (start < 0)
        start = start < -dim ? (step < 0 ? -1 : 0) : start + dim;
    if (end < 0)
        end = end < -dim ? -1 : end + dim;
    start = step > 0 ? clamp(start, 0, dim) : clamp(start, -1, dim - 1);
    end = step > 0 ? clamp(end, 0, dim) : clamp(end, -1, dim - 1);
    if (step > 0)
        return end > start ? (end - start - 1) / step + 1 : 0;
    uint64_t back = step == INT64_MIN ? (uint64_t)INT64_MAX + 1 : (uint64_t)-step;
    return start > end ? (int64_t)((uint64_t)(start - end - 1) / back) + 1 : 0;
}

enum pen_status infer_slice(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = *x;
    bool marked[PEN_MAX_RANK] = {0};
    int64_t starts[PEN_MAX_RANK], ends[PEN_MAX_RANK], axes[PEN_MAX_RANK], steps[PEN_MAX_RANK];
    size_t count = 0, n_ends = 0, n_axes = 0, n_steps = 0;
    if (x->rank < 0) {
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
        return PEN_OK;
    }
    int got_starts = infer_ints(c, 1, starts, PEN_MAX_RANK, &count),
        got_ends = infer_ints(c, 2, ends, PEN_MAX_RANK, &n_ends);
    int got_axes = infer_has(c, 3) ? infer_axes(c, 3, x->rank, marked, axes, &n_axes) : 1;
    int got_steps = infer_has(c, 4) ? infer_ints(c, 4, steps, PEN_MAX_RANK, &n_steps) : 1;
    if (got_starts < 0 || got_ends < 0 || got_axes < 0 || got_steps < 0)
        return infer_fail(c, reterr, "starts, ends, axes or steps are too many, out of range or named twice");
    if (got_axes == 0) {
        y = infer_unknown_of_rank(x->rank);
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
        return PEN_OK;
    }
    size_t items = infer_has(c, 3) ? n_axes : got_starts == 1 ? count : got_ends == 1 ? n_ends : (size_t)x->rank;
    if (items > (size_t)x->rank || (got_starts == 1 && count != items) || (got_ends == 1 && n_ends != items) ||
        (infer_has(c, 4) && got_steps == 1 && n_steps != items))
        return infer_fail(c, reterr, "starts, ends, axes and steps differ in length");
    for (size_t i = 0; i < items; i++) {
        int32_t axis = infer_has(c, 3) ? (int32_t)axes[i] : (int32_t)i;
        int64_t step = infer_has(c, 4) ? steps[i] : 1;
        bool known = got_starts == 1 && got_ends == 1 && got_steps == 1 && x->dim[axis] >= 0;
        if (got_steps == 1 && step == 0)
            return infer_fail(c, reterr, "a step is 0");
        y.dim[axis] = known ? slice_size(x->dim[axis], starts[i], ends[i], step) : SHAPE_DIM_UNKNOWN;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_pad(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(x->rank);
    int64_t pads[2 * PEN_MAX_RANK], axes[PEN_MAX_RANK];
    size_t count, n_axes = 0;
    bool marked[PEN_MAX_RANK] = {0};
    y.rank = x->rank;
    int got = infer_ints(c, 1, pads, 2 * PEN_MAX_RANK, &count);
    int got_axes = infer_has(c, 3) && x->rank >= 0 ? infer_axes(c, 3, x->rank, marked, axes, &n_axes) : 2;
    if (got < 0 || got_axes < 0)
        return infer_fail(c, reterr, "pads or axes are too many or out of range");
    if (x->rank >= 0 && got == 1 && got_axes != 0) {
        size_t items = got_axes == 1 ? n_axes : (size_t)x->rank;
        if (count != 2 * items)
            return infer_fail(c, reterr, "%zu pads for %zu axes", count, items);
        y = *x;
        for (size_t i = 0; i < items; i++) {
            size_t axis = got_axes == 1 ? (size_t)axes[i] : i;
            int64_t both;
            if (__builtin_add_overflow(pads[i], pads[items + i], &both) ||
                !infer_mul_add(x->dim[axis], 1, both, &y.dim[axis]))
                return infer_fail(c, reterr, "pads %lld and %lld do not fit axis %zu", (long long)pads[i],
                                  (long long)pads[items + i], axis);
        }
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_tile(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(x->rank);
    int64_t times[PEN_MAX_RANK];
    size_t count;
    y.rank = x->rank;
    int got = infer_ints(c, 1, times, PEN_MAX_RANK, &count);
    if (got < 0 || (got == 1 && x->rank >= 0 && count != (size_t)x->rank))
        return infer_fail(c, reterr, "repeats must be one number per dimension");
    for (int32_t i = 0; i < x->rank && got == 1; i++) {
        if (times[i] < 0 || !infer_mul_add(x->dim[i], times[i], 0, &y.dim[i]))
            return infer_fail(c, reterr, "repeats are negative or too large");
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_center_crop_pad(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = *x;
    uint32_t n_axes;
    const int64_t *axes = node_ints(c->n, ATTR_axes, &n_axes);
    int64_t sizes[PEN_MAX_RANK];
    size_t count = 0;
    int got = infer_ints(c, 1, sizes, PEN_MAX_RANK, &count);
    if (got < 0 || (got == 1 && axes && count != n_axes) ||
        (got == 1 && !axes && x->rank >= 0 && count != (size_t)x->rank))
        return infer_fail(c, reterr, "the new shape does not fit the axes");
    uint32_t items = axes ? n_axes : x->rank > 0 ? (uint32_t)x->rank : 0;
    for (uint32_t i = 0; i < items && x->rank >= 0; i++) {
        int32_t axis = shape_axis(axes ? axes[i] : (int64_t)i, x->rank);
        if (axis < 0 || (got == 1 && sizes[i] < 0))
            return infer_fail(c, reterr, "an axis is out of range, or a size negative");
        y.dim[axis] = got == 1 ? sizes[i] : SHAPE_DIM_UNKNOWN;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}
