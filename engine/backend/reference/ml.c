/* Operators of ai.onnx.ml on tables of features. Source: ONNX-ML ArrayFeatureExtractor, Binarizer, Imputer, Normalizer, Scaler. */
#include "backend/reference/raw.h"

#include <math.h>
#include <string.h>

/* Columns of the last dim, picked by index. */
enum pen_status kernel_array_feature_extractor(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    int64_t count = shape_elements(&k->in[1].shape), width = s->rank > 0 ? s->dim[s->rank - 1] : 0;
    struct shape out = s->rank > 1 ? *s : shape_of(2, (const int64_t[]){1, 0});
    struct raw x, y;
    if (s->rank < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs features");
    }
    out.dim[out.rank - 1] = count;
    enum pen_status status = raw_in(k, 0, &x);
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    for (int64_t i = 0; status == PEN_OK && i < y.count; i++) {
        int64_t column = load_one_i64(k->in[1].data, k->in[1].dtype, i % count);
        if (column < 0 || column >= width) {
            return kernel_fail(k, PEN_ERR_INVALID, "column %lld of %lld", (long long)column, (long long)width);
        }
        memcpy(y.data + (size_t)i * y.size, x.data + (size_t)(i / count * width + column) * y.size, y.size);
    }
    if (status == PEN_OK) {
        raw_done(k, 0, &y);
    }
    return status;
}

/* 1 above the threshold, else 0 */
enum pen_status kernel_binarizer(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    double threshold = (double)node_float(k->n, ATTR_threshold, 0.0f);
    enum pen_status status = kernel_output_like(k, 0, 0);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        store_one_f64(k->out[0].data, x->dtype, i, load_one_f64(x->data, x->dtype, i) > threshold ? 1.0 : 0.0);
    }
    return status;
}

/* Item i of a float list that may hold one value for all; `def` when the list is absent. */
static double list_at(const struct attr *a, int64_t i, double def)
{
    if (a == NULL || a->count == 0) {
        return def;
    }
    return (double)a->floats[a->count == 1 ? 0 : (uint32_t)i % a->count];
}

/* y = (x - offset) * scale per feature */
enum pen_status kernel_scaler(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    const struct attr *offset = node_attr(k->n, ATTR_offset), *scale = node_attr(k->n, ATTR_scale);
    int64_t width = x->shape.rank > 0 ? x->shape.dim[x->shape.rank - 1] : 1;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_F32, &x->shape);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        double v =
            (load_one_f64(x->data, x->dtype, i) - list_at(offset, i % width, 0.0)) * list_at(scale, i % width, 1.0);
        store_one_f64(k->out[0].data, PEN_DTYPE_F32, i, v);
    }
    return status;
}

/* Rows divided by their largest element (signed, as onnxruntime has it), sum of magnitudes or Euclidean length; rows where that is 0 stay. */
enum pen_status kernel_normalizer(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    bool l1 = node_text_is(k->n, ATTR_norm, "L1", false), l2 = node_text_is(k->n, ATTR_norm, "L2", false);
    int64_t width = x->shape.rank > 0 ? x->shape.dim[x->shape.rank - 1] : 1;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_F32, &x->shape);
    for (int64_t row = 0; status == PEN_OK && width > 0 && row < shape_elements(&x->shape) / width; row++) {
        double norm = 0.0;
        for (int64_t i = 0; i < width; i++) {
            double v = load_one_f64(x->data, x->dtype, row * width + i);
            norm = l1 ? norm + fabs(v) : l2 ? norm + v * v : i == 0 || v > norm ? v : norm;
        }
        norm = l2 ? sqrt(norm) : norm;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            store_one_f64(k->out[0].data, PEN_DTYPE_F32, i,
                          load_one_f64(x->data, x->dtype, i) / (norm == 0.0 ? 1.0 : norm));
        }
    }
    return status;
}

/* Replaces one value (or NaN) per feature. */
enum pen_status kernel_imputer(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    uint32_t count = 0;
    const struct attr *floats = node_attr(k->n, ATTR_imputed_value_floats);
    const int64_t *ints = node_ints(k->n, ATTR_imputed_value_int64s, &count);
    bool integers = element_class(x->dtype) != ELEMENT_FLOAT;
    double missing = (double)node_float(k->n, ATTR_replaced_value_float, 0.0f);
    int64_t missing_i = node_int(k->n, ATTR_replaced_value_int64, 0);
    int64_t width = x->shape.rank > 0 ? x->shape.dim[x->shape.rank - 1] : 1;
    enum pen_status status =
        integers && count == 0 ? kernel_fail(k, PEN_ERR_INVALID, "no values to put in") : kernel_output_like(k, 0, 0);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        if (integers) {
            int64_t v = load_one_i64(x->data, x->dtype, i);
            store_one_i64(k->out[0].data, x->dtype, i,
                          v == missing_i ? ints[count == 1 ? 0 : (uint32_t)(i % width) % count] : v);
        } else {
            double v = load_one_f64(x->data, x->dtype, i);
            bool hit = isnan(missing) ? isnan(v) : v == missing;
            store_one_f64(k->out[0].data, x->dtype, i, hit ? list_at(floats, i % width, 0.0) : v);
        }
    }
    return status;
}
