/* Writing by index: ScatterElements, ScatterND, TensorScatter. Source: ONNX. Every index is checked in every mode. */
#include "backend/reference/raw.h"

#include <string.h>

enum scatter_reduction { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

static enum scatter_reduction reduction_of(const struct node *n)
{
    return node_text_is(n, ATTR_reduction, "add", false)   ? SCATTER_ADD
           : node_text_is(n, ATTR_reduction, "mul", false) ? SCATTER_MUL
           : node_text_is(n, ATTR_reduction, "max", false) ? SCATTER_MAX
           : node_text_is(n, ATTR_reduction, "min", false) ? SCATTER_MIN
                                                           : SCATTER_NONE;
}

static double combine_f64(enum scatter_reduction how, double old, double v)
{
    switch (how) {
    case SCATTER_ADD:
        return old + v;
    case SCATTER_MUL:
        return old * v;
    case SCATTER_MAX:
        return v > old ? v : old;
    case SCATTER_MIN:
        return v < old ? v : old;
    case SCATTER_NONE:
    default:
        return v;
    }
}

static int64_t combine_i64(enum scatter_reduction how, int64_t old, int64_t v, bool is_unsigned)
{
    bool greater = is_unsigned ? (uint64_t)v > (uint64_t)old : v > old;
    switch (how) {
    case SCATTER_ADD:
        return (int64_t)((uint64_t)old + (uint64_t)v);
    case SCATTER_MUL:
        return (int64_t)((uint64_t)old * (uint64_t)v);
    case SCATTER_MAX:
        return greater ? v : old;
    case SCATTER_MIN:
        return greater ? old : v;
    case SCATTER_NONE:
    default:
        return v;
    }
}

/* y[to] = combine(y[to], updates[from]) */
static void put(struct rt_value *y, int64_t to, const struct rt_value *updates, int64_t from,
                enum scatter_reduction how)
{
    size_t size = element_size(y->dtype);
    if (how == SCATTER_NONE && !element_packed(y->dtype)) {
        memcpy((uint8_t *)y->data + (size_t)to * size, (const uint8_t *)updates->data + (size_t)from * size, size);
    } else if (element_class(y->dtype) == ELEMENT_FLOAT) {
        double v = load_one_f64(updates->data, updates->dtype, from);
        store_one_f64(y->data, y->dtype, to, combine_f64(how, load_one_f64(y->data, y->dtype, to), v));
    } else {
        int64_t v = load_one_i64(updates->data, updates->dtype, from);
        bool is_unsigned = element_class(y->dtype) == ELEMENT_UNSIGNED;
        store_one_i64(y->data, y->dtype, to, combine_i64(how, load_one_i64(y->data, y->dtype, to), v, is_unsigned));
    }
}

/* The output starts as a copy of the data. */
static enum pen_status start(struct kernel_call *k, uint32_t updates)
{
    if (k->in[updates].dtype != k->in[0].dtype) {
        return kernel_fail(k, PEN_ERR_DTYPE, "data and updates differ in type");
    }
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status == PEN_OK && k->out[0].data != k->in[0].data && k->in[0].bytes > 0) {
        memcpy(k->out[0].data, k->in[0].data, k->out[0].bytes < k->in[0].bytes ? k->out[0].bytes : k->in[0].bytes);
    }
    return status;
}

/* y[... indices[i] at axis ...] = updates[i] */
enum pen_status kernel_scatter_elements(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *is = &k->in[1].shape;
    int64_t strides[PEN_MAX_RANK], index[PEN_MAX_RANK] = {0}, total = shape_elements(is);
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), in->rank, &axis);
    for (int32_t d = 0; d < in->rank && status == PEN_OK; d++) {
        if (is->rank != in->rank || !shape_equal(is, &k->in[2].shape) || (d != axis && is->dim[d] > in->dim[d])) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "indices and updates do not fit the data");
        }
    }
    if (status == PEN_OK) {
        status = start(k, 2);
    }
    dims_strides(in, strides);
    for (int64_t i = 0; i < total && status == PEN_OK; i++) {
        int64_t to = raw_index(&k->in[1], i, in->dim[axis]), at = 0;
        if (to < 0) {
            return raw_index_fail(k, &k->in[1], i, in->dim[axis]);
        }
        for (int32_t d = 0; d < in->rank; d++) {
            at += (d == axis ? to : index[d]) * strides[d];
        }
        put(&k->out[0], at, &k->in[2], i, reduction_of(k->n));
        for (int32_t d = in->rank - 1; d >= 0 && ++index[d] == is->dim[d]; d--) {
            index[d] = 0;
        }
    }
    return status;
}

/* The last dim of indices is a coordinate; whole slices behind it are written. */
enum pen_status kernel_scatter_nd(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *is = &k->in[1].shape;
    if (is->rank < 1 || is->dim[is->rank - 1] > in->rank) {
        return kernel_fail(k, PEN_ERR_SHAPE, "indices do not fit the data");
    }
    int32_t depth = (int32_t)is->dim[is->rank - 1];
    int64_t strides[PEN_MAX_RANK], tuples = dims_product(is, 0, is->rank - 1), run = dims_product(in, depth, in->rank);
    if (shape_elements(&k->in[2].shape) != tuples * run) {
        return kernel_fail(k, PEN_ERR_SHAPE, "updates do not fit the indices");
    }
    enum pen_status status = start(k, 2);
    dims_strides(in, strides);
    for (int64_t t = 0; t < tuples && status == PEN_OK; t++) {
        int64_t at = 0;
        for (int32_t d = 0; d < depth; d++) {
            int64_t i = raw_index(&k->in[1], t * depth + d, in->dim[d]);
            if (i < 0) {
                return raw_index_fail(k, &k->in[1], t * depth + d, in->dim[d]);
            }
            at += i * strides[d];
        }
        for (int64_t i = 0; i < run; i++) {
            put(&k->out[0], at + i, &k->in[2], t * run + i, reduction_of(k->n));
        }
    }
    return status;
}

/* Writes `update` into a cache at write_indices[batch] along the axis; circular mode wraps around. */
enum pen_status kernel_tensor_scatter(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape, *us = &k->in[1].shape;
    bool circular = node_text_is(k->n, ATTR_mode, "circular", false);
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -2), in->rank, &axis);
    for (int32_t d = 0; d < in->rank && status == PEN_OK; d++) {
        if (us->rank != in->rank || axis == 0 || (d == axis ? us->dim[d] > in->dim[d] : us->dim[d] != in->dim[d])) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "the update does not fit the cache");
        }
    }
    if (status == PEN_OK && kernel_has(k, 2) && shape_elements(&k->in[2].shape) != in->dim[0]) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "write indices do not fit the batch");
    }
    if (status == PEN_OK) {
        status = start(k, 1);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t outer = dims_product(us, 0, axis), run = dims_product(us, axis + 1, us->rank),
            per_batch = dims_product(us, 1, axis);
    for (int64_t o = 0; o < outer; o++) {
        int64_t first = kernel_has(k, 2) ? load_one_i64(k->in[2].data, k->in[2].dtype, o / per_batch) : 0;
        for (int64_t t = 0; t < us->dim[axis]; t++) {
            int64_t to = circular && in->dim[axis] > 0 ? (first + t) % in->dim[axis] : first + t;
            if (to < 0 || to >= in->dim[axis]) {
                return kernel_fail(k, PEN_ERR_INVALID, "index %lld is outside of an axis of %lld", (long long)to,
                                   (long long)in->dim[axis]);
            }
            for (int64_t i = 0; i < run; i++) {
                put(&k->out[0], (o * in->dim[axis] + to) * run + i, &k->in[1], (o * us->dim[axis] + t) * run + i,
                    SCATTER_NONE);
            }
        }
    }
    return PEN_OK;
}
