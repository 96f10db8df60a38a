#include "backend/reference/attention.h"

#include <math.h>

void heads_of(const double *items, const struct shape *s, int64_t heads, struct heads *ret)
{
    if (s->rank == 4) {
        *ret = (struct heads){
            items,    s->dim[1], s->dim[2], s->dim[3], s->dim[1] * s->dim[2] * s->dim[3], s->dim[2] * s->dim[3],
            s->dim[3]};
        return;
    }
    int64_t size = heads > 0 ? s->dim[2] / heads : 0;
    *ret = (struct heads){items, heads, s->dim[1], size, s->dim[1] * s->dim[2], size, s->dim[2]};
}

static const double *row_of(const struct heads *h, int64_t batch, int64_t head, int64_t t)
{
    return h->items + batch * h->batch_stride + head * h->head_stride + t * h->row;
}

/* What the mask adds to score (b, h, i, j); beyond a mask that is shorter than the keys: minus infinity. */
static double mask_at(const struct attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct shape *s = &a->mask->shape;
    const int64_t index[4] = {b, h, i, j};
    int64_t at = 0;
    for (int32_t d = 0; d < s->rank; d++) {
        int64_t wanted = index[4 - s->rank + d];
        if (d == s->rank - 1 && s->dim[d] != 1 && wanted >= s->dim[d]) {
            return -(double)INFINITY;
        }
        at = at * s->dim[d] + (s->dim[d] == 1 ? 0 : wanted);
    }
    double v = load_one_f64(a->mask->data, a->mask->dtype, at);
    return a->mask->dtype == PEN_DTYPE_BOOL ? (v != 0.0 ? 0.0 : a->mask_false) : v;
}

static double bias_at(const struct attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    double bias = a->mask != NULL ? mask_at(a, b, h, i, j) : 0.0;
    bool hidden = (a->causal && j > i + a->causal_offset) || (a->valid != NULL && j >= a->valid[b]);
    return hidden ? -(double)INFINITY : bias;
}

static void scores_store(const struct attention *a, int64_t stage, int64_t row, const double *scores)
{
    if (a->scores_stage == stage) {
        store_f64(a->scores->data, a->scores->dtype, row * a->k.length, 1, a->k.length, scores);
    }
}

/* In place: p_j = e^(s_j - max) / sum; a row with nothing to see becomes zero. */
static void softmax_row(double *s, int64_t n)
{
    double max = -(double)INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        max = s[j] > max ? s[j] : max;
    }
    for (int64_t j = 0; j < n; j++) {
        s[j] = isinf(max) ? 0.0 : exp(s[j] - max);
        sum += s[j];
    }
    for (int64_t j = 0; j < n && sum > 0.0; j++) {
        s[j] /= sum;
    }
}

/* One query: scores = cap(scale * q k^T) + bias, y = softmax(scores) v. */
static void query_run(const struct attention *a, int64_t b, int64_t h, int64_t i, double *scores, double *sum)
{
    int64_t shared = h / (a->q.heads / a->k.heads),
            row = (b * a->q.heads + h) * a->q.length + i; /* grouped heads share keys */
    const double *q = row_of(&a->q, b, h, i);
    for (int64_t j = 0; j < a->k.length; j++) {
        const double *key = row_of(&a->k, b, shared, j);
        double dot = 0.0;
        for (int64_t x = 0; x < a->q.size; x++) {
            dot += q[x] * key[x];
        }
        scores[j] = dot * a->scale;
    }
    scores_store(a, 0, row, scores);
    for (int64_t j = 0; j < a->k.length && a->softcap > 0.0; j++) {
        scores[j] = a->softcap * tanh(scores[j] / a->softcap);
    }
    scores_store(a, 1, row, scores);
    for (int64_t j = 0; j < a->k.length; j++) {
        scores[j] += bias_at(a, b, h, i, j);
    }
    scores_store(a, 2, row, scores);
    softmax_row(scores, a->k.length);
    scores_store(a, 3, row, scores);
    for (int64_t x = 0; x < a->v.size; x++) {
        sum[x] = 0.0;
    }
    for (int64_t j = 0; j < a->k.length; j++) {
        const double *value = row_of(&a->v, b, shared, j);
        for (int64_t x = 0; x < a->v.size && scores[j] != 0.0; x++) {
            sum[x] += scores[j] * value[x];
        }
    }
    store_f64(a->y->data, a->y->dtype, b * a->y_at.batch_stride + h * a->y_at.head_stride + i * a->y_at.row, 1,
              a->v.size, sum);
}

enum pen_status attention_run(struct kernel_call *k, const struct attention *a)
{
    bool fits = a->k.heads > 0 && a->q.heads % a->k.heads == 0 && a->q.size == a->k.size &&
                a->v.length == a->k.length && a->v.heads == a->k.heads;
    if (!fits) {
        return kernel_fail(k, PEN_ERR_SHAPE, "queries of %lld heads of %lld do not fit keys of %lld heads of %lld",
                           (long long)a->q.heads, (long long)a->q.size, (long long)a->k.heads, (long long)a->k.size);
    }
    double *scores = kernel_scratch(k, (size_t)a->k.length * sizeof *scores),
           *sum = kernel_scratch(k, (size_t)a->v.size * sizeof *sum);
    if (scores == NULL || sum == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for one row of scores");
    }
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->q.heads; h++) {
            enum pen_status status = kernel_cancelled(k);
            for (int64_t i = 0; i < a->q.length && status == PEN_OK; i++) {
                query_run(a, b, h, i, scores, sum);
            }
            if (status != PEN_OK) {
                return status;
            }
        }
    }
    return PEN_OK;
}
