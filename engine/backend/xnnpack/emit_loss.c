#include <math.h>
#include <stdatomic.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/*
 * NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: scores [batch, classes, positions], targets [batch, positions], weights [classes].
 * loss_i = -w[t_i] * log p[t_i]; the mean divides by the sum of the weights. Positions go in blocks, whose sums are added in order.
 */
#define COLUMNS 256

enum { IN_X, IN_TARGET, IN_WEIGHT };

struct loss {
    size_t batch, classes, positions, blocks;
    bool entropy, wide; /* wide: i64 targets */
    bool ignores, mean, none;
    int64_t ignore;
};

struct loss_sum {
    double loss, weight;
};

struct loss_job {
    const struct loss *q;
    const float *x, *weight;
    const void *target;
    float *y, *log_p;
    struct loss_sum *sums;
    atomic_bool outside;
};

static bool loss_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, IN_X), *t = node_in(g, n, IN_TARGET), *w = node_in(g, n, IN_WEIGHT);
    bool fits = dtype_is(x, PEN_DTYPE_F32) && (dtype_is(t, PEN_DTYPE_I64) || dtype_is(t, PEN_DTYPE_I32)) &&
                (w == NULL || w->dtype == PEN_DTYPE_F32);
    if (!fits) {
        return refuse(ret_reason, "only f32 scores with i32 or i64 targets");
    }
    return (x->shape.rank >= 2 && t->shape.rank == x->shape.rank - 1) || refuse(ret_reason, "ranks that do not fit");
}

/* norm[i] = what is to be taken from every score of column i to make it a logarithm of a probability. */
static void columns_norm(const struct loss_job *j, const float *x, size_t n, float *norm)
{
    const struct loss *q = j->q;
    const struct own *own = isa_own();
    float e[COLUMNS], sum[COLUMNS];
    own->fold_rows(FOLD_MAX, x, q->positions, q->classes, norm, n);
    for (size_t i = 0; i < n; i++) {
        sum[i] = 0.0f;
    }
    for (size_t c = 0; c < q->classes; c++) {
        own->binary(BINARY_SUB, x + c * q->positions, 1, norm, 1, e, n);
        own->unary(UNARY_EXP, e, e, n, 0.0f, 0.0f);
        own->binary(BINARY_ADD, sum, 1, e, 1, sum, n);
    }
    own->unary(UNARY_LOG, sum, sum, n, 0.0f, 0.0f);
    own->binary(BINARY_ADD, norm, 1, sum, 1, norm, n);
}

static int64_t target_at(const struct loss_job *j, size_t at)
{
    return j->q->wide ? ((const int64_t *)j->target)[at] : ((const int32_t *)j->target)[at];
}

static void loss_task(void *context, size_t unit)
{
    struct loss_job *j = context;
    const struct loss *q = j->q;
    size_t b = unit / q->blocks, from = unit % q->blocks * COLUMNS;
    size_t n = q->positions - from < COLUMNS ? q->positions - from : COLUMNS;
    const float *x = j->x + b * q->classes * q->positions + from;
    float norm[COLUMNS] = {0};
    struct loss_sum sum = {0.0, 0.0};
    if (q->entropy) {
        columns_norm(j, x, n, norm);
    }
    for (size_t c = 0; q->entropy && j->log_p != NULL && c < q->classes; c++) {
        isa_own()->binary(BINARY_SUB, x + c * q->positions, 1, norm, 1, j->log_p + (x - j->x) + c * q->positions, n);
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = b * q->positions + from + i;
        int64_t t = target_at(j, at);
        float w = 0.0f, v = 0.0f;
        if (!q->ignores || t != q->ignore) {
            if (t < 0 || t >= (int64_t)q->classes) {
                atomic_store(&j->outside, true);
                return;
            }
            w = j->weight != NULL ? j->weight[t] : 1.0f;
            v = -w * (x[(size_t)t * q->positions + i] - norm[i]);
        }
        if (q->none) {
            j->y[at] = v;
        }
        sum.loss += (double)v;
        sum.weight += (double)w;
    }
    j->sums[unit] = sum;
}

static enum pen_status loss_run(struct step *s, struct run *r)
{
    const struct loss *q = s->state;
    struct loss_job j = {.q = q, .x = s->in[IN_X], .target = s->in[IN_TARGET], .y = s->out[0], .sums = s->scratch};
    j.weight = s->n->in_count > IN_WEIGHT ? s->in[IN_WEIGHT] : NULL;
    j.log_p = s->n->out_count > 1 ? s->out[1] : NULL;
    atomic_init(&j.outside, false);
    parallel(r, loss_task, &j, q->batch * q->blocks);
    if (atomic_load(&j.outside)) {
        return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: a target is not one of the %zu classes",
                             s->n->name, q->classes);
    }
    double loss = 0.0, weight = 0.0;
    for (size_t i = 0; i < q->batch * q->blocks; i++) {
        loss += j.sums[i].loss;
        weight += j.sums[i].weight;
    }
    if (!q->none) {
        *j.y = (float)(q->mean ? loss / weight : loss);
    }
    return PEN_OK;
}

static enum pen_status loss_build(struct build *b)
{
    const struct shape *x = &build_in(b, IN_X)->shape;
    const struct fact *weight = build_in(b, IN_WEIGHT);
    const struct attr *ignore = node_attr(b->n, ATTR_ignore_index);
    struct loss *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->batch = (size_t)x->dim[0];
    q->classes = (size_t)x->dim[1];
    q->positions = 1;
    for (int32_t d = 2; d < x->rank; d++) {
        q->positions *= (size_t)x->dim[d];
    }
    q->blocks = (q->positions + COLUMNS - 1) / COLUMNS;
    q->entropy = b->n->op == OP_SoftmaxCrossEntropyLoss;
    q->wide = build_in(b, IN_TARGET)->dtype == PEN_DTYPE_I64;
    q->ignores = ignore != NULL;
    q->ignore = ignore != NULL ? ignore->i : 0;
    q->none = node_text_is(b->n, ATTR_reduction, "none", false);
    q->mean = node_text_is(b->n, ATTR_reduction, "mean", true);
    int64_t items = (int64_t)(q->batch * q->positions);
    if (q->classes == 0 || shape_elements(&build_in(b, IN_TARGET)->shape) != items ||
        (weight != NULL && shape_elements(&weight->shape) != (int64_t)q->classes) ||
        shape_elements(&build_out(b, 0)->shape) != (q->none ? items : 1)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "targets or weights do not fit the scores");
    }
    b->step->scratch_bytes = (q->batch * q->blocks + 1) * sizeof(struct loss_sum);
    b->step->state = q;
    b->step->run = loss_run;
    return PEN_OK;
}

const struct emitter emit_loss = {loss_supports, NULL, loss_build};
