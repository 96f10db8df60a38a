/* Quantised matrix products and pools of com.microsoft: QGemm, MatMulNBits, QLinearAveragePool. Source: ONNX Runtime's contrib operator reference. */
#include "backend/reference/matmul_core.h"

#include <string.h>

#include "backend/reference/quantise.h"

struct qgemm {
    struct rt_value *y;
    int64_t n, c_row, c_column;
    const struct rt_value *c; /* INT32 with scale a_scale * b_scale, or NULL */
    double alpha, *scale;     /* scale: [n] a_scale * b_scale of the column */
    bool quantised;
    double y_scale, zero, low, high;
};

static void qgemm_emit(void *context, int64_t row, int64_t first, int64_t count, double *sums)
{
    struct qgemm *s = context;
    for (int64_t j = 0; j < count; j++) {
        double c =
            s->c != NULL ? load_one_f64(s->c->data, s->c->dtype, row * s->c_row + (first + j) * s->c_column) : 0.0;
        double real = (s->alpha * sums[j] + c) * s->scale[first + j];
        sums[j] = s->quantised ? quantise_value(real / s->y_scale, s->zero, s->low, s->high) : real;
    }
    store_f64(s->y->data, s->y->dtype, row * s->n + first, 1, count, sums);
}

/* One value per row or column from a scalar or a vector. */
static double *spread(struct kernel_call *k, uint32_t index, int64_t count, double def)
{
    double *to = kernel_scratch(k, (size_t)count * sizeof *to);
    int64_t have = kernel_has(k, index) ? shape_elements(&k->in[index].shape) : 0;
    for (int64_t i = 0; to != NULL && i < count; i++) {
        to[i] = have == 0 ? def : load_one_f64(k->in[index].data, k->in[index].dtype, have > 1 && i < have ? i : 0);
    }
    return to;
}

/* a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero: y = alpha * a' b' + c, then quantised when y_scale is given. */
enum pen_status kernel_qgemm(struct kernel_call *k)
{
    const struct shape *a = &k->in[0].shape, *b = &k->in[3].shape;
    bool ta = node_int(k->n, ATTR_transA, 0) != 0, tb = node_int(k->n, ATTR_transB, 0) != 0;
    if (a->rank != 2 || b->rank != 2 || a->dim[ta ? 0 : 1] != b->dim[tb ? 1 : 0]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the matrices do not fit");
    }
    struct matmul p = {.m = a->dim[ta ? 1 : 0], .inner = a->dim[ta ? 0 : 1], .n = b->dim[tb ? 0 : 1]};
    p.a = (struct matrix){.v = &k->in[0], .row = ta ? 1 : a->dim[1], .column = ta ? a->dim[1] : 1};
    p.b = (struct matrix){.v = &k->in[3], .row = tb ? 1 : b->dim[1], .column = tb ? b->dim[1] : 1};
    struct qgemm s = {
        .y = &k->out[0], .n = p.n, .alpha = (double)node_float(k->n, ATTR_alpha, 1.0f), .quantised = kernel_has(k, 7)};
    s.scale = spread(k, 4, p.n, 1.0);
    p.a_zero = spread(k, 2, p.m, 0.0);
    p.b_zero = spread(k, 5, p.n, 0.0);
    if (s.scale == NULL || p.a_zero == NULL || p.b_zero == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for scales");
    }
    for (int64_t j = 0; j < p.n; j++) {
        s.scale[j] *= kernel_scalar(k, 1, 1.0);
    }
    if (kernel_has(k, 6)) {
        const struct shape *c = &k->in[6].shape;
        int64_t columns = c->rank > 0 ? c->dim[c->rank - 1] : 1, rows = c->rank == 2 ? c->dim[0] : 1;
        if (c->rank > 2 || (columns != 1 && columns != p.n) || (rows != 1 && rows != p.m)) {
            return kernel_fail(k, PEN_ERR_SHAPE, "c does not fit");
        }
        s.c = &k->in[6];
        s.c_row = rows > 1 ? columns : 0;
        s.c_column = columns > 1 ? 1 : 0;
    }
    enum pen_dtype dtype = s.quantised ? k->in[0].dtype : PEN_DTYPE_F32;
    struct shape out = shape_of(2, (const int64_t[]){p.m, p.n});
    s.y_scale = kernel_scalar(k, 7, 1.0);
    s.zero = kernel_scalar(k, 8, 0.0);
    quantise_range(dtype, &s.low, &s.high);
    enum pen_status status = kernel_output(k, 0, dtype, &out);
    return status == PEN_OK ? matmul_run(k, &p, qgemm_emit, &s) : status;
}

struct nbits {
    int64_t k, n, bits, block, blocks;
    const uint8_t *codes; /* [n, blocks, block * bits / 8] */
    const struct rt_value *scale, *zero;
};

/* Weight (row, i) of the transposed matrix: (code - zero) * scale of its block. */
static double nbits_weight(const struct nbits *p, int64_t row, int64_t i)
{
    int64_t per_byte = 8 / p->bits, block = i / p->block, bytes = p->block / per_byte, at = i % p->block;
    unsigned mask = (1u << p->bits) - 1u;
    unsigned code =
        (unsigned)p->codes[(row * p->blocks + block) * bytes + at / per_byte] >> (unsigned)(at % per_byte * p->bits) &
        mask;
    double zero = (double)(1u << (p->bits - 1));
    if (p->zero != NULL && p->zero->dtype == PEN_DTYPE_U8) { /* packed like the codes, each row padded to whole bytes */
        int64_t row_bytes = (p->blocks + per_byte - 1) / per_byte;
        const uint8_t *packed = p->zero->data;
        zero = (double)((unsigned)packed[row * row_bytes + block / per_byte] >> (unsigned)(block % per_byte * p->bits) &
                        mask);
    } else if (p->zero != NULL) {
        zero = load_one_f64(p->zero->data, p->zero->dtype, row * p->blocks + block);
    }
    return ((double)code - zero) * load_one_f64(p->scale->data, p->scale->dtype, row * p->blocks + block);
}

static enum pen_status nbits_init(struct kernel_call *k, struct nbits *p)
{
    const struct shape *a = &k->in[0].shape;
    *p = (struct nbits){.k = node_int(k->n, ATTR_K, 0),
                        .n = node_int(k->n, ATTR_N, 0),
                        .bits = node_int(k->n, ATTR_bits, 4),
                        .block = node_int(k->n, ATTR_block_size, 0),
                        .codes = k->in[1].data,
                        .scale = &k->in[2],
                        .zero = kernel_has(k, 3) ? &k->in[3] : NULL};
    if (p->k < 1 || p->n < 1 || (p->bits != 2 && p->bits != 4 && p->bits != 8) || p->block < 16 || p->block % 8 != 0 ||
        a->rank < 1 || a->dim[a->rank - 1] != p->k || kernel_has(k, 4)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "%lld bits in blocks of %lld, or reordered groups",
                           (long long)p->bits, (long long)p->block);
    }
    p->blocks = (p->k + p->block - 1) / p->block;
    int64_t per_byte = 8 / p->bits, zeros = p->zero == NULL ? 0 : shape_elements(&p->zero->shape);
    int64_t zeros_least = p->zero == NULL                  ? 0
                          : p->zero->dtype == PEN_DTYPE_U8 ? p->n * ((p->blocks + per_byte - 1) / per_byte)
                                                           : p->n * p->blocks;
    if (k->in[1].dtype != PEN_DTYPE_U8 || shape_elements(&k->in[1].shape) != p->n * p->blocks * (p->block / per_byte) ||
        shape_elements(&p->scale->shape) != p->n * p->blocks || zeros < zeros_least ||
        (kernel_has(k, 5) && shape_elements(&k->in[5].shape) != p->n)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "weights, scales or zero points do not fit %lld x %lld", (long long)p->n,
                           (long long)p->k);
    }
    return PEN_OK;
}

/* y = a * w^T + bias; a [..., K], w [N, K] in blocks of few bits. */
enum pen_status kernel_matmul_nbits(struct kernel_call *k)
{
    struct nbits p;
    struct shape out = k->in[0].shape;
    double *a = NULL;
    enum pen_status status = nbits_init(k, &p);
    if (status == PEN_OK) {
        out.dim[out.rank - 1] = p.n;
        status = kernel_output(k, 0, k->in[0].dtype, &out);
    }
    if (status == PEN_OK) {
        status = kernel_doubles(k, 0, &a);
    }
    double *row = status == PEN_OK ? kernel_scratch(k, (size_t)p.k * sizeof *row) : NULL;
    if (row == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a row of weights");
    }
    int64_t rows = shape_elements(&k->in[0].shape) / p.k;
    for (int64_t j = 0; j < p.n && status == PEN_OK; j++) {
        double bias = kernel_has(k, 5) ? load_one_f64(k->in[5].data, k->in[5].dtype, j) : 0.0;
        for (int64_t i = 0; i < p.k; i++) {
            row[i] = nbits_weight(&p, j, i);
        }
        for (int64_t r = 0; r < rows; r++) {
            double sum = bias;
            for (int64_t i = 0; i < p.k; i++) {
                sum += a[r * p.k + i] * row[i];
            }
            store_one_f64(k->out[0].data, k->in[0].dtype, r * p.n + j, sum);
        }
        status = kernel_cancelled(k);
    }
    return status;
}

/* x, x_scale, x_zero, y_scale, y_zero: the pool of the real values, quantised again. */
enum pen_status kernel_qlinear_pool(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t total = shape_elements(&x->shape);
    double x_scale = kernel_scalar(k, 1, 1.0), x_zero = kernel_scalar(k, 2, 0.0), low, high;
    double y_scale = kernel_scalar(k, 3, 1.0), y_zero = kernel_scalar(k, 4, 0.0);
    struct rt_value real = {.dtype = PEN_DTYPE_F64, .shape = x->shape}, pooled = {.dtype = PEN_DTYPE_NONE};
    struct kernel_call inner = *k;
    real.data = kernel_scratch(k, (size_t)total * sizeof(double));
    if (real.data == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld values", (long long)total);
    }
    for (int64_t i = 0; i < total; i++) {
        ((double *)real.data)[i] = (load_one_f64(x->data, x->dtype, i) - x_zero) * x_scale;
    }
    inner.in = &real;
    inner.out = &pooled;
    enum pen_status status = kernel_pool(&inner);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, x->dtype, &pooled.shape);
    }
    quantise_range(x->dtype, &low, &high);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&pooled.shape); i++) {
        store_one_f64(k->out[0].data, x->dtype, i,
                      quantise_value(((double *)pooled.data)[i] / y_scale, y_zero, low, high));
    }
    return status;
}
