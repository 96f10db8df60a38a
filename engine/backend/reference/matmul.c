/* Matrix products: y[i, j] = sum over x of a[i, x] * b[x, j]. Source: ONNX MatMul, MatMulInteger, QLinearMatMul. */
#include "backend/reference/matmul_core.h"

#include "backend/reference/activation.h"
#include "backend/reference/quantise.h"

struct matmul_store {
    struct rt_value *y;
    int64_t offset, n;
    struct activation_fused act;
};

static void store_emit(void *context, int64_t row, int64_t first, int64_t count, double *sums)
{
    struct matmul_store *c = context;
    activation_apply(&c->act, sums, count);
    store_f64(c->y->data, c->y->dtype, c->offset + row * c->n + first, 1, count, sums);
}

/* Integers wider than 16 bits: exact modulo 2^64. */
static void integer_batch(const struct matmul *p, struct matmul_store *c)
{
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            uint64_t sum = 0;
            for (int64_t x = 0; x < p->inner; x++) {
                int64_t a = load_one_i64(p->a.v->data, p->a.v->dtype, p->a.offset + i * p->a.row + x * p->a.column);
                int64_t b = load_one_i64(p->b.v->data, p->b.v->dtype, p->b.offset + x * p->b.row + j * p->b.column);
                sum += (uint64_t)a * (uint64_t)b;
            }
            store_one_i64(c->y->data, c->y->dtype, c->offset + i * p->n + j, (int64_t)sum);
        }
    }
}

static struct matmul problem_of(const struct kernel_call *k, const struct matmul_shapes *s, uint32_t a, uint32_t b)
{
    return (struct matmul){.a = {.v = &k->in[a], .row = s->a_row, .column = s->a_column},
                           .b = {.v = &k->in[b], .row = s->b_row, .column = s->b_column},
                           .m = s->m,
                           .n = s->n,
                           .inner = s->inner};
}

enum pen_status kernel_matmul(struct kernel_call *k)
{
    struct matmul_shapes s;
    bool floats = element_class(k->in[0].dtype) == ELEMENT_FLOAT;
    enum pen_status status = matmul_shapes(k, &k->in[0].shape, &k->in[1].shape, &s);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &s.out);
    }
    for (int64_t i = 0; status == PEN_OK && i < s.batches; i++) {
        struct matmul p = problem_of(k, &s, 0, 1);
        struct matmul_store c = {.y = &k->out[0], .offset = i * s.m * s.n, .n = s.n, .act = activation_of(k->n)};
        matmul_at(&s, i, &p.a.offset, &p.b.offset);
        if (floats) {
            status = matmul_run(k, &p, store_emit, &c);
        } else {
            integer_batch(&p, &c);
        }
    }
    return status;
}

/* Per-row or per-column values of batch `batch` from a scalar, a vector of `count`, or one such vector per batch. */
static enum pen_status vector_load(struct kernel_call *k, uint32_t index, int64_t batch, int64_t count, double def,
                                   double *ret)
{
    const struct rt_value *v = &k->in[index];
    int64_t have = kernel_has(k, index) ? shape_elements(&v->shape) : 0;
    if (have > 1 && (count == 0 || have % count != 0)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "input %u has %lld elements for %lld rows or columns", index,
                           (long long)have, (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = have <= 1 ? 0 : (batch * count + i) % have;
        ret[i] = have == 0 ? def : load_one_f64(v->data, v->dtype, at);
    }
    return PEN_OK;
}

struct vectors {
    double *a_zero, *b_zero, *a_scale, *b_scale; /* [m], [n], [m], [n] */
};

static enum pen_status vectors_new(struct kernel_call *k, const struct matmul_shapes *s, struct vectors *ret)
{
    size_t m = (size_t)s->m * sizeof(double), n = (size_t)s->n * sizeof(double);
    *ret = (struct vectors){kernel_scratch(k, m), kernel_scratch(k, n), kernel_scratch(k, m), kernel_scratch(k, n)};
    bool ok = ret->a_zero != NULL && ret->b_zero != NULL && ret->a_scale != NULL && ret->b_scale != NULL;
    return ok ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for zero points");
}

enum pen_status kernel_matmul_integer(struct kernel_call *k)
{
    struct matmul_shapes s;
    struct vectors v;
    enum pen_status status = matmul_shapes(k, &k->in[0].shape, &k->in[1].shape, &s);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, PEN_DTYPE_I32, &s.out);
    }
    if (status == PEN_OK) {
        status = vectors_new(k, &s, &v);
    }
    for (int64_t i = 0; status == PEN_OK && i < s.batches; i++) {
        struct matmul p = problem_of(k, &s, 0, 1);
        struct matmul_store c = {.y = &k->out[0], .offset = i * s.m * s.n, .n = s.n, .act = {.kind = ACT_NONE}};
        matmul_at(&s, i, &p.a.offset, &p.b.offset);
        status = vector_load(k, 2, i, s.m, 0.0, v.a_zero);
        if (status == PEN_OK) {
            status = vector_load(k, 3, i, s.n, 0.0, v.b_zero);
        }
        p.a_zero = v.a_zero;
        p.b_zero = v.b_zero;
        if (status == PEN_OK) {
            status = matmul_run(k, &p, store_emit, &c);
        }
    }
    return status;
}

struct requantise {
    struct rt_value *y;
    int64_t offset, n;
    const double *a_scale, *b_scale;
    double y_scale, zero, low, high;
};

/* y = saturate(round(sum * a_scale * b_scale / y_scale) + y_zero) */
static void requantise_emit(void *context, int64_t row, int64_t first, int64_t count, double *sums)
{
    struct requantise *c = context;
    for (int64_t j = 0; j < count; j++) {
        float scale = (float)c->a_scale[row] * (float)c->b_scale[first + j] / (float)c->y_scale;
        sums[j] = quantise_value(requantise_product(sums[j], (double)scale), c->zero, c->low, c->high);
    }
    store_f64(c->y->data, c->y->dtype, c->offset + row * c->n + first, 1, count, sums);
}

static enum pen_status qlinear_batch(struct kernel_call *k, const struct matmul_shapes *s, const struct vectors *v,
                                     int64_t i, struct requantise *c)
{
    struct matmul p = problem_of(k, s, 0, 3);
    const struct {
        uint32_t input;
        int64_t count;
        double *to;
    } loads[] = {{1, s->m, v->a_scale}, {2, s->m, v->a_zero}, {4, s->n, v->b_scale}, {5, s->n, v->b_zero}};
    matmul_at(s, i, &p.a.offset, &p.b.offset);
    p.a_zero = v->a_zero;
    p.b_zero = v->b_zero;
    for (size_t j = 0; j < 4; j++) {
        enum pen_status status = vector_load(k, loads[j].input, i, loads[j].count, 0.0, loads[j].to);
        if (status != PEN_OK) {
            return status;
        }
    }
    c->offset = i * s->m * s->n;
    return matmul_run(k, &p, requantise_emit, c);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
enum pen_status kernel_qlinear_matmul(struct kernel_call *k)
{
    struct matmul_shapes s;
    struct vectors v;
    enum pen_dtype dtype = k->in[7].dtype;
    enum pen_status status = matmul_shapes(k, &k->in[0].shape, &k->in[3].shape, &s);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, dtype, &s.out);
    }
    if (status == PEN_OK) {
        status = vectors_new(k, &s, &v);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct requantise c = {.y = &k->out[0],
                           .n = s.n,
                           .a_scale = v.a_scale,
                           .b_scale = v.b_scale,
                           .y_scale = kernel_scalar(k, 6, 1.0),
                           .zero = kernel_scalar(k, 7, 0.0)};
    quantise_range(dtype, &c.low, &c.high);
    for (int64_t i = 0; status == PEN_OK && i < s.batches; i++) {
        status = qlinear_batch(k, &s, &v, i, &c);
    }
    return status;
}
