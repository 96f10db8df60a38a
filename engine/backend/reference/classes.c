/* ClassScores, SVMClassifier, SVMRegressor (backend/scores.h, backend/svm.h), and OneHotEncoder. Source: ONNX-ML. */
#include <string.h>

#include "backend/reference/kernels.h"
#include "backend/scores.h"
#include "backend/svm.h"

static int64_t rows_of(const struct shape *s)
{
    return s->rank > 1 ? s->dim[0] : 1;
}

/* x as floats; its own memory where it is f32. */
static const float *floats_of(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t count = shape_elements(&x->shape);
    float *copy = x->dtype == PEN_DTYPE_F32 ? x->data : kernel_scratch(k, (size_t)count * sizeof *copy);
    for (int64_t i = 0; copy != NULL && copy != x->data && i < count; i++) {
        copy[i] = (float)load_one_f64(x->data, x->dtype, i);
    }
    return copy;
}

static enum pen_status put_classes(struct kernel_call *k, int64_t rows, size_t columns)
{
    struct shape index = shape_of(1, &rows), scores = shape_of(2, (const int64_t[]){rows, (int64_t)columns});
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &index);
    return status != PEN_OK ? status : kernel_output(k, 1, PEN_DTYPE_F32, &scores);
}

enum pen_status kernel_class_scores(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    struct class_scores c;
    int64_t columns = s->rank > 0 ? s->dim[s->rank - 1] : 0;
    const float *x = floats_of(k);
    class_scores_of(k->n, (size_t)columns, &c);
    if (x == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the scores");
    }
    if (!class_scores_fit(&c)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld scores a row do not suit %zu classes", (long long)columns,
                           c.classes);
    }
    enum pen_status status = put_classes(k, rows_of(s), c.classes);
    for (int64_t i = 0; status == PEN_OK && i < rows_of(s); i++) {
        ((int64_t *)k->out[0].data)[i] =
            class_scores_row(&c, x + i * columns, (float *)k->out[1].data + i * (int64_t)c.classes);
    }
    return status;
}

static enum pen_status svm_begin(struct kernel_call *k, struct svm *s, const float **ret_x)
{
    const struct shape *shape = &k->in[0].shape;
    const char *reason;
    if (shape->rank < 1 || shape->rank > 2 || !svm_of(k->n, (size_t)shape->dim[shape->rank - 1], s, &reason)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%s",
                           shape->rank < 1 || shape->rank > 2 ? "needs rows of features" : reason);
    }
    *ret_x = floats_of(k);
    return *ret_x != NULL ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the rows");
}

enum pen_status kernel_svm_classifier(struct kernel_call *k)
{
    struct svm s;
    const float *x = NULL;
    enum pen_status status = svm_begin(k, &s, &x);
    float *scratch = status == PEN_OK ? kernel_scratch(k, svm_scratch(&s) * sizeof *scratch) : NULL;
    if (status == PEN_OK && scratch == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %zu support vectors", s.vector_count);
    }
    int64_t rows = rows_of(&k->in[0].shape);
    status = status == PEN_OK ? put_classes(k, rows, svm_scores(&s)) : status;
    for (int64_t i = 0; status == PEN_OK && i < rows; i++) {
        ((int64_t *)k->out[0].data)[i] = svm_classify(&s, x + i * (int64_t)s.features,
                                                      (float *)k->out[1].data + i * (int64_t)svm_scores(&s), scratch);
        status = kernel_cancelled(k);
    }
    return status;
}

enum pen_status kernel_svm_regressor(struct kernel_call *k)
{
    struct svm s;
    const float *x = NULL;
    enum pen_status status = svm_begin(k, &s, &x);
    int64_t rows = rows_of(&k->in[0].shape);
    struct shape out = shape_of(2, (const int64_t[]){rows, 1});
    status = status == PEN_OK ? kernel_output(k, 0, PEN_DTYPE_F32, &out) : status;
    for (int64_t i = 0; status == PEN_OK && i < rows; i++) {
        ((float *)k->out[0].data)[i] = svm_regress(&s, x + i * (int64_t)s.features);
        status = kernel_cancelled(k);
    }
    return status;
}

/* The place of x[i] among the categories, -1 when it is none. */
static int64_t category_of(const struct rt_value *x, int64_t i, const struct attr *ints, const struct attr *texts)
{
    if (x->dtype != PEN_DTYPE_STRING) {
        int64_t v = load_one_i64(x->data, x->dtype, i);
        if (element_class(x->dtype) == ELEMENT_FLOAT) {
            v = i64_from_f64(load_one_f64(x->data, x->dtype, i));
        }
        for (uint32_t c = 0; ints != NULL && c < ints->count; c++) {
            if (ints->ints[c] == v) {
                return c;
            }
        }
        return -1;
    }
    const struct string_view *t = (const struct string_view *)x->data + i;
    for (uint32_t c = 0; texts != NULL && c < texts->count; c++) {
        if (texts->texts[c].bytes == t->bytes &&
            (t->bytes == 0 || memcmp(texts->texts[c].text, t->text, t->bytes) == 0)) {
            return c;
        }
    }
    return -1;
}

/* y[..., c] = x[...] is category c. Unknown ones are zeros, or an error where ATTR_zeros is 0. */
enum pen_status kernel_one_hot_encoder(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    const struct attr *ints = node_attr(k->n, ATTR_cats_int64s), *texts = node_attr(k->n, ATTR_cats_strings);
    struct shape out = x->shape;
    int64_t count =
        x->dtype == PEN_DTYPE_STRING ? (texts != NULL ? texts->count : 0) : (ints != NULL ? ints->count : 0);
    if (count == 0 || out.rank >= PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_INVALID, "has no categories of the input's type, or too many dimensions");
    }
    out.dim[out.rank++] = count;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_F32, &out);
    float *y = k->out[0].data;
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        int64_t c = category_of(x, i, ints, texts);
        memset(y + i * count, 0, (size_t)count * sizeof *y);
        if (c >= 0) {
            y[i * count + c] = 1.0f;
        } else if (node_int(k->n, ATTR_zeros, 1) == 0) {
            status = kernel_fail(k, PEN_ERR_INVALID, "element %lld is none of the %lld categories", (long long)i,
                                 (long long)count);
        }
    }
    return status;
}
