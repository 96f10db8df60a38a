/* General matrix product: y = act(alpha * a' * b' + beta * c), a' and b' possibly transposed, c broadcast to [m, n]. Source: ONNX Gemm. */
#include "backend/reference/matmul_core.h"

#include "backend/reference/activation.h"

struct gemm_store {
    struct rt_value *y;
    const struct rt_value *c; /* NULL when absent */
    int64_t n, c_row, c_column;
    double alpha, beta;
    struct activation_fused act;
};

static void gemm_emit(void *context, int64_t row, int64_t first, int64_t count, double *sums)
{
    struct gemm_store *s = context;
    double c[ELEMENT_BLOCK] = {0};
    if (s->c != NULL) {
        load_f64(s->c->data, s->c->dtype, row * s->c_row + first * s->c_column, s->c_column, count, c);
    }
    for (int64_t j = 0; j < count; j++) {
        sums[j] = s->alpha * sums[j] + s->beta * c[j];
    }
    activation_apply(&s->act, sums, count);
    store_f64(s->y->data, s->y->dtype, row * s->n + first, 1, count, sums);
}

/* Strides of c against [m, n]: 0 along what it repeats. */
static enum pen_status addend_init(struct kernel_call *k, int64_t m, int64_t n, struct gemm_store *s)
{
    if (!kernel_has(k, 2)) {
        return PEN_OK;
    }
    const struct shape *c = &k->in[2].shape;
    int64_t rows = c->rank == 2 ? c->dim[0] : 1;
    int64_t columns = c->rank >= 1 ? c->dim[c->rank - 1] : 1;
    if (c->rank > 2 || (rows != 1 && rows != m) || (columns != 1 && columns != n)) {
        char text[96];
        return kernel_fail(k, PEN_ERR_SHAPE, "c of shape %s does not broadcast to %lldx%lld",
                           shape_text(c, text, sizeof text), (long long)m, (long long)n);
    }
    s->c = &k->in[2];
    s->c_row = rows == 1 ? 0 : columns;
    s->c_column = columns == 1 ? 0 : 1;
    return PEN_OK;
}

enum pen_status kernel_gemm(struct kernel_call *k)
{
    const struct shape *a = &k->in[0].shape, *b = &k->in[1].shape;
    bool ta = node_int(k->n, ATTR_transA, 0) != 0, tb = node_int(k->n, ATTR_transB, 0) != 0;
    if (a->rank != 2 || b->rank != 2 || a->dim[ta ? 0 : 1] != b->dim[tb ? 1 : 0]) {
        char at[96], bt[96];
        return kernel_fail(k, PEN_ERR_SHAPE, "%s times %s", shape_text(a, at, sizeof at), shape_text(b, bt, sizeof bt));
    }
    struct matmul p = {.m = a->dim[ta ? 1 : 0], .inner = a->dim[ta ? 0 : 1], .n = b->dim[tb ? 0 : 1]};
    p.a = (struct matrix){.v = &k->in[0], .row = ta ? 1 : a->dim[1], .column = ta ? a->dim[1] : 1};
    p.b = (struct matrix){.v = &k->in[1], .row = tb ? 1 : b->dim[1], .column = tb ? b->dim[1] : 1};
    struct gemm_store s = {.y = &k->out[0],
                           .n = p.n,
                           .alpha = (double)node_float(k->n, ATTR_alpha, 1.0f),
                           .beta = (double)node_float(k->n, ATTR_beta, 1.0f),
                           .act = activation_of(k->n)};
    struct shape shape = shape_of(2, (const int64_t[]){p.m, p.n});
    enum pen_status status = kernel_output(k, 0, k->in[0].dtype, &shape);
    if (status == PEN_OK) {
        status = addend_init(k, p.m, p.n, &s);
    }
    return status == PEN_OK ? matmul_run(k, &p, gemm_emit, &s) : status;
}
