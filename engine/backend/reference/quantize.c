/* y = saturate(round(x / scale) + zero) and back; per tensor, per axis, or in blocks along an axis. Source: ONNX QuantizeLinear, DequantizeLinear. */
#include "backend/reference/lanes.h"
#include "backend/reference/quantise.h"

#include <math.h>

void quantise_range(enum pen_dtype dtype, double *ret_low, double *ret_high)
{
    int bits = (int)pen_dtype_bits(dtype);
    bool is_signed = element_class(dtype) == ELEMENT_SIGNED;
    *ret_low = is_signed ? -ldexp(1.0, bits - 1) : 0.0;
    *ret_high = (is_signed ? ldexp(1.0, bits - 1) : ldexp(1.0, bits)) - 1.0;
}

/* Where the scale of element (outer, at, inner) of the data is. */
struct scales {
    struct lanes l;
    int64_t count; /* along the axis; 0 = one scale for all */
    int64_t block; /* data elements per scale along the axis */
    bool full;     /* blocked: the scale varies along the other dims too */
};

static enum pen_status scales_init(struct kernel_call *k, struct scales *s)
{
    const struct shape *x = &k->in[0].shape, *scale = &k->in[1].shape;
    int64_t block = node_int(k->n, ATTR_block_size, 0);
    int32_t axis = 0;
    *s = (struct scales){.block = 1};
    if (kernel_has(k, 2) && !shape_equal(&k->in[2].shape, scale) &&
        shape_elements(&k->in[2].shape) != shape_elements(scale)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the zero point's shape differs from the scale's");
    }
    if (shape_elements(scale) == 1 && block == 0) {
        return PEN_OK;
    }
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 1), x->rank, &axis);
    if (status != PEN_OK) {
        return status;
    }
    s->l = lanes_of(x, axis);
    s->full = block > 0 || scale->rank == x->rank;
    s->count = scale->rank == 0 ? 1 : scale->rank == 1 ? scale->dim[0] : scale->dim[axis];
    if (s->full && block == 0 && s->count > 0) {
        block = (x->dim[axis] + s->count - 1) / s->count;
    }
    s->block = block > 0 ? block : 1;
    int64_t need = (x->dim[axis] + s->block - 1) / s->block;
    bool fits = s->count == need && shape_elements(scale) == (s->full ? s->l.outer * need * s->l.inner : need);
    return fits ? PEN_OK
                : kernel_fail(k, PEN_ERR_SHAPE, "%lld scales do not fit the data", (long long)shape_elements(scale));
}

static int64_t scale_at(const struct scales *s, int64_t i)
{
    if (s->count == 0) {
        return 0;
    }
    int64_t at = i / s->l.inner % s->l.count / s->block;
    return s->full ? (i / (s->l.inner * s->l.count) * s->count + at) * s->l.inner + i % s->l.inner : at;
}

/* The output type: the zero point's, else the attribute's, else UINT8. */
static enum pen_dtype quantised_dtype(const struct kernel_call *k)
{
    if (kernel_has(k, 2)) {
        return k->in[2].dtype;
    }
    int64_t type = node_int(k->n, ATTR_output_dtype, 0);
    return type == 0 ? PEN_DTYPE_U8 : (enum pen_dtype)type;
}

/* The division is done in the type of `precision` or of the data, as the standard says: it decides ties. */
static double divide(double x, double scale, enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F64 ? x / scale : (double)((float)x / (float)scale);
}

enum pen_status kernel_quantize(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0], *scale = &k->in[1];
    enum pen_dtype to = quantised_dtype(k);
    bool floats = element_class(to) == ELEMENT_FLOAT, saturate = node_int(k->n, ATTR_saturate, 1) != 0;
    struct scales s;
    double low, high;
    enum pen_status status = scales_init(k, &s);
    if (status == PEN_OK && (element_class(to) & ELEMENT_NUMBER) == 0) {
        status = kernel_fail(k, PEN_ERR_DTYPE, "to type %d", (int)to);
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 0, to, &x->shape);
    }
    quantise_range(to, &low, &high);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        int64_t at = scale_at(&s, i);
        double zero = kernel_has(k, 2) ? load_one_f64(k->in[2].data, to, at) : 0.0;
        double v = divide(load_one_f64(x->data, x->dtype, i), load_one_f64(scale->data, scale->dtype, at), x->dtype);
        if (!floats) {
            store_one_f64(k->out[0].data, to, i, isnan(v) ? zero : quantise_value(v, zero, low, high));
        } else if (to == PEN_DTYPE_F4E2M1) {
            store_one_i64(k->out[0].data, PEN_DTYPE_U4, i, small_float_encode(to, v + zero, saturate, 0));
        } else {
            ((uint8_t *)k->out[0].data)[i] = small_float_encode(to, v + zero, saturate, 0);
        }
    }
    return status;
}

/* y = (x - zero) * scale */
enum pen_status kernel_dequantize(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0], *scale = &k->in[1];
    int64_t type = node_int(k->n, ATTR_output_dtype, 0);
    struct scales s;
    enum pen_status status = scales_init(k, &s);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, type == 0 ? scale->dtype : (enum pen_dtype)type, &x->shape);
    }
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        int64_t at = scale_at(&s, i);
        double zero = kernel_has(k, 2) ? load_one_f64(k->in[2].data, k->in[2].dtype, at) : 0.0;
        double v = (load_one_f64(x->data, x->dtype, i) - zero) * load_one_f64(scale->data, scale->dtype, at);
        store_one_f64(k->out[0].data, k->out[0].dtype, i, v);
    }
    return status;
}

/* scale = (max(x, 0) - min(x, 0)) / 255, zero = saturate(round(-min / scale)) */
enum pen_status kernel_dynamic_quantize(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct shape scalar = shape_scalar();
    double min = 0.0, max = 0.0;
    int64_t total = shape_elements(&x->shape);
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_U8, &x->shape);
    if (status == PEN_OK) {
        status = kernel_output(k, 1, PEN_DTYPE_F32, &scalar);
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 2, PEN_DTYPE_U8, &scalar);
    }
    if (status != PEN_OK) {
        return status;
    }
    for (int64_t i = 0; i < total; i++) {
        double v = load_one_f64(x->data, x->dtype, i);
        min = v < min ? v : min;
        max = v > max ? v : max;
    }
    float scale = ((float)max - (float)min) / 255.0f;
    double zero = scale == 0.0f ? 0.0 : quantise_value(-min / (double)scale, 0.0, 0.0, 255.0);
    *(float *)k->out[1].data = scale;
    *(uint8_t *)k->out[2].data = (uint8_t)zero;
    for (int64_t i = 0; i < total; i++) {
        double v = scale == 0.0f ? 0.0 : divide(load_one_f64(x->data, x->dtype, i), (double)scale, PEN_DTYPE_F32);
        ((uint8_t *)k->out[0].data)[i] = (uint8_t)quantise_value(v, zero, 0.0, 255.0);
    }
    return PEN_OK;
}
