/* Joining and cutting along an axis: Concat, Split. Source: ONNX. */
#include "backend/reference/concat.h"

#include <string.h>

/* Output shape: the inputs must agree in all dims but the axis. */
static enum pen_status concat_shape(struct kernel_call *k, const struct rt_value *parts, uint32_t count, int32_t axis,
                                    struct shape *ret)
{
    *ret = parts[0].shape;
    for (uint32_t i = 1; i < count; i++) {
        const struct shape *s = &parts[i].shape;
        bool fits = s->rank == ret->rank && parts[i].dtype == parts[0].dtype;
        for (int32_t d = 0; d < ret->rank && fits; d++) {
            fits = d == axis || s->dim[d] == ret->dim[d];
        }
        if (!fits) {
            char a[96], b[96];
            return kernel_fail(k, PEN_ERR_SHAPE, "%s and %s do not join along axis %d", shape_text(ret, a, sizeof a),
                               shape_text(s, b, sizeof b), axis);
        }
        ret->dim[axis] += s->dim[axis];
    }
    return PEN_OK;
}

enum pen_status concat_run(struct kernel_call *k, const struct rt_value *parts, uint32_t count, int32_t axis)
{
    struct shape out;
    struct raw y;
    enum pen_status status = concat_shape(k, parts, count, axis, &out);
    if (status == PEN_OK) {
        status = raw_out(k, 0, parts[0].dtype, &out, &y);
    }
    int64_t outer = dims_product(&out, 0, axis), inner = dims_product(&out, axis + 1, out.rank), at = 0;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        struct raw x;
        status = raw_spread(k, &parts[i], &x);
        int64_t run = parts[i].shape.dim[axis] * inner;
        for (int64_t o = 0; o < outer && status == PEN_OK && run > 0; o++) {
            memcpy(y.data + (size_t)(o * out.dim[axis] * inner + at) * y.size, x.data + (size_t)(o * run) * y.size,
                   (size_t)run * y.size);
        }
        at += run;
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

enum pen_status kernel_concat(struct kernel_call *k)
{
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), k->in[0].shape.rank, &axis);
    return status == PEN_OK ? concat_run(k, k->in, k->n->in_count, axis) : status;
}

/* Lengths of the parts: input 1, or equal parts of which the last may be shorter. */
static enum pen_status split_sizes(struct kernel_call *k, int64_t dim, uint32_t parts, int64_t *sizes)
{
    size_t count = 0;
    if (!kernel_has(k, 1)) {
        int64_t chunk = (dim + parts - 1) / parts;
        for (uint32_t i = 0; i < parts; i++) {
            int64_t left = dim - (int64_t)i * chunk;
            sizes[i] = left < 0 ? 0 : left < chunk ? left : chunk;
        }
        return PEN_OK;
    }
    enum pen_status status = kernel_ints(k, 1, sizes, parts, &count);
    int64_t sum = 0;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        sum = sizes[i] < 0 ? INT64_MIN : sum + sizes[i];
    }
    if (status == PEN_OK && (count != parts || sum != dim)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "%zu lengths for %u parts of %lld", count, parts, (long long)dim);
    }
    return status;
}

enum pen_status kernel_split(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int32_t axis = 0;
    struct raw x;
    int64_t *sizes = kernel_scratch(k, k->n->out_count * sizeof *sizes);
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), in->rank, &axis);
    if (status == PEN_OK && sizes == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for lengths");
    }
    if (status == PEN_OK) {
        status = split_sizes(k, in->dim[axis], k->n->out_count, sizes);
    }
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    int64_t strides[PEN_MAX_RANK], at = 0;
    dims_strides(in, strides);
    for (uint32_t i = 0; i < k->n->out_count && status == PEN_OK; i++) {
        struct shape out = *in;
        struct raw y;
        out.dim[axis] = sizes[i];
        if (kernel_wants(k, i)) {
            status = raw_out(k, i, k->in[0].dtype, &out, &y);
            if (status == PEN_OK) {
                raw_gather(y.data, x.data, x.size, &out, strides, at);
                raw_done(k, i, &y);
            }
        }
        at += sizes[i] * strides[axis];
    }
    return status;
}
