/* Operators about shapes: views of the same bytes, Shape, Size, and makers of tensors from a shape. Source: ONNX. */
#include "backend/reference/raw.h"

#include <string.h>

/* Same bytes, new shape (and, for BitCast, new dtype). */
static enum pen_status view(struct kernel_call *k, enum pen_dtype dtype, const struct shape *shape)
{
    const struct rt_value *x = &k->in[0];
    enum pen_status status = kernel_output(k, 0, dtype, shape);
    if (status == PEN_OK && k->out[0].data != x->data) {
        size_t bytes = k->out[0].bytes < x->bytes ? k->out[0].bytes : x->bytes;
        if (bytes > 0) {
            memcpy(k->out[0].data, x->data, bytes);
        }
    }
    return status;
}

enum pen_status kernel_identity(struct kernel_call *k)
{
    if (k->in[0].kind != VALUE_TENSOR) { /* sequences and optionals share their items */
        k->out[0] = k->in[0];
        return PEN_OK;
    }
    return view(k, k->in[0].dtype, &k->in[0].shape);
}

/* 0 copies the input's dim (unless allowzero), -1 takes what is left. */
enum pen_status kernel_reshape(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    struct shape out = {.rank = 0};
    size_t count = 0;
    int32_t open = -1;
    int64_t known = 1, total = shape_elements(in);
    bool allow_zero = node_int(k->n, ATTR_allowzero, 0) != 0;
    enum pen_status status = kernel_ints(k, 1, out.dim, PEN_MAX_RANK, &count);
    if (status != PEN_OK) {
        return status;
    }
    out.rank = (int32_t)count;
    for (int32_t d = 0; d < out.rank; d++) {
        if (out.dim[d] == 0 && !allow_zero && d < in->rank) {
            out.dim[d] = in->dim[d];
        }
        if (out.dim[d] == -1 && open < 0) {
            open = d;
        } else if (out.dim[d] < 0 || __builtin_mul_overflow(known, out.dim[d], &known)) {
            return kernel_fail(k, PEN_ERR_SHAPE, "cannot reshape to dimension %lld", (long long)out.dim[d]);
        }
    }
    if (open >= 0) {
        out.dim[open] = known == 0 ? 0 : total / known;
        known *= out.dim[open];
    }
    if (known != total) {
        char a[96], b[96];
        return kernel_fail(k, PEN_ERR_SHAPE, "cannot reshape %s to %s", shape_text(in, a, sizeof a),
                           shape_text(&out, b, sizeof b));
    }
    return view(k, k->in[0].dtype, &out);
}

enum pen_status kernel_flatten(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int64_t axis = node_int(k->n, ATTR_axis, 1);
    axis = axis < 0 ? axis + in->rank : axis;
    if (axis < 0 || axis > in->rank) {
        return kernel_fail(k, PEN_ERR_INVALID, "axis %lld is outside rank %d", (long long)axis, in->rank);
    }
    struct shape out =
        shape_of(2, (const int64_t[]){dims_product(in, 0, (int32_t)axis), dims_product(in, (int32_t)axis, in->rank)});
    return view(k, k->in[0].dtype, &out);
}

enum pen_status kernel_squeeze(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    struct shape out = {.rank = 0};
    bool is_axis[PEN_MAX_RANK];
    bool given = kernel_has(k, 1);
    enum pen_status status = kernel_axes(k, 1, in->rank, false, is_axis);
    for (int32_t d = 0; d < in->rank && status == PEN_OK; d++) {
        bool drop = given ? is_axis[d] : in->dim[d] == 1;
        if (drop && in->dim[d] != 1) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "dimension %d is %lld, not 1", d, (long long)in->dim[d]);
        } else if (!drop) {
            out.dim[out.rank++] = in->dim[d];
        }
    }
    return status == PEN_OK ? view(k, k->in[0].dtype, &out) : status;
}

enum pen_status kernel_unsqueeze(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    bool is_axis[PEN_MAX_RANK];
    int64_t count = shape_elements(&k->in[1].shape);
    if (count < 0 || count + in->rank > PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "rank %lld is above %d", (long long)(count + in->rank),
                           PEN_MAX_RANK);
    }
    struct shape out = {.rank = in->rank + (int32_t)count};
    enum pen_status status = kernel_axes(k, 1, out.rank, false, is_axis);
    int32_t from = 0, ones = 0;
    for (int32_t d = 0; d < out.rank && status == PEN_OK; d++) {
        ones += is_axis[d];
    }
    if (status == PEN_OK && ones != count) {
        status = kernel_fail(k, PEN_ERR_INVALID, "an axis is named twice");
    }
    for (int32_t d = 0; d < out.rank && status == PEN_OK; d++) {
        out.dim[d] = is_axis[d] ? 1 : in->dim[from++];
    }
    return status == PEN_OK ? view(k, k->in[0].dtype, &out) : status;
}

/* The same bits as another dtype; a change of width scales the last dim. */
enum pen_status kernel_bitcast(struct kernel_call *k)
{
    enum pen_dtype to = (enum pen_dtype)node_int(k->n, ATTR_to, PEN_DTYPE_NONE);
    struct shape out = k->in[0].shape;
    unsigned from_bits = pen_dtype_bits(k->in[0].dtype), to_bits = pen_dtype_bits(to);
    if (from_bits == 0 || to_bits == 0 || from_bits != to_bits) {
        return kernel_fail(k, PEN_ERR_DTYPE, "from %s to %s", pen_dtype_name(k->in[0].dtype), pen_dtype_name(to));
    }
    return view(k, to, &out);
}

/* dims [start, end) as INT64 */
enum pen_status kernel_shape(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int64_t start = node_int(k->n, ATTR_start, 0), end = node_int(k->n, ATTR_end, in->rank);
    start = start < 0 ? start + in->rank : start;
    end = end < 0 ? end + in->rank : end;
    start = start < 0 ? 0 : start > in->rank ? in->rank : start;
    end = end < start ? start : end > in->rank ? in->rank : end;
    struct shape out = shape_of(1, (const int64_t[]){end - start});
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &out);
    if (status == PEN_OK && end > start) {
        memcpy(k->out[0].data, in->dim + start, (size_t)(end - start) * sizeof in->dim[0]);
    }
    return status;
}

enum pen_status kernel_size(struct kernel_call *k)
{
    struct shape scalar = shape_scalar();
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &scalar);
    if (status == PEN_OK) {
        *(int64_t *)k->out[0].data = shape_elements(&k->in[0].shape);
    }
    return status;
}

/* The value of an attribute holding a tensor, NULL when absent. */
static const struct value *attr_tensor(const struct kernel_call *k, enum attr_key key)
{
    const struct attr *a = node_attr(k->n, key);
    return a != NULL && a->type == ATTR_TENSOR && a->value < k->g->value_count ? &k->g->values[a->value] : NULL;
}

enum pen_status kernel_constant(struct kernel_call *k)
{
    const struct value *v = attr_tensor(k, ATTR_value);
    if (v == NULL || v->data == NULL) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "a constant without a tensor");
    }
    enum pen_status status = kernel_output(k, 0, v->dtype, &v->shape);
    if (status == PEN_OK && v->bytes > 0) {
        memcpy(k->out[0].data, v->data, v->bytes < k->out[0].bytes ? v->bytes : k->out[0].bytes);
    }
    return status;
}

/* Fills a new tensor with one element; f32 zero when the node gives none. */
enum pen_status kernel_constant_of_shape(struct kernel_call *k)
{
    struct shape out = {.rank = 0};
    size_t count = 0;
    const struct value *v = attr_tensor(k, ATTR_value);
    enum pen_status status = kernel_ints(k, 0, out.dim, PEN_MAX_RANK, &count);
    out.rank = (int32_t)count;
    for (int32_t d = 0; d < out.rank && status == PEN_OK; d++) {
        if (out.dim[d] < 0) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "dimension %lld", (long long)out.dim[d]);
        }
    }
    if (status == PEN_OK) {
        status = kernel_output(k, 0, v != NULL ? v->dtype : PEN_DTYPE_F32, &out);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t total = shape_elements(&out);
    if (v == NULL || v->data == NULL) {
        memset(k->out[0].data, 0, k->out[0].bytes);
        return PEN_OK;
    }
    size_t size = element_size(v->dtype);
    for (int64_t i = 0; i < total; i++) {
        if (element_packed(v->dtype)) {
            store_one_i64(k->out[0].data, v->dtype, i, load_one_i64(v->data, v->dtype, 0));
        } else {
            memcpy((uint8_t *)k->out[0].data + (size_t)i * size, v->data, size);
        }
    }
    return PEN_OK;
}

/* Element i of floats. Those of 32 bits are rounded twice, as runtimes have them: -3 + 5 * 0.6f is 0. */
static double range_at(enum pen_dtype dtype, double start, double delta, int64_t i)
{
    const double step = (double)i * delta;
    return start + (dtype == PEN_DTYPE_F32 ? (double)(float)step : step);
}

/* start, start + delta, ... up to and without limit */
enum pen_status kernel_range(struct kernel_call *k)
{
    const struct rt_value *in = k->in;
    enum pen_dtype dtype = in[0].dtype;
    bool floats = element_class(dtype) == ELEMENT_FLOAT;
    double start = load_one_f64(in[0].data, dtype, 0), limit = load_one_f64(in[1].data, dtype, 0);
    double delta = load_one_f64(in[2].data, dtype, 0);
    if (delta == 0.0) {
        return kernel_fail(k, PEN_ERR_INVALID, "delta is 0");
    }
    double steps = (limit - start) / delta;
    int64_t count = steps > 0.0 ? i64_from_f64(steps) : 0;
    count += steps > 0.0 && (double)count < steps ? 1 : 0;
    struct shape out = shape_of(1, &count);
    enum pen_status status = kernel_output(k, 0, dtype, &out);
    for (int64_t i = 0; i < count && status == PEN_OK; i++) {
        if (floats) {
            store_one_f64(k->out[0].data, dtype, i, range_at(dtype, start, delta, i));
        } else {
            uint64_t v = (uint64_t)load_one_i64(in[0].data, dtype, 0) +
                         (uint64_t)i * (uint64_t)load_one_i64(in[2].data, dtype, 0);
            store_one_i64(k->out[0].data, dtype, i, (int64_t)v);
        }
    }
    return status;
}

/* Ones on the k-th diagonal. */
enum pen_status kernel_eye_like(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_dtype, k->in[0].dtype);
    int64_t diagonal = node_int(k->n, ATTR_k, 0);
    enum pen_status status = s->rank == 2 ? PEN_OK : kernel_fail(k, PEN_ERR_SHAPE, "needs rank 2");
    if (status == PEN_OK) {
        status = kernel_output(k, 0, dtype, s);
    }
    for (int64_t i = 0; status == PEN_OK && i < s->dim[0] * s->dim[1]; i++) {
        store_one_f64(k->out[0].data, dtype, i, i % s->dim[1] - i / s->dim[1] == diagonal ? 1.0 : 0.0);
    }
    return status;
}
