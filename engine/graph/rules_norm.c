#include "graph/infer_util.h"
#include "graph/axes.h"
#include "graph/rules.h"

enum pen_status infer_batch_norm(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape channels = infer_unknown_of_rank(1);
    struct spatial_axes axes;
    if (x->rank >= 0 && x->rank < 1)
        return infer_fail(c, reterr, "the input is a scalar");
    if (x->rank == 1)
        channels.dim[0] = 1;
    else if (spatial_axes_of(c->n, x->rank, &axes))
        channels.dim[0] = x->dim[axes.channel];
    for (uint32_t i = 1; i < 5; i++) {
        const struct shape *s = infer_shape_of(c, i);
        if (s->rank >= 0 && (s->rank != 1 || !infer_same_dim(s->dim[0], channels.dim[0], &channels.dim[0])))
            return infer_fail(c, reterr, "input %u does not have one item per channel", i);
    }
    infer_put(c, 0, infer_dtype_of(c, 0), x);
    infer_put(c, 1, infer_dtype_of(c, 3), &channels);
    infer_put(c, 2, infer_dtype_of(c, 3), &channels);
    return PEN_OK;
}

enum pen_status infer_layer_norm(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape rest = *x;
    enum pen_dtype stash = infer_dtype_attr(c, ATTR_stash_type, PEN_DTYPE_F32);
    if (x->rank >= 0) {
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, -1), x->rank);
        if (axis < 0)
            return infer_fail(c, reterr, "axis is out of range");
        for (int32_t i = axis; i < x->rank; i++)
            rest.dim[i] = 1;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), x);
    infer_put(c, 1, stash, &rest);
    infer_put(c, 2, stash, &rest);
    return PEN_OK;
}
