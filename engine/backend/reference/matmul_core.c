#include "backend/reference/matmul_core.h"

#include <string.h>

#define MATMUL_ROWS 4 /* rows of a that share one conversion of a row of b */

/* sums[i][j] += a[i] * b[j] over one row of b. */
static void row_add(double sums[MATMUL_ROWS][ELEMENT_BLOCK], const double *a, int64_t rows, const double *b,
                    int64_t count)
{
    for (int64_t i = 0; i < rows; i++) {
        double f = a[i];
        for (int64_t j = 0; j < count; j++) {
            sums[i][j] += f * b[j];
        }
    }
}

static void block_run(const struct matmul *p, int64_t row, int64_t rows, int64_t first, int64_t count,
                      double sums[MATMUL_ROWS][ELEMENT_BLOCK])
{
    double b[ELEMENT_BLOCK], a[MATMUL_ROWS];
    memset(sums, 0, MATMUL_ROWS * sizeof sums[0]);
    for (int64_t x = 0; x < p->inner; x++) {
        load_f64(p->b.v->data, p->b.v->dtype, p->b.offset + x * p->b.row + first * p->b.column, p->b.column, count, b);
        load_f64(p->a.v->data, p->a.v->dtype, p->a.offset + row * p->a.row + x * p->a.column, p->a.row, rows, a);
        for (int64_t j = 0; j < count && p->b_zero != NULL; j++) {
            b[j] -= p->b_zero[first + j];
        }
        for (int64_t i = 0; i < rows && p->a_zero != NULL; i++) {
            a[i] -= p->a_zero[row + i];
        }
        row_add(sums, a, rows, b, count);
    }
}

enum pen_status matmul_run(struct kernel_call *k, const struct matmul *p, matmul_emit emit, void *context)
{
    double sums[MATMUL_ROWS][ELEMENT_BLOCK];
    for (int64_t first = 0; first < p->n; first += ELEMENT_BLOCK) {
        int64_t count = p->n - first < ELEMENT_BLOCK ? p->n - first : ELEMENT_BLOCK;
        enum pen_status status = kernel_cancelled(k);
        if (status != PEN_OK) {
            return status;
        }
        for (int64_t row = 0; row < p->m; row += MATMUL_ROWS) {
            int64_t rows = p->m - row < MATMUL_ROWS ? p->m - row : MATMUL_ROWS;
            block_run(p, row, rows, first, count, sums);
            for (int64_t i = 0; i < rows; i++) {
                emit(context, row + i, first, count, sums[i]);
            }
        }
    }
    return PEN_OK;
}

/* Strides of the batch dims of one side, aligned to the right with the broadcast batch. */
static void batch_strides(const struct shape *s, const struct shape *batch, int64_t matrix, int64_t *ret)
{
    int32_t own = s->rank - 2;
    int64_t stride = matrix;
    for (int32_t d = 0; d < batch->rank; d++) {
        ret[d] = 0;
    }
    for (int32_t d = own - 1; d >= 0; d--) {
        ret[batch->rank - own + d] = s->dim[d] == 1 ? 0 : stride;
        stride *= s->dim[d];
    }
}

enum pen_status matmul_shapes(struct kernel_call *k, const struct shape *a, const struct shape *b,
                              struct matmul_shapes *ret)
{
    struct shape x = *a, y = *b;
    bool a_vector = a->rank == 1, b_vector = b->rank == 1;
    char at[96], bt[96];
    if (a->rank < 1 || b->rank < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "scalars cannot be multiplied as matrices");
    }
    if (a_vector) { /* [K] -> [1, K] */
        x = shape_of(2, (const int64_t[]){1, a->dim[0]});
    }
    if (b_vector) { /* [K] -> [K, 1] */
        y = shape_of(2, (const int64_t[]){b->dim[0], 1});
    }
    struct shape xb = shape_of(x.rank - 2, x.dim), yb = shape_of(y.rank - 2, y.dim);
    *ret = (struct matmul_shapes){.m = x.dim[x.rank - 2], .inner = x.dim[x.rank - 1], .n = y.dim[y.rank - 1]};
    if (ret->inner != y.dim[y.rank - 2] || !shape_broadcast(&xb, &yb, &ret->batch)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%s times %s", shape_text(a, at, sizeof at), shape_text(b, bt, sizeof bt));
    }
    ret->batches = shape_elements(&ret->batch);
    ret->a_row = ret->inner;
    ret->a_column = ret->b_column = 1;
    ret->b_row = ret->n;
    batch_strides(&x, &ret->batch, ret->m * ret->inner, ret->a_stride);
    batch_strides(&y, &ret->batch, ret->inner * ret->n, ret->b_stride);
    ret->out = ret->batch;
    if (!a_vector) {
        ret->out.dim[ret->out.rank++] = ret->m;
    }
    if (!b_vector) {
        ret->out.dim[ret->out.rank++] = ret->n;
    }
    return PEN_OK;
}

void matmul_at(const struct matmul_shapes *s, int64_t index, int64_t *ret_a, int64_t *ret_b)
{
    *ret_a = *ret_b = 0;
    for (int32_t d = s->batch.rank - 1; d >= 0; d--) {
        int64_t i = index % s->batch.dim[d];
        index /= s->batch.dim[d];
        *ret_a += i * s->a_stride[d];
        *ret_b += i * s->b_stride[d];
    }
}
