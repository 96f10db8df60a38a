/* MoE of com.microsoft: the walk is ../experts.h's. */
#include "backend/experts.h"

#include "backend/reference/kernels.h"

static float exact_dot(const float *a, const float *b, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return (float)sum;
}

/* An input as f32: itself, or a copy. */
static enum pen_status floats_of(struct kernel_call *k, uint32_t index, const float **ret)
{
    const struct rt_value *v = &k->in[index];
    *ret = v->data;
    if (!kernel_has(k, index) || v->dtype == PEN_DTYPE_F32) {
        *ret = kernel_has(k, index) ? v->data : NULL;
        return PEN_OK;
    }
    int64_t count = shape_elements(&v->shape);
    float *to = kernel_scratch(k, (size_t)count * sizeof *to);
    if (to == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for input %u", index);
    }
    for (int64_t i = 0; i < count; i++) {
        to[i] = (float)load_one_f64(v->data, v->dtype, i);
    }
    *ret = to;
    return PEN_OK;
}

/* x, router, w1, b1, w2, b2, w3, b3 */
enum pen_status kernel_experts(struct kernel_call *k)
{
    struct experts e;
    const struct shape *shapes[8];
    const float *in[8];
    const char *reason = "";
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < 8; i++) {
        shapes[i] = kernel_has(k, i) ? &k->in[i].shape : NULL;
    }
    if (shapes[1] == NULL || shapes[2] == NULL || shapes[4] == NULL || !experts_of(k->n, shapes, &e, &reason)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "%s", reason);
    }
    for (uint32_t i = 0; i < 8 && status == PEN_OK; i++) {
        in[i] = NULL;
        status = shapes[i] != NULL ? floats_of(k, i, &in[i]) : PEN_OK;
    }
    status = status == PEN_OK ? kernel_output_like(k, 0, 0) : status;
    float *scratch = status == PEN_OK ? kernel_scratch(k, (experts_scratch(&e) + e.hidden) * sizeof *scratch) : NULL;
    if (scratch == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for one row");
    }
    e.w1 = in[2], e.b1 = in[3], e.w2 = in[4], e.b2 = in[5], e.w3 = in[6], e.b3 = in[7];
    e.dot = exact_dot;
    for (size_t r = 0; r < e.rows && status == PEN_OK; r++) {
        float *y = scratch + experts_scratch(&e);
        experts_row(&e, in[0] + r * e.hidden, in[1] + r * e.count, scratch, y);
        for (size_t i = 0; i < e.hidden; i++) {
            store_one_f64(k->out[0].data, k->out[0].dtype, (int64_t)(r * e.hidden + i), (double)y[i]);
        }
        status = kernel_cancelled(k);
    }
    return status;
}
