/* Quantised element-wise operators of com.microsoft: real = (q - zero) * scale, compute, quantise again. */
#include "backend/reference/broadcast.h"

#include "backend/reference/concat.h"
#include "backend/reference/lanes.h"
#include "backend/reference/quantise.h"
#include "backend/reference/spatial.h"

#include <math.h>

/* Scale and zero point of a tensor, from two inputs of the node (the zero point may be missing). */
struct affine {
    double scale, zero;
};

static struct affine affine_of(const struct kernel_call *k, uint32_t scale)
{
    return (struct affine){kernel_scalar(k, scale, 1.0), kernel_scalar(k, scale + 1, 0.0)};
}

static void real_block(const struct rt_value *v, const struct affine *a, int64_t first, int64_t step, int64_t n,
                       double *ret)
{
    load_f64(v->data, v->dtype, first, step, n, ret);
    for (int64_t i = 0; i < n; i++) {
        ret[i] = (ret[i] - a->zero) * a->scale;
    }
}

static void quantised_block(struct rt_value *y, const struct affine *a, int64_t first, int64_t step, int64_t n,
                            double *items)
{
    double low, high;
    quantise_range(y->dtype, &low, &high);
    for (int64_t i = 0; i < n; i++) {
        items[i] = quantise_value(items[i] / a->scale, a->zero, low, high);
    }
    store_f64(y->data, y->dtype, first, step, n, items);
}

/* Sums in fixed point: y = (a * ma + b * mb + bias) >> shift, multipliers of at most 21 bits. Source: XNNPACK's qs8 and qu8 vadd, which TFLite runs. */
struct fixed_add {
    int64_t a, b, bias;
    int shift;
    double y_zero;
};

static bool fixed_add_of(const struct affine *a, const struct affine *b, const struct affine *y, struct fixed_add *ret)
{
    float sa = (float)a->scale / (float)y->scale, sb = (float)b->scale / (float)y->scale;
    float largest = fmaxf(fabsf(sa), fabsf(sb));
    if (!(largest > 0.0f) || !isfinite(largest)) {
        return false;
    }
    ret->shift = 20 - ilogbf(largest);
    if (ret->shift < 1 || ret->shift > 40) {
        return false;
    }
    ret->a = lrintf(ldexpf(sa, ret->shift));
    ret->b = lrintf(ldexpf(sb, ret->shift));
    ret->bias = (INT64_C(1) << (ret->shift - 1)) - ret->a * (int64_t)a->zero - ret->b * (int64_t)b->zero;
    ret->y_zero = y->zero;
    return true;
}

/* p and q hold integers; the result goes to p. */
static void fixed_add_block(const struct fixed_add *f, enum pen_dtype dtype, double *p, const double *q, int64_t n)
{
    double low, high;
    quantise_range(dtype, &low, &high);
    for (int64_t i = 0; i < n; i++) {
        int64_t sum = (f->bias + (int64_t)p[i] * f->a + (int64_t)q[i] * f->b) >> f->shift;
        double y = (double)sum + f->y_zero;
        p[i] = y < low ? low : y > high ? high : y;
    }
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
enum pen_status kernel_qlinear_binary(struct kernel_call *k)
{
    struct affine a = affine_of(k, 1), b = affine_of(k, 4), y = affine_of(k, 6);
    bool adds = k->n->op == OP_QLinearAdd;
    struct rt_value pair[2] = {k->in[0], k->in[3]};
    struct kernel_call two = *k;
    struct broadcast w;
    double p[ELEMENT_BLOCK], q[ELEMENT_BLOCK];
    int64_t first, n;
    struct fixed_add fixed;
    bool integers = adds && node_int(k->n, ATTR_fixed_point, 0) != 0 && fixed_add_of(&a, &b, &y, &fixed);
    two.in = pair;
    enum pen_status status = broadcast_init(&two, 0, 2, &w);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &w.shape);
    }
    while (status == PEN_OK && broadcast_next(&w, &first, &n)) {
        if (integers) {
            load_f64(w.in[0].v->data, w.in[0].v->dtype, w.in[0].offset, w.in[0].step, n, p);
            load_f64(w.in[1].v->data, w.in[1].v->dtype, w.in[1].offset, w.in[1].step, n, q);
            fixed_add_block(&fixed, k->out[0].dtype, p, q, n);
            store_f64(k->out[0].data, k->out[0].dtype, first, 1, n, p);
            continue;
        }
        real_block(w.in[0].v, &a, w.in[0].offset, w.in[0].step, n, p);
        real_block(w.in[1].v, &b, w.in[1].offset, w.in[1].step, n, q);
        for (int64_t i = 0; i < n; i++) {
            p[i] = adds ? p[i] + q[i] : p[i] * q[i];
        }
        quantised_block(&k->out[0], &y, first, 1, n, p);
    }
    return status;
}

/* x, x_scale, x_zero, y_scale, y_zero */
enum pen_status kernel_qlinear_unary(struct kernel_call *k)
{
    struct affine x = affine_of(k, 1), y = affine_of(k, 3);
    double alpha = (double)node_float(k->n, ATTR_alpha, 0.01f), block[ELEMENT_BLOCK];
    bool sigmoid = k->n->op == OP_QLinearSigmoid;
    int64_t total = shape_elements(&k->in[0].shape);
    enum pen_status status = kernel_output_like(k, 0, 0);
    for (int64_t at = 0; at < total && status == PEN_OK; at += ELEMENT_BLOCK) {
        int64_t n = total - at < ELEMENT_BLOCK ? total - at : ELEMENT_BLOCK;
        real_block(&k->in[0], &x, at, 1, n, block);
        for (int64_t i = 0; i < n; i++) {
            block[i] = sigmoid ? 1.0 / (1.0 + exp(-block[i])) : block[i] < 0.0 ? alpha * block[i] : block[i];
        }
        quantised_block(&k->out[0], &y, at, 1, n, block);
    }
    return status;
}

/* x, table: one byte for each byte */
enum pen_status kernel_byte_table(struct kernel_call *k)
{
    const uint8_t *x = k->in[0].data, *table = k->in[1].data;
    if (pen_dtype_bits(k->in[0].dtype) != 8 || pen_dtype_bits(k->in[1].dtype) != 8 ||
        shape_elements(&k->in[1].shape) != 256) {
        return kernel_fail(k, PEN_ERR_INVALID, "x must be bytes and the table 256 of them");
    }
    enum pen_status status = kernel_output(k, 0, k->in[1].dtype, &k->in[0].shape);
    uint8_t *y = status == PEN_OK ? k->out[0].data : NULL;
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&k->in[0].shape); i++) {
        y[i] = table[x[i]];
    }
    return status;
}

/* x, x_scale, x_zero, y_scale, y_zero; the axis is coerced to the last when the opset attribute says so (importer). */
enum pen_status kernel_qlinear_softmax(struct kernel_call *k)
{
    struct affine x = affine_of(k, 1), y = affine_of(k, 3);
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), k->in[0].shape.rank, &axis);
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    struct lanes l = lanes_of(&k->in[0].shape, axis);
    double *lane = kernel_scratch(k, (size_t)l.count * sizeof *lane);
    if (status != PEN_OK || lane == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for an axis");
    }
    for (int64_t i = 0; i < l.outer * l.inner && l.count > 0; i++) {
        double max = -(double)INFINITY, sum = 0.0;
        real_block(&k->in[0], &x, lane_first(&l, i), l.inner, l.count, lane);
        for (int64_t j = 0; j < l.count; j++) {
            max = lane[j] > max ? lane[j] : max;
        }
        for (int64_t j = 0; j < l.count; j++) {
            lane[j] = exp(lane[j] - max);
            sum += lane[j];
        }
        for (int64_t j = 0; j < l.count; j++) {
            lane[j] /= sum;
        }
        quantised_block(&k->out[0], &y, lane_first(&l, i), l.inner, l.count, lane);
    }
    return status;
}

/* x, x_scale, x_zero, y_scale, y_zero: the mean over all positions of a channel. */
enum pen_status kernel_qlinear_global_pool(struct kernel_call *k)
{
    struct affine x = affine_of(k, 1), y = affine_of(k, 3);
    struct spatial in, out;
    int64_t ones[SPATIAL_MAX] = {1, 1, 1, 1, 1, 1};
    enum pen_status status = spatial_of(k, &k->in[0].shape, &in);
    if (status != PEN_OK) {
        return status;
    }
    spatial_make(in.batch, in.channels, in.dims, ones, in.nhwc, &out);
    struct shape shape = spatial_shape(&out);
    status = kernel_output(k, 0, k->in[0].dtype, &shape);
    for (int64_t i = 0; i < in.batch * in.channels && status == PEN_OK; i++) {
        int64_t base = i / in.channels * in.stride_batch + i % in.channels * in.stride_channel;
        double sum = 0.0, v;
        for (int64_t p = 0; p < in.positions; p++) {
            real_block(&k->in[0], &x, base + p * in.stride_position, 1, 1, &v);
            sum += v;
        }
        v = sum / (double)in.positions;
        quantised_block(&k->out[0], &y, i, 1, 1, &v);
    }
    return status;
}

/* y_scale, y_zero, then x, x_scale, x_zero for each part */
enum pen_status kernel_qlinear_concat(struct kernel_call *k)
{
    struct affine y = affine_of(k, 0);
    uint32_t count = (k->n->in_count - 2) / 3;
    struct rt_value *parts = kernel_scratch(k, (size_t)count * sizeof *parts);
    int32_t axis = 0;
    if (parts == NULL || count == 0) {
        return kernel_fail(k, PEN_ERR_INVALID, "no parts to join");
    }
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), k->in[2].shape.rank, &axis);
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        uint32_t at = 2 + 3 * i;
        struct affine x = affine_of(k, at + 1);
        int64_t total = shape_elements(&k->in[at].shape);
        double block[ELEMENT_BLOCK];
        parts[i] = k->in[at];
        parts[i].dtype = k->in[2].dtype; /* the zero point may be missing */
        parts[i].data = kernel_scratch(k, (size_t)total * element_size(parts[i].dtype));
        if (parts[i].data == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for part %u", i);
        }
        for (int64_t j = 0; j < total; j += ELEMENT_BLOCK) {
            int64_t n = total - j < ELEMENT_BLOCK ? total - j : ELEMENT_BLOCK;
            real_block(&k->in[at], &x, j, 1, n, block);
            quantised_block(&parts[i], &y, j, 1, n, block);
        }
    }
    return status == PEN_OK ? concat_run(k, parts, count, axis) : status;
}
