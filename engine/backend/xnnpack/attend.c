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

/* Keys [first, end) that query i of batch entry b sees by its place. */
static void seen_keys(const struct attend_job *j, size_t b, size_t i, size_t *ret_first, size_t *ret_end)
{
    const struct attend *a = j->a;
    int64_t end = (int64_t)(a->mask == ATTEND_MASK_NONE ? a->k.length : a->mask_keys), first = 0;
    if (j->d->valid != NULL && j->d->valid[b] < end) {
        end = j->d->valid[b];
    }
    if (a->causal) {
        int64_t last = (int64_t)i + (j->d->offset != NULL ? j->d->offset[b] : a->causal_offset) + 1;
        end = last < end ? last : end;
        first = a->window > 0 && last > a->window ? last - a->window : 0;
    }
    *ret_end = end > 0 ? (size_t)end : 0;
    *ret_first = first < (int64_t)*ret_end ? (size_t)first : *ret_end;
}

/* The mask's part of keys [first, end); all others are hidden. */
static void bias_add(const struct attend_job *j, size_t row, size_t first, size_t end, float *scores)
{
    const struct attend *a = j->a;
    size_t i = row % a->q.length, h = row / a->q.length % a->q.heads, b = row / (a->q.length * a->q.heads);
    size_t step = a->mask_step[3];
    size_t at = b * a->mask_step[0] + h * a->mask_step[1] + i * a->mask_step[2] + first * step;
    if (a->mask == ATTEND_MASK_F32 && end > first) {
        isa_own()->binary(BINARY_ADD, scores + first, 1, (const float *)j->d->mask + at, step, scores + first,
                          end - first);
    } else if (a->mask == ATTEND_MASK_BOOL) {
        const uint8_t *mask = (const uint8_t *)j->d->mask + at;
        for (size_t k = first; k < end; k++) {
            scores[k] += mask[(k - first) * step] != 0 ? 0.0f : a->mask_false;
        }
    }
    for (size_t k = 0; k < first; k++) {
        scores[k] = -INFINITY;
    }
    for (size_t k = end; k < a->k.length; k++) {
        scores[k] = -INFINITY;
    }
}

/* A row with nothing to see becomes zero. sink: one more score, of no key; -INFINITY without. */
static void shares(float *s, size_t n, float sink)
{
    const struct own *own = isa_own();
    float max = n > 0 ? own->fold(FOLD_MAX, s, n) : -INFINITY;
    max = sink > max ? sink : max;
    if (max == -INFINITY) {
        for (size_t i = 0; i < n; i++) {
            s[i] = 0.0f;
        }
        return;
    }
    float sum = own->exp_sum(s, s, n, max) + (sink > -INFINITY ? expf(sink - max) : 0.0f);
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
    size_t first, end;
    seen_keys(j, b, i, &first, &end);
    size_t from = j->d->scores != NULL ? 0 : first, to = j->d->scores != NULL ? a->k.length : end;
    for (size_t n = from; n < to; n++) {
        scores[n] = a->scale * own->dot(q, k + n * a->k.row, a->q.size);
    }
    keep(j, ATTEND_RAW, row, scores);
    if (a->softcap > 0.0f) {
        own->affine(scores + from, scores + from, to - from, 0.0f, 1.0f / a->softcap, NULL, NULL);
        own->unary(UNARY_TANH, scores + from, scores + from, to - from, 0.0f, 0.0f);
        own->affine(scores + from, scores + from, to - from, 0.0f, a->softcap, NULL, NULL);
    }
    keep(j, ATTEND_CAPPED, row, scores);
    bias_add(j, row, first, end, scores);
    keep(j, ATTEND_BIASED, row, scores);
    shares(scores + from, to - from, a->smooth ? (j->d->sinks != NULL ? j->d->sinks[h] : 0.0f) : -INFINITY);
    keep(j, ATTEND_SHARES, row, scores);
    memset(y, 0, a->v.size * sizeof *y);
    for (size_t n = first; n < end; n++) {
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
