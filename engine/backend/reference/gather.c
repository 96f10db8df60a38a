/* Reading by index: Gather, GatherElements, GatherND, OneHot, Compress, NonZero. Source: ONNX. Every index is checked in every mode. */
#include "backend/reference/raw.h"

#include <string.h>

/* y[outer, i..., inner] = x[outer, indices[i...], inner] */
enum pen_status kernel_gather(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *is = &k->in[1].shape;
    int32_t axis = 0;
    struct raw x, y;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), in->rank, &axis);
    if (status == PEN_OK && in->rank + is->rank - 1 > PEN_MAX_RANK) {
        status = kernel_fail(k, PEN_ERR_UNSUPPORTED, "output rank above %d", PEN_MAX_RANK);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct shape out = shape_of(axis, in->dim);
    for (int32_t d = 0; d < is->rank; d++) {
        out.dim[out.rank++] = is->dim[d];
    }
    for (int32_t d = axis + 1; d < in->rank; d++) {
        out.dim[out.rank++] = in->dim[d];
    }
    status = raw_in(k, 0, &x);
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    int64_t outer = dims_product(in, 0, axis), count = shape_elements(is);
    size_t run = (size_t)dims_product(in, axis + 1, in->rank) * x.size;
    for (int64_t i = 0; i < count && status == PEN_OK; i++) {
        int64_t from = raw_index(&k->in[1], i, in->dim[axis]);
        if (from < 0) {
            return raw_index_fail(k, &k->in[1], i, in->dim[axis]);
        }
        for (int64_t o = 0; o < outer; o++) {
            memcpy(y.data + (size_t)(o * count + i) * run, x.data + (size_t)(o * in->dim[axis] + from) * run, run);
        }
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* y[i, j, ...] = x with coordinate `axis` replaced by indices[i, j, ...] */
enum pen_status kernel_gather_elements(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *is = &k->in[1].shape;
    int32_t axis = 0;
    int64_t strides[PEN_MAX_RANK], index[PEN_MAX_RANK] = {0};
    struct raw x, y;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), in->rank, &axis);
    for (int32_t d = 0; d < in->rank && status == PEN_OK; d++) {
        if (is->rank != in->rank || (d != axis && is->dim[d] > in->dim[d])) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "indices do not fit the data");
        }
    }
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, is, &y);
    }
    dims_strides(in, strides);
    for (int64_t i = 0; status == PEN_OK && i < y.count; i++) {
        int64_t from = raw_index(&k->in[1], i, in->dim[axis]), at = 0;
        if (from < 0) {
            return raw_index_fail(k, &k->in[1], i, in->dim[axis]);
        }
        for (int32_t d = 0; d < in->rank; d++) {
            at += (d == axis ? from : index[d]) * strides[d];
        }
        memcpy(y.data + (size_t)i * y.size, x.data + (size_t)at * y.size, y.size);
        for (int32_t d = in->rank - 1; d >= 0 && ++index[d] == is->dim[d]; d--) {
            index[d] = 0;
        }
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* The last dim of indices holds coordinates of the dims behind the batch dims; what remains of x is copied whole. */
enum pen_status kernel_gather_nd(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *is = &k->in[1].shape;
    int64_t batch_dims = node_int(k->n, ATTR_batch_dims, 0);
    if (is->rank < 1 || batch_dims < 0 || batch_dims >= is->rank || batch_dims >= in->rank ||
        is->dim[is->rank - 1] > in->rank - batch_dims) {
        return kernel_fail(k, PEN_ERR_SHAPE, "indices do not fit the data");
    }
    int32_t b = (int32_t)batch_dims, depth = (int32_t)is->dim[is->rank - 1];
    struct shape out = shape_of(is->rank - 1, is->dim);
    if (out.rank + in->rank - b - depth > PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "output rank above %d", PEN_MAX_RANK);
    }
    for (int32_t d = b + depth; d < in->rank; d++) {
        out.dim[out.rank++] = in->dim[d];
    }
    struct raw x, y;
    enum pen_status status = raw_in(k, 0, &x);
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    int64_t strides[PEN_MAX_RANK], tuples = dims_product(is, 0, is->rank - 1), batches = dims_product(is, 0, b);
    int64_t batch_size = dims_product(in, b, in->rank);
    size_t run = (size_t)dims_product(in, b + depth, in->rank) * x.size;
    dims_strides(in, strides);
    for (int64_t t = 0; t < tuples && status == PEN_OK; t++) {
        int64_t at = t / (tuples / batches) * batch_size;
        for (int32_t d = 0; d < depth; d++) {
            int64_t i = raw_index(&k->in[1], t * depth + d, in->dim[b + d]);
            if (i < 0) {
                return raw_index_fail(k, &k->in[1], t * depth + d, in->dim[b + d]);
            }
            at += i * strides[b + d];
        }
        memcpy(y.data + (size_t)t * run, x.data + (size_t)at * x.size, run);
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* indices, depth, [off, on]: y = on where the new axis equals the index, else off; indices outside give only off. */
enum pen_status kernel_one_hot(struct kernel_call *k)
{
    const struct shape *is = &k->in[0].shape;
    double depth_value = kernel_scalar(k, 1, 0.0);
    int64_t depth = i64_from_f64(depth_value), axis_at = node_int(k->n, ATTR_axis, -1);
    int32_t axis = 0;
    struct raw values, y;
    if (is->rank >= PEN_MAX_RANK || depth < 0 || shape_elements(&k->in[2].shape) != 2) {
        return kernel_fail(k, PEN_ERR_INVALID, "depth %lld", (long long)depth);
    }
    enum pen_status status = kernel_axis(k, axis_at, is->rank + 1, &axis);
    struct shape out = {.rank = is->rank + 1};
    for (int32_t d = 0; d < out.rank; d++) {
        out.dim[d] = d < axis ? is->dim[d] : d == axis ? depth : is->dim[d - 1];
    }
    if (status == PEN_OK) {
        status = raw_in(k, 2, &values);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[2].dtype, &out, &y);
    }
    int64_t inner = dims_product(&out, axis + 1, out.rank);
    for (int64_t i = 0; status == PEN_OK && i < y.count; i++) {
        int64_t at = i / (inner * depth) * inner + i % inner, place = i / inner % depth;
        double raw_index = load_one_f64(k->in[0].data, k->in[0].dtype, at);
        int64_t index = i64_from_f64(raw_index);
        index = index < 0 ? index + depth : index;
        memcpy(y.data + (size_t)i * y.size, values.data + (index == place ? y.size : 0), y.size);
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* Slices along the axis (or elements of the flattened tensor) whose condition is true. */
enum pen_status kernel_compress(struct kernel_call *k)
{
    struct shape in = k->in[0].shape;
    const uint8_t *condition = k->in[1].data;
    const struct attr *axis_attr = node_attr(k->n, ATTR_axis);
    int32_t axis = 0;
    struct raw x, y;
    enum pen_status status = PEN_OK;
    if (axis_attr == NULL) {
        in = shape_of(1, (const int64_t[]){shape_elements(&in)});
    } else {
        status = kernel_axis(k, axis_attr->i, in.rank, &axis);
    }
    int64_t have = shape_elements(&k->in[1].shape), kept = 0;
    have = status == PEN_OK && have > in.dim[axis] ? in.dim[axis] : have;
    for (int64_t i = 0; i < have; i++) {
        kept += condition[i] != 0;
    }
    struct shape out = in;
    out.dim[axis] = kept;
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    size_t run = status == PEN_OK ? (size_t)dims_product(&in, axis + 1, in.rank) * x.size : 0;
    uint8_t *to = status == PEN_OK ? y.data : NULL;
    for (int64_t o = 0; status == PEN_OK && o < dims_product(&in, 0, axis); o++) {
        for (int64_t i = 0; i < have; i++) {
            if (condition[i] != 0) {
                memcpy(to, x.data + (size_t)(o * in.dim[axis] + i) * run, run);
                to += run;
            }
        }
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* Coordinates of all elements that are not zero: [rank, count]. */
enum pen_status kernel_non_zero(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t total = shape_elements(&x->shape), count = 0, at = 0;
    int32_t rank = x->shape.rank == 0 ? 1 : x->shape.rank;
    struct shape dims = x->shape.rank == 0 ? shape_of(1, (const int64_t[]){1}) : x->shape;
    for (int64_t i = 0; i < total; i++) {
        count += load_one_f64(x->data, x->dtype, i) != 0.0;
    }
    struct shape out = shape_of(2, (const int64_t[]){x->shape.rank == 0 ? 1 : rank, count});
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &out);
    int64_t *y = status == PEN_OK ? k->out[0].data : NULL;
    for (int64_t i = 0; i < total && y != NULL; i++) {
        if (load_one_f64(x->data, x->dtype, i) == 0.0) {
            continue;
        }
        int64_t left = i;
        for (int32_t d = rank - 1; d >= 0; d--) {
            y[d * count + at] = left % dims.dim[d];
            left /= dims.dim[d];
        }
        at++;
    }
    return status;
}
