/* Picking by index, ranking, and shapes that depend on data. */
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"
#include "words.h"

enum pen_status infer_gather(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *at = infer_shape_of(c, 1);
    struct shape y = shape_unknown();
    if (x->rank >= 0 && at->rank >= 0) {
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
        if (axis < 0 || x->rank - 1 + at->rank > PEN_MAX_RANK)
            return infer_fail(c, reterr, "axis is out of range, or the result has more than %d dimensions",
                              PEN_MAX_RANK);
        y.rank = x->rank - 1 + at->rank;
        for (int32_t i = 0; i < y.rank; i++)
            y.dim[i] = i < axis ? x->dim[i] : i < axis + at->rank ? at->dim[i - axis] : x->dim[i - at->rank + 1];
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_gather_elements(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *at = infer_shape_of(c, 1);
    if (x->rank >= 0 && at->rank >= 0 && x->rank != at->rank)
        return infer_fail(c, reterr, "data has %d %s, indices have %d", x->rank,
                          words_plural((uint64_t)x->rank, "dimension", "dimensions"), at->rank);
    infer_put(c, 0, infer_dtype_of(c, 0), at);
    return PEN_OK;
}

enum pen_status infer_gather_nd(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *at = infer_shape_of(c, 1);
    struct shape y = shape_unknown();
    int64_t batch = node_int(c->n, ATTR_batch_dims, 0);
    if (x->rank >= 0 && at->rank > 0 && at->dim[at->rank - 1] >= 0) {
        int64_t deep = at->dim[at->rank - 1], rank = at->rank - 1 + x->rank - deep - batch;
        if (batch < 0 || batch >= at->rank || deep + batch > x->rank || rank > PEN_MAX_RANK)
            return infer_fail(c, reterr, "indices reach %lld axes deep behind %lld batch axes, data has %d",
                              (long long)deep, (long long)batch, x->rank);
        y.rank = (int32_t)rank;
        for (int32_t i = 0; i < at->rank - 1; i++)
            y.dim[i] = at->dim[i];
        for (int32_t i = at->rank - 1; i < y.rank; i++)
            y.dim[i] = x->dim[i - (at->rank - 1) + (int32_t)(deep + batch)];
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_topk(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    int64_t k;
    int got = infer_int(c, 1, &k);
    if (y.rank >= 0) {
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, -1), y.rank);
        if (axis < 0 || got < 0 || (got == 1 && (k < 0 || (y.dim[axis] >= 0 && k > y.dim[axis]))))
            return infer_fail(c, reterr, "k or axis is out of range");
        y.dim[axis] = got == 1 ? k : SHAPE_DIM_UNKNOWN;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, PEN_DTYPE_I64, &y);
    return PEN_OK;
}

enum pen_status infer_one_hot(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = shape_unknown();
    if (x->rank >= 0) {
        int64_t depth = SHAPE_DIM_UNKNOWN;
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, -1), x->rank + 1);
        if (x->rank + 1 > PEN_MAX_RANK || axis < 0)
            return infer_fail(c, reterr, "axis is out of range, or the result has more than %d dimensions",
                              PEN_MAX_RANK);
        double number;
        if (infer_number(c, 1, &number) && number >= 0 && number < 1e15)
            depth = (int64_t)number;
        y.rank = x->rank + 1;
        for (int32_t i = 0; i < y.rank; i++)
            y.dim[i] = i < axis ? x->dim[i] : i == axis ? depth : x->dim[i - 1];
        if (depth < 0)
            y.dim[axis] = SHAPE_DIM_UNKNOWN;
    }
    infer_put(c, 0, infer_dtype_of(c, 2), &y);
    return PEN_OK;
}

enum pen_status infer_compress(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(1);
    if (node_attr(c->n, ATTR_axis)) {
        y = *x;
        int32_t axis = x->rank < 0 ? 0 : shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
        if (axis < 0)
            return infer_fail(c, reterr, "axis is out of range");
        if (x->rank >= 0)
            y.dim[axis] = SHAPE_DIM_UNKNOWN;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_non_zero(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(2);
    (void)reterr;
    y.dim[0] = infer_rank(c, 0);
    infer_put(c, 0, PEN_DTYPE_I64, &y);
    return PEN_OK;
}

enum pen_status infer_unique(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = infer_unknown_of_rank(1), list = y, inverse = y;
    if (node_attr(c->n, ATTR_axis)) {
        y = *x;
        int32_t axis = x->rank < 0 ? 0 : shape_axis(node_int(c->n, ATTR_axis, 0), x->rank);
        if (axis < 0)
            return infer_fail(c, reterr, "axis is out of range");
        if (x->rank >= 0) {
            inverse.dim[0] = x->dim[axis];
            y.dim[axis] = SHAPE_DIM_UNKNOWN;
        }
    } else {
        inverse.dim[0] = shape_elements(x);
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, PEN_DTYPE_I64, &list);
    infer_put(c, 2, PEN_DTYPE_I64, &inverse);
    infer_put(c, 3, PEN_DTYPE_I64, &list);
    return PEN_OK;
}

enum pen_status infer_nms(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(2);
    (void)reterr;
    y.dim[1] = 3;
    infer_put(c, 0, PEN_DTYPE_I64, &y);
    if (c->n->out_count > 1) {
        y = infer_unknown_of_rank(1);
        infer_put(c, 1, infer_dtype_of(c, 1), &y);
    }
    return PEN_OK;
}
