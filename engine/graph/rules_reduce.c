#include "graph/infer_util.h"
#include "graph/rules.h"

/* Drops the marked axes, or makes them 1. */
static struct shape without(const struct shape *x, const bool *marked, bool keep)
{
    struct shape out = {.rank = 0};
    for (int32_t i = 0; i < x->rank; i++) {
        if (marked[i] && !keep)
            continue;
        out.dim[out.rank++] = marked[i] ? 1 : x->dim[i];
    }
    return out;
}

enum pen_status infer_reduce(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    bool keep = node_int(c->n, ATTR_keepdims, 1) != 0, marked[PEN_MAX_RANK] = {0};
    int64_t axes[PEN_MAX_RANK];
    size_t count = 0;
    struct shape out = shape_unknown();
    int got = infer_has(c, 1) && x->rank >= 0 ? infer_axes(c, 1, x->rank, marked, axes, &count) : 1;
    if (got < 0)
        return infer_fail(c, reterr, "axes are out of range or named twice");
    if (x->rank >= 0 && got == 1) {
        bool all = count == 0 && node_int(c->n, ATTR_noop_with_empty_axes, 0) == 0;
        for (int32_t i = 0; i < x->rank && all; i++)
            marked[i] = true;
        out = without(x, marked, keep);
    } else if (x->rank >= 0) { /* axes known at run time only */
        const struct shape *list = infer_shape_of(c, 1);
        if (keep)
            out = infer_unknown_of_rank(x->rank);
        else if (list->rank == 1 && list->dim[0] > 0 && list->dim[0] <= x->rank)
            out = infer_unknown_of_rank(x->rank - (int32_t)list->dim[0]);
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &out);
    return PEN_OK;
}

enum pen_status infer_arg(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    bool marked[PEN_MAX_RANK] = {0};
    struct shape out = shape_unknown();
    if (x->rank >= 0) {
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
        if (axis < 0)
            return infer_fail(c, reterr, "axis is out of range");
        marked[axis] = true;
        out = without(x, marked, node_int(c->n, ATTR_keepdims, 1) != 0);
    }
    infer_put(c, 0, PEN_DTYPE_I64, &out);
    return PEN_OK;
}
