#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/* Gemm: y[m, n] = act(alpha a[m, k] b[k, n] + beta c), a and b possibly transposed, c broadcast. Constant b (and a bias-like c) is packed once. */
struct gemm {
    struct dense d;
    struct act act;
    const struct dense_weights *packed; /* NULL: b is packed on every run */
    bool trans_a, trans_b;
    float alpha, beta;
    bool add;                            /* c is added as a matrix, not as a bias */
    size_t c_row, c_col;                 /* steps of c: 0 = broadcast */
    size_t panels_at, turned_at, sum_at; /* offsets into scratch */
};

/* c as a bias: one value per column, or one value. */
static bool bias_like(const struct shape *c, int64_t n)
{
    int64_t count = shape_elements(c);
    return shape_known(c) && (count == 1 || (count == n && c->rank >= 1 && c->dim[c->rank - 1] == n));
}

static bool gemm_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    return (node_in(g, n, 0)->shape.rank == 2 && node_in(g, n, 1)->shape.rank == 2) ||
           refuse(ret_reason, "not two matrices");
}

static bool packs(const struct value *b, const struct value *c)
{
    return b->data != NULL && shape_known(&b->shape) && shape_elements(&b->shape) > 0 && (c == NULL || c->data != NULL);
}

static enum pen_status gemm_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    const struct value *b = node_in(g, n, 1), *c = node_in(g, n, 2);
    bool trans = node_int(n, ATTR_transB, 0) != 0;
    size_t rows = (size_t)b->shape.dim[0], cols = (size_t)b->shape.dim[1];
    size_t depth = trans ? cols : rows, width = trans ? rows : cols;
    if (!packs(b, NULL)) {
        return PEN_OK;
    }
    bool fold = c != NULL && c->data != NULL && bias_like(&c->shape, (int64_t)width);
    float alpha = node_float(n, ATTR_alpha, 1.0f), beta = node_float(n, ATTR_beta, 1.0f);
    float *bias = fold ? malloc(width * sizeof *bias) : NULL;
    struct dense_weights *p = packed_alloc(dense_weights_bytes(depth, width));
    if (p == NULL || (fold && bias == NULL)) {
        free(p);
        free(bias);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
    }
    for (size_t i = 0; i < width && fold; i++) {
        bias[i] = beta * ((const float *)c->data)[shape_elements(&c->shape) == 1 ? 0 : i];
    }
    dense_pack(p, b->data, trans ? 1 : cols, trans ? cols : 1, bias, depth, width);
    for (size_t i = 0; i < dense_packed_floats(depth, width) && alpha != 1.0f; i++) {
        p->data[i] *= alpha;
    }
    free(bias);
    *ret_packed = p;
    *ret_bytes = dense_weights_bytes(depth, width);
    return PEN_OK;
}

/* beta c over [m, n], into scratch. */
static void sum_make(const struct gemm *q, const float *c, float *sum)
{
    for (size_t r = 0; r < q->d.m; r++) {
        for (size_t i = 0; i < q->d.n; i++) {
            sum[r * q->d.n + i] = q->beta * c[r * q->c_row + i * q->c_col];
        }
    }
}

static enum pen_status gemm_run(struct step *s, struct run *r)
{
    const struct gemm *q = s->state;
    uint8_t *scratch = s->scratch;
    struct dense_item item = {.x = s->in[0], .y = s->out[0]};
    if (q->packed != NULL) {
        item.panels = q->packed->data;
        item.bias = dense_bias(q->packed);
    } else {
        float *panels = (float *)(void *)(scratch + q->panels_at);
        dense_pack_into(panels, s->in[1], q->trans_b ? 1 : q->d.n, q->trans_b ? q->d.k : 1, q->d.k, q->d.n);
        for (size_t i = 0; i < dense_packed_floats(q->d.k, q->d.n) && q->alpha != 1.0f; i++) {
            panels[i] *= q->alpha;
        }
        item.panels = panels;
    }
    if (q->trans_a) {
        isa_own()->transpose(s->in[0], q->d.m, (uint32_t *)(void *)(scratch + q->turned_at), q->d.k, q->d.k, q->d.m);
        item.x = (const float *)(void *)(scratch + q->turned_at);
    }
    if (q->add) {
        sum_make(q, s->in[2], (float *)(void *)(scratch + q->sum_at));
        item.sum = (const float *)(void *)(scratch + q->sum_at);
    }
    dense_run(&q->d, &item, 1, scratch, r);
    act_run(&q->act, s->out[0], q->d.m * q->d.n, r);
    return PEN_OK;
}

static bool sum_read(struct gemm *q, const struct shape *c)
{
    int64_t rows = c->rank >= 2 ? c->dim[c->rank - 2] : 1, cols = c->rank >= 1 ? c->dim[c->rank - 1] : 1;
    q->c_col = cols == 1 ? 0 : 1;
    q->c_row = rows == 1 ? 0 : (size_t)cols;
    return rows * cols == shape_elements(c) && (rows == 1 || rows == (int64_t)q->d.m) &&
           (cols == 1 || cols == (int64_t)q->d.n);
}

static size_t piece(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at += (bytes + 127) / 64 * 64;
    return here;
}

static enum pen_status gemm_build(struct build *b)
{
    const struct fact *a = build_in(b, 0), *w = build_in(b, 1), *c = build_in(b, 2);
    struct gemm *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->trans_a = node_int(b->n, ATTR_transA, 0) != 0;
    q->trans_b = node_int(b->n, ATTR_transB, 0) != 0;
    q->alpha = node_float(b->n, ATTR_alpha, 1.0f);
    q->beta = node_float(b->n, ATTR_beta, 1.0f);
    size_t m = (size_t)a->shape.dim[q->trans_a], k = (size_t)a->shape.dim[!q->trans_a],
           n = (size_t)w->shape.dim[!q->trans_b];
    if ((size_t)w->shape.dim[q->trans_b] != k || shape_elements(&build_out(b, 0)->shape) != (int64_t)(m * n)) {
        return build_fail(b, PEN_ERR_SHAPE, "the matrices do not fit each other");
    }
    dense_init_matrix(&q->d, m, k, n, k, build_threads(b));
    q->act = act_read(b->n);
    q->d.min = q->act.min;
    q->d.max = q->act.max;
    q->packed = b->packed;
    q->add = c != NULL && (q->packed == NULL || !q->packed->has_bias) && q->beta != 0.0f;
    if (q->add && !sum_read(q, &c->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "C does not broadcast to the result");
    }
    size_t at = dense_scratch_bytes(&q->d, build_threads(b));
    q->panels_at = piece(&at, q->packed == NULL ? dense_packed_floats(k, n) * sizeof(float) : 0);
    q->turned_at = piece(&at, q->trans_a ? m * k * sizeof(float) : 0);
    q->sum_at = piece(&at, q->add ? m * n * sizeof(float) : 0);
    b->step->scratch_bytes = at;
    b->step->state = q;
    b->step->run = gemm_run;
    b->step->kernel = q->packed != NULL ? "own gemm" : "own gemm, weights packed each run";
    b->step->why = q->packed != NULL ? "its weights are constant: packed at the load" : "its weights are computed";
    return PEN_OK;
}

const struct emitter emit_gemm = {gemm_supports, gemm_pack, gemm_build};
