/* Determinant and inverse of the last two dims: Gaussian elimination with partial pivoting. Sources: ONNX Det; Inverse of com.microsoft. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

static double determinant(double *a, int64_t n)
{
    double det = 1.0;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++) {
            pivot = fabs(a[r * n + c]) > fabs(a[pivot * n + c]) ? r : pivot;
        }
        double p = a[pivot * n + c];
        if (p == 0.0) {
            return 0.0;
        }
        for (int64_t i = 0; i < n && pivot != c; i++) {
            double t = a[c * n + i];
            a[c * n + i] = a[pivot * n + i];
            a[pivot * n + i] = t;
        }
        det *= pivot != c ? -p : p;
        for (int64_t r = c + 1; r < n; r++) {
            double f = a[r * n + c] / p;
            for (int64_t i = c; i < n; i++) {
                a[r * n + i] -= f * a[c * n + i];
            }
        }
    }
    return det;
}

enum pen_status kernel_det(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int32_t rank = x->shape.rank;
    if (rank < 2 || x->shape.dim[rank - 1] != x->shape.dim[rank - 2]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs square matrices");
    }
    int64_t n = x->shape.dim[rank - 1];
    struct shape out = shape_of(rank - 2, x->shape.dim);
    double *a = kernel_scratch(k, (size_t)(n * n) * sizeof *a);
    enum pen_status status = kernel_output(k, 0, x->dtype, &out);
    if (status == PEN_OK && a == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a matrix of %lld", (long long)n);
    }
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&out); i++) {
        load_f64(x->data, x->dtype, i * n * n, 1, n * n, a);
        store_one_f64(k->out[0].data, x->dtype, i, determinant(a, n));
    }
    return status;
}

/* Rows c and p of both matrices change places. */
static void rows_swap(double *a, double *b, int64_t n, int64_t c, int64_t p)
{
    for (int64_t i = 0; i < n && c != p; i++) {
        double t = a[c * n + i], u = b[c * n + i];
        a[c * n + i] = a[p * n + i];
        b[c * n + i] = b[p * n + i];
        a[p * n + i] = t;
        b[p * n + i] = u;
    }
}

/* b = a^-1 (Gauss-Jordan); a is lost. False for a singular matrix. */
static bool invert(double *a, double *b, int64_t n)
{
    memset(b, 0, (size_t)(n * n) * sizeof *b);
    for (int64_t i = 0; i < n; i++) {
        b[i * n + i] = 1.0;
    }
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++) {
            pivot = fabs(a[r * n + c]) > fabs(a[pivot * n + c]) ? r : pivot;
        }
        rows_swap(a, b, n, c, pivot);
        double p = a[c * n + c];
        if (p == 0.0) {
            return false;
        }
        for (int64_t i = 0; i < n; i++) {
            a[c * n + i] /= p;
            b[c * n + i] /= p;
        }
        for (int64_t r = 0; r < n; r++) {
            double f = r == c ? 0.0 : a[r * n + c];
            for (int64_t i = 0; i < n && f != 0.0; i++) {
                a[r * n + i] -= f * a[c * n + i];
                b[r * n + i] -= f * b[c * n + i];
            }
        }
    }
    return true;
}

enum pen_status kernel_inverse(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int32_t rank = x->shape.rank;
    if (rank < 2 || x->shape.dim[rank - 1] != x->shape.dim[rank - 2]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs square matrices");
    }
    int64_t n = x->shape.dim[rank - 1], count = n > 0 ? shape_elements(&x->shape) / (n * n) : 0;
    double *a = kernel_scratch(k, 2 * (size_t)(n * n) * sizeof *a);
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status == PEN_OK && a == NULL) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a matrix of %lld", (long long)n);
    }
    for (int64_t i = 0; status == PEN_OK && i < count; i++) {
        load_f64(x->data, x->dtype, i * n * n, 1, n * n, a);
        if (!invert(a, a + n * n, n)) {
            return kernel_fail(k, PEN_ERR_INVALID, "matrix %lld is singular", (long long)i);
        }
        store_f64(k->out[0].data, x->dtype, i * n * n, 1, n * n, a + n * n);
        status = kernel_cancelled(k);
    }
    return status;
}
