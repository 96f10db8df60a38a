/* TreeEnsemble: the forest walk that the fast backends run too (backend/forest_walk.h), on rows of any numeric type. Source: ONNX-ML. */
#include "backend/forest_walk.h"
#include "backend/reference/kernels.h"
#include "backend/scores.h"

/* x as the type that the forest compares: float, or double. */
static const void *rows_of(struct kernel_call *k, bool wide)
{
    const struct rt_value *x = &k->in[0];
    int64_t count = shape_elements(&x->shape);
    if (x->dtype == (wide ? PEN_DTYPE_F64 : PEN_DTYPE_F32)) {
        return x->data;
    }
    void *copy = kernel_scratch(k, (size_t)count * (wide ? sizeof(double) : sizeof(float)));
    for (int64_t i = 0; copy != NULL && i < count; i++) {
        store_one_f64(copy, wide ? PEN_DTYPE_F64 : PEN_DTYPE_F32, i, load_one_f64(x->data, x->dtype, i));
    }
    return copy;
}

/* Regressors of several targets have a transform per row, computed in float. */
static enum pen_status transform(struct kernel_call *k, void *y, enum pen_dtype dtype, size_t rows, size_t targets)
{
    enum post_transform t = post_transform_of(k->n);
    float *row = t != POST_NONE ? kernel_scratch(k, targets * sizeof *row) : NULL;
    if (row == NULL) {
        return t == POST_NONE ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %zu targets", targets);
    }
    for (size_t i = 0; i < rows * targets; i++) {
        row[i % targets] = (float)load_one_f64(y, dtype, (int64_t)i);
        if (i % targets + 1 < targets) {
            continue;
        }
        post_transform_row(t, row, targets);
        for (size_t j = 0; j < targets; j++) {
            store_one_f64(y, dtype, (int64_t)(i + 1 - targets + j), (double)row[j]);
        }
    }
    return PEN_OK;
}

enum pen_status kernel_tree_ensemble(struct kernel_call *k)
{
    struct forest_call c;
    const char *reason;
    if (!forest_call_of(k->n, k->in[1].data, k->in[1].bytes, &k->in[0].shape, &c, &reason)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%s", reason);
    }
    bool wide_out = k->in[0].dtype == PEN_DTYPE_F64, wide = c.f->wide != 0;
    struct shape out = shape_of(2, (const int64_t[]){(int64_t)c.rows, c.f->targets});
    enum pen_status status = kernel_output(k, 0, wide_out ? PEN_DTYPE_F64 : PEN_DTYPE_F32, &out);
    if (status != PEN_OK) {
        return status;
    }
    size_t count = c.rows * c.f->targets;
    c.x = rows_of(k, wide);
    c.y = wide == wide_out ? k->out[0].data : kernel_scratch(k, count * (wide ? sizeof(double) : sizeof(float)));
    if (c.x == NULL || c.y == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %zu rows", c.rows);
    }
    for (size_t from = 0; status == PEN_OK && from < c.rows; from += FOREST_ROWS) {
        forest_rows(&c, from, c.rows - from < FOREST_ROWS ? c.rows - from : FOREST_ROWS);
        status = kernel_cancelled(k);
    }
    for (size_t i = 0; wide != wide_out && i < count; i++) {
        store_one_f64(k->out[0].data, k->out[0].dtype, (int64_t)i,
                      load_one_f64(c.y, wide ? PEN_DTYPE_F64 : PEN_DTYPE_F32, (int64_t)i));
    }
    return status == PEN_OK ? transform(k, k->out[0].data, k->out[0].dtype, c.rows, c.f->targets) : status;
}
