#include "backend/xnnpack/attend.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/isa.h"

struct attend_job {
    const struct attend *a;
    const struct attend_data *d;
    float *scratch;
    size_t rows, rows_unit;
};

bool attend_side_init(struct attend_side *s, const struct shape *shape, int64_t heads)
{
    const int64_t *d = shape->dim;
    if (shape->rank == 4) {
        *s = (struct attend_side){.heads = (size_t)d[1], .length = (size_t)d[2], .size = (size_t)d[3]};
        s->batch_stride = s->heads * s->length * s->size;
        s->head_stride = s->length * s->size;
        s->row = s->size;
        return true;
    }
    if (shape->rank != 3 || heads < 1 || d[2] % heads != 0) {
        return false;
    }
    *s = (struct attend_side){.heads = (size_t)heads, .length = (size_t)d[1], .size = (size_t)(d[2] / heads)};
    s->batch_stride = s->length * (size_t)d[2];
    s->head_stride = s->size;
    s->row = (size_t)d[2];
    return true;
}

bool attend_mask_init(struct attend *a, const struct shape *mask, bool boolean)
{
    const size_t full[4] = {a->batch, a->q.heads, a->q.length, a->k.length};
    size_t step = 1;
    a->mask = boolean ? ATTEND_MASK_BOOL : ATTEND_MASK_F32;
    a->mask_keys = a->k.length;
    memset(a->mask_step, 0, sizeof a->mask_step);
    if (mask->rank > 4) {
        return false;
    }
    for (int32_t d = mask->rank - 1; d >= 0; d--) {
        int32_t at = 4 - mask->rank + d;
        size_t dim = (size_t)mask->dim[d];
        if (at == 3 && dim != 1 && dim < full[3]) {
            a->mask_keys = dim;
        } else if (dim != 1 && dim != full[at]) {
            return false;
        }
        a->mask_step[at] = dim == 1 ? 0 : step;
        step *= dim;
    }
    return true;
}

bool attend_init(struct attend *a, size_t threads)
{
    size_t rows = a->batch * a->q.heads * a->q.length;
    a->units = rows < 4 * threads ? rows : 4 * threads;
    a->units = a->units > 0 ? a->units : 1;
    return a->k.heads > 0 && a->q.heads % a->k.heads == 0 && a->q.size == a->k.size && a->v.length == a->k.length &&
           a->v.heads == a->k.heads;
}

size_t attend_scratch_bytes(const struct attend *a)
{
    return a->units * a->k.length * sizeof(float);
}

static void keep(const struct attend_job *j, enum attend_stage stage, size_t row, const float *scores)
{
    size_t n = j->a->k.length;
    if (j->d->scores != NULL && j->a->stage == stage && n > 0) {
        memcpy(j->d->scores + row * n, scores, n * sizeof *scores);
    }
}

static void bias_add(const struct attend_job *j, size_t b, size_t h, size_t i, float *scores)
{
    const struct attend *a = j->a;
    size_t at = b * a->mask_step[0] + h * a->mask_step[1] + i * a->mask_step[2], step = a->mask_step[3];
    size_t seen = a->k.length;
    if (a->mask == ATTEND_MASK_F32) {
        seen = a->mask_keys;
        isa_own()->binary(BINARY_ADD, scores, 1, (const float *)j->d->mask + at, step, scores, seen);
    } else if (a->mask == ATTEND_MASK_BOOL) {
        const uint8_t *mask = (const uint8_t *)j->d->mask + at;
        seen = a->mask_keys;
        for (size_t k = 0; k < seen; k++) {
            scores[k] += mask[k * step] != 0 ? 0.0f : a->mask_false;
        }
    }
    if (j->d->valid != NULL && j->d->valid[b] < (int64_t)seen) {
        seen = j->d->valid[b] > 0 ? (size_t)j->d->valid[b] : 0;
    }
    if (a->causal && (int64_t)i + a->causal_offset + 1 < (int64_t)seen) {
        int64_t last = (int64_t)i + a->causal_offset + 1;
        seen = last > 0 ? (size_t)last : 0;
    }
    for (size_t k = seen; k < a->k.length; k++) {
        scores[k] = -INFINITY;
    }
}

/* A row with nothing to see becomes zero. */
static void shares(float *s, size_t n)
{
    const struct own *own = isa_own();
    float max = n > 0 ? own->fold(FOLD_MAX, s, n) : -INFINITY;
    if (max == -INFINITY) {
        for (size_t i = 0; i < n; i++) {
            s[i] = 0.0f;
        }
        return;
    }
    float sum = own->exp_sum(s, s, n, max);
    own->affine(s, s, n, 0.0f, 1.0f / sum, NULL, NULL);
}

static void row_run(const struct attend_job *j, size_t row, float *scores)
{
    const struct attend *a = j->a;
    const struct own *own = isa_own();
    size_t i = row % a->q.length, h = row / a->q.length % a->q.heads, b = row / (a->q.length * a->q.heads);
    size_t shared = h / (a->q.heads / a->k.heads); /* grouped heads share keys */
    const float *q = j->d->q + b * a->q.batch_stride + h * a->q.head_stride + i * a->q.row;
    const float *k = j->d->k + b * a->k.batch_stride + shared * a->k.head_stride;
    const float *v = j->d->v + b * a->v.batch_stride + shared * a->v.head_stride;
    float *y = j->d->y + b * a->y.batch_stride + h * a->y.head_stride + i * a->y.row;
    for (size_t n = 0; n < a->k.length; n++) {
        scores[n] = a->scale * own->dot(q, k + n * a->k.row, a->q.size);
    }
    keep(j, ATTEND_RAW, row, scores);
    if (a->softcap > 0.0f) {
        own->affine(scores, scores, a->k.length, 0.0f, 1.0f / a->softcap, NULL, NULL);
        own->unary(UNARY_TANH, scores, scores, a->k.length, 0.0f, 0.0f);
        own->affine(scores, scores, a->k.length, 0.0f, a->softcap, NULL, NULL);
    }
    keep(j, ATTEND_CAPPED, row, scores);
    bias_add(j, b, h, i, scores);
    keep(j, ATTEND_BIASED, row, scores);
    shares(scores, a->k.length);
    keep(j, ATTEND_SHARES, row, scores);
    memset(y, 0, a->v.size * sizeof *y);
    for (size_t n = 0; n < a->k.length; n++) {
        if (scores[n] != 0.0f) {
            own->axpy(y, v + n * a->v.row, a->v.size, scores[n]);
        }
    }
}

static void attend_task(void *context, size_t unit)
{
    const struct attend_job *j = context;
    for (size_t row = unit * j->rows_unit; row < (unit + 1) * j->rows_unit && row < j->rows; row++) {
        row_run(j, row, j->scratch + unit * j->a->k.length);
    }
}

void attend_run(const struct attend *a, const struct attend_data *data, void *scratch, struct run *r)
{
    struct attend_job j = {.a = a, .d = data, .scratch = scratch, .rows = a->batch * a->q.heads * a->q.length};
    j.rows_unit = (j.rows + a->units - 1) / a->units;
    parallel(r, attend_task, &j, a->units);
}
