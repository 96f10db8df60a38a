/* Softmax, LogSoftmax, Hardmax along one axis. Source: ONNX, opset 13 meaning. */
#include "backend/reference/lanes.h"

#include <math.h>

/* y_i = e^(x_i - max) / sum, or its logarithm. */
static void softmax_lane(double *x, int64_t n, bool logarithm)
{
    double max = -(double)INFINITY, sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        max = x[i] > max || isnan(x[i]) ? x[i] : max;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(x[i] - max);
    }
    double log_sum = log(sum);
    for (int64_t i = 0; i < n; i++) {
        x[i] = logarithm ? x[i] - max - log_sum : exp(x[i] - max) / sum;
    }
}

/* 1 at the first maximum, 0 elsewhere. */
static void hardmax_lane(double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = i == best ? 1.0 : 0.0;
    }
}

enum pen_status kernel_softmax(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int32_t axis = 0;
    struct shape shape = x->shape;
    if (shape.rank == 0) {
        shape = shape_of(1, (const int64_t[]){1});
    }
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), shape.rank, &axis);
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct lanes l = lanes_of(&shape, axis);
    double *lane = kernel_scratch(k, (size_t)l.count * sizeof *lane);
    if (lane == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for an axis of %lld", (long long)l.count);
    }
    for (int64_t i = 0; i < l.outer * l.inner && l.count > 0; i++) {
        int64_t first = lane_first(&l, i);
        load_f64(x->data, x->dtype, first, l.inner, l.count, lane);
        if (k->n->op == OP_Hardmax) {
            hardmax_lane(lane, l.count);
        } else {
            softmax_lane(lane, l.count, k->n->op == OP_LogSoftmax);
        }
        store_f64(k->out[0].data, x->dtype, first, l.inner, l.count, lane);
    }
    return PEN_OK;
}
