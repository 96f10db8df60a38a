#include <stdlib.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/* MatMul. A constant matrix on the right is packed once and all leading dims of the left become rows; otherwise a batch of products, packed on every run. */
struct matmul {
    struct dense d;
    struct act act;
    const struct dense_weights *packed;
    struct dense_item *items; /* [batch] */
    size_t *a_at, *b_at;      /* [batch]: which matrix of a and of b */
    size_t batch, b_count;    /* products; different matrices of b */
    size_t scratch_panels;
};

static bool matmul_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    return (node_in(g, n, 0)->shape.rank >= 1 && node_in(g, n, 1)->shape.rank >= 1) ||
           refuse(ret_reason, "unknown rank");
}

static enum pen_status matmul_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                   struct pen_error *reterr)
{
    const struct value *b = node_in(g, n, 1);
    if (b->data == NULL || b->shape.rank != 2 || shape_elements(&b->shape) <= 0) {
        return PEN_OK;
    }
    size_t k = (size_t)b->shape.dim[0], cols = (size_t)b->shape.dim[1];
    struct dense_weights *p = packed_alloc(dense_weights_bytes(k, cols));
    if (p == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
    }
    dense_pack(p, b->data, cols, 1, NULL, k, cols);
    *ret_packed = p;
    *ret_bytes = dense_weights_bytes(k, cols);
    return PEN_OK;
}

struct pack_job {
    const struct matmul *q;
    const float *b;
    float *panels;
};

static void pack_task(void *context, size_t unit)
{
    const struct pack_job *j = context;
    const struct dense *d = &j->q->d;
    dense_pack_into(j->panels + unit * dense_packed_floats(d->k, d->n), j->b + unit * d->k * d->n, d->n, 1, d->k, d->n);
}

static enum pen_status matmul_run(struct step *s, struct run *r)
{
    struct matmul *q = s->state;
    const struct dense *d = &q->d;
    const float *panels = q->packed != NULL ? q->packed->data : NULL;
    if (panels == NULL) {
        struct pack_job j = {q, s->in[1], (float *)(void *)((uint8_t *)s->scratch + q->scratch_panels)};
        parallel(r, pack_task, &j, q->b_count);
        panels = j.panels;
    }
    for (size_t i = 0; i < q->batch; i++) {
        q->items[i] = (struct dense_item){.x = (const float *)s->in[0] + q->a_at[i] * d->m * d->k,
                                          .panels = panels + q->b_at[i] * dense_packed_floats(d->k, d->n),
                                          .y = (float *)s->out[0] + i * d->m * d->n};
    }
    dense_run(d, q->items, q->batch, s->scratch, r);
    act_run(&q->act, s->out[0], q->batch * d->m * d->n, r);
    return PEN_OK;
}

/* Index of the matrix that result `i` of `batch` uses, by broadcasting over the leading dims. */
static size_t matrix_at(const struct shape *s, const struct shape *batch, size_t i)
{
    int32_t lead = s->rank - 2;
    size_t at = 0, step = 1;
    for (int32_t d = batch->rank - 1, k = lead - 1; d >= 0; d--, k--) {
        size_t index = i % (size_t)batch->dim[d];
        i /= (size_t)batch->dim[d];
        if (k >= 0) {
            at += s->dim[k] == 1 ? 0 : index * step;
            step *= (size_t)s->dim[k];
        }
    }
    return at;
}

static struct shape matrix_shape(const struct shape *s, bool left)
{
    struct shape m = *s;
    if (s->rank == 1) {
        m.rank = 2;
        m.dim[left ? 1 : 0] = s->dim[0];
        m.dim[left ? 0 : 1] = 1;
    }
    return m;
}

static size_t lead_count(const struct shape *s)
{
    struct shape lead = *s;
    lead.rank = s->rank - 2;
    return (size_t)shape_elements(&lead);
}

static enum pen_status batch_build(struct build *b, struct matmul *q, const struct shape *left,
                                   const struct shape *right)
{
    struct shape lead_a = *left, lead_b = *right, batch;
    lead_a.rank -= 2;
    lead_b.rank -= 2;
    if (!shape_broadcast(&lead_a, &lead_b, &batch)) {
        return build_fail(b, PEN_ERR_SHAPE, "the batch dims do not broadcast");
    }
    q->batch = (size_t)shape_elements(&batch);
    q->b_count = lead_count(right);
    q->items = build_alloc(b, q->batch * sizeof *q->items);
    q->a_at = build_alloc(b, q->batch * sizeof *q->a_at);
    q->b_at = build_alloc(b, q->batch * sizeof *q->b_at);
    if (q->items == NULL || q->a_at == NULL || q->b_at == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    for (size_t i = 0; i < q->batch; i++) {
        q->a_at[i] = matrix_at(left, &batch, i);
        q->b_at[i] = matrix_at(right, &batch, i);
    }
    return PEN_OK;
}

static enum pen_status matmul_build(struct build *b)
{
    struct matmul *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    struct shape left = matrix_shape(&build_in(b, 0)->shape, true), right = matrix_shape(&build_in(b, 1)->shape, false);
    size_t m = (size_t)left.dim[left.rank - 2], k = (size_t)left.dim[left.rank - 1],
           n = (size_t)right.dim[right.rank - 1];
    if ((size_t)right.dim[right.rank - 2] != k) {
        return build_fail(b, PEN_ERR_SHAPE, "the inner dims differ");
    }
    if (right.rank == 2) { /* one matrix for all: the leading dims are rows */
        m *= lead_count(&left);
        left = shape_of(2, (int64_t[]){(int64_t)m, (int64_t)k});
    }
    q->packed = b->packed;
    enum pen_status status = batch_build(b, q, &left, &right);
    if (status != PEN_OK) {
        return status;
    }
    if (shape_elements(&build_out(b, 0)->shape) != (int64_t)(q->batch * m * n)) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    dense_init_matrix(&q->d, m, k, n, k, build_threads(b));
    q->act = act_read(b->n);
    q->d.min = q->act.min;
    q->d.max = q->act.max;
    q->scratch_panels = dense_scratch_bytes(&q->d, build_threads(b));
    b->step->scratch_bytes =
        q->scratch_panels + (q->packed == NULL ? q->b_count * dense_packed_floats(k, n) * sizeof(float) : 0);
    b->step->state = q;
    b->step->run = matmul_run;
    return PEN_OK;
}

const struct emitter emit_matmul = {matmul_supports, matmul_pack, matmul_build};
