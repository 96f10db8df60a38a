/*
 * matmul_core.h - the loop that MatMul, Gemm and their integer forms share: rows of a times columns of b, in double.
 *
 * Threads: any.
 */
#ifndef MATMUL_CORE_H
#define MATMUL_CORE_H

#include "backend/reference/kernels.h"

/* One matrix inside a tensor: element (i, j) is at offset + i * row + j * column. */
struct matrix {
    const struct rt_value *v;
    int64_t offset, row, column;
};

struct matmul {
    struct matrix a, b; /* [m, inner], [inner, n] */
    int64_t m, n, inner;
    const double *a_zero; /* [m] or NULL */
    const double *b_zero; /* [n] or NULL */
};

/* Receives sums of row `row`, columns first..first + count - 1 (count <= ELEMENT_BLOCK). */
typedef void (*matmul_emit)(void *context, int64_t row, int64_t first, int64_t count, double *sums);

enum pen_status matmul_run(struct kernel_call *k, const struct matmul *p, matmul_emit emit, void *context);

/* Shapes of NumPy's matmul: batch dims broadcast, vectors promoted. */
struct matmul_shapes {
    struct shape out;   /* as declared to the caller, promoted dims removed */
    struct shape batch; /* broadcast batch dims */
    int64_t batches, m, n, inner;
    int64_t a_stride[PEN_MAX_RANK], b_stride[PEN_MAX_RANK]; /* of the batch dims; 0 where they repeat */
    int64_t a_row, a_column, b_row, b_column;
};
enum pen_status matmul_shapes(struct kernel_call *k, const struct shape *a, const struct shape *b,
                              struct matmul_shapes *ret);
/* Sets the offsets of batch `index`. */
void matmul_at(const struct matmul_shapes *s, int64_t index, int64_t *ret_a, int64_t *ret_b);

#endif
