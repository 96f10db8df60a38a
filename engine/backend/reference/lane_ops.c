/* Operators along one axis: ArgMax, ArgMin, CumSum, CumProd, TopK. Source: ONNX. */
#include "backend/reference/lanes.h"

#include <math.h>
#include <stdlib.h>

/* One element in an order that serves every dtype: floats by value (NaN above all), integers by their 64 bits. */
struct key {
    double f;
    int64_t i;
    int64_t at;
};

static void lane_keys(const struct rt_value *x, int64_t first, int64_t step, int64_t count, struct key *keys)
{
    bool floats = element_class(x->dtype) == ELEMENT_FLOAT;
    uint64_t flip = element_class(x->dtype) == ELEMENT_UNSIGNED ? (uint64_t)1 << 63 : 0; /* orders unsigned as signed */
    for (int64_t j = 0; j < count; j++) {
        keys[j].at = j;
        keys[j].f = floats ? load_one_f64(x->data, x->dtype, first + j * step) : 0.0;
        keys[j].i = floats ? 0 : (int64_t)((uint64_t)load_one_i64(x->data, x->dtype, first + j * step) ^ flip);
    }
}

/* -1, 0, 1 */
static int key_order(const struct key *a, const struct key *b)
{
    if (isnan(a->f) || isnan(b->f)) {
        return (int)isnan(a->f) - (int)isnan(b->f) > 0 ? 1 : isnan(a->f) && isnan(b->f) ? 0 : -1;
    }
    if (a->f != b->f) {
        return a->f < b->f ? -1 : 1;
    }
    return a->i < b->i ? -1 : a->i > b->i;
}

enum pen_status kernel_arg(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    bool keep = node_int(k->n, ATTR_keepdims, 1) != 0, last = node_int(k->n, ATTR_select_last_index, 0) != 0;
    int sign = k->n->op == OP_ArgMax ? 1 : -1;
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), x->shape.rank, &axis);
    if (status != PEN_OK) {
        return status;
    }
    struct lanes l = lanes_of(&x->shape, axis);
    struct shape out = {.rank = 0};
    for (int32_t d = 0; d < x->shape.rank; d++) {
        if (d != axis || keep) {
            out.dim[out.rank++] = d == axis ? 1 : x->shape.dim[d];
        }
    }
    struct key *keys = kernel_scratch(k, (size_t)l.count * sizeof *keys);
    status = kernel_output(k, 0, PEN_DTYPE_I64, &out);
    if (status != PEN_OK || keys == NULL || l.count == 0) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_SHAPE, "an axis of %lld", (long long)l.count);
    }
    int64_t *y = k->out[0].data;
    for (int64_t i = 0; i < l.outer * l.inner; i++) {
        int64_t best = 0;
        lane_keys(x, lane_first(&l, i), l.inner, l.count, keys);
        for (int64_t j = 1; j < l.count; j++) {
            int order = key_order(&keys[j], &keys[best]) * sign;
            best = order > 0 || (order == 0 && last) ? j : best;
        }
        y[i] = best;
    }
    return PEN_OK;
}

/* y_j = x_0 + ... + x_j (or the product); exclusive leaves x_j out, reverse starts at the end. */
static void cumulate(const struct rt_value *x, struct rt_value *y, int64_t first, const struct lanes *l, bool product,
                     bool exclusive, bool reverse)
{
    bool floats = element_class(x->dtype) == ELEMENT_FLOAT;
    double f = product ? 1.0 : 0.0;
    uint64_t u = product ? 1 : 0;
    for (int64_t j = 0; j < l->count; j++) {
        int64_t at = first + (reverse ? l->count - 1 - j : j) * l->inner;
        double before = f;
        uint64_t u_before = u;
        if (floats) {
            double v = load_one_f64(x->data, x->dtype, at);
            f = product ? f * v : f + v;
            store_one_f64(y->data, y->dtype, at, exclusive ? before : f);
        } else {
            uint64_t v = (uint64_t)load_one_i64(x->data, x->dtype, at);
            u = product ? u * v : u + v;
            store_one_i64(y->data, y->dtype, at, (int64_t)(exclusive ? u_before : u));
        }
    }
}

enum pen_status kernel_cumulate(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t wanted = 0;
    size_t count = 0;
    int32_t axis = 0;
    enum pen_status status = kernel_ints(k, 1, &wanted, 1, &count);
    if (status == PEN_OK) {
        status = kernel_axis(k, wanted, x->shape.rank, &axis);
    }
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct lanes l = lanes_of(&x->shape, axis);
    bool exclusive = node_int(k->n, ATTR_exclusive, 0) != 0, reverse = node_int(k->n, ATTR_reverse, 0) != 0;
    for (int64_t i = 0; i < l.outer * l.inner; i++) {
        cumulate(x, &k->out[0], lane_first(&l, i), &l, k->n->op == OP_CumProd, exclusive, reverse);
    }
    return PEN_OK;
}

/* Among equals the lower index comes first. */
static int largest_first(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = key_order(y, x);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static int smallest_first(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = key_order(x, y);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void topk_store(struct kernel_call *k, const struct key *keys, int64_t count, int64_t source, int64_t target,
                       int64_t step)
{
    const struct rt_value *x = &k->in[0];
    for (int64_t j = 0; j < count; j++) {
        int64_t from = source + keys[j].at * step, to = target + j * step;
        if (element_class(x->dtype) == ELEMENT_FLOAT) {
            store_one_f64(k->out[0].data, x->dtype, to, load_one_f64(x->data, x->dtype, from));
        } else {
            store_one_i64(k->out[0].data, x->dtype, to, load_one_i64(x->data, x->dtype, from));
        }
        ((int64_t *)k->out[1].data)[to] = keys[j].at;
    }
}

enum pen_status kernel_topk(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t want = 0;
    size_t have = 0;
    int32_t axis = 0;
    enum pen_status status = kernel_ints(k, 1, &want, 1, &have);
    if (status == PEN_OK) {
        status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), x->shape.rank, &axis);
    }
    if (status == PEN_OK && (have != 1 || want < 0 || want > x->shape.dim[axis])) {
        status = kernel_fail(k, PEN_ERR_INVALID, "k is %lld for an axis of %lld", (long long)want,
                             (long long)x->shape.dim[axis]);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct lanes l = lanes_of(&x->shape, axis);
    struct shape out = x->shape;
    out.dim[axis] = want;
    struct lanes to = lanes_of(&out, axis);
    struct key *keys = kernel_scratch(k, (size_t)l.count * sizeof *keys);
    status = kernel_output(k, 0, x->dtype, &out);
    if (status == PEN_OK) {
        status = kernel_output(k, 1, PEN_DTYPE_I64, &out);
    }
    if (status != PEN_OK || keys == NULL) {
        return status != PEN_OK ? status
                                : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to sort %lld", (long long)l.count);
    }
    bool largest = node_int(k->n, ATTR_largest, 1) != 0;
    for (int64_t i = 0; i < l.outer * l.inner; i++) {
        lane_keys(x, lane_first(&l, i), l.inner, l.count, keys);
        qsort(keys, (size_t)l.count, sizeof *keys, largest ? largest_first : smallest_first);
        if (node_int(k->n, ATTR_sorted, 1) == 0) {
            qsort(keys, (size_t)want, sizeof *keys, by_place);
        }
        topk_store(k, keys, want, lane_first(&l, i), lane_first(&to, i), l.inner);
    }
    return PEN_OK;
}
