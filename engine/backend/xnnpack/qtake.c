#include "backend/xnnpack/qtake.h"

#include "backend/xnnpack/isa.h"

bool qtake_needed(const struct qdense *d, const struct qweights *w)
{
    return !w->narrow || d->y_dtype == PEN_DTYPE_I32 || d->y_dtype == PEN_DTYPE_F32;
}

static void integers(const struct qtaker *to, const int32_t *sums, size_t row, size_t rows, size_t n)
{
    const struct qdense *d = to->d;
    const size_t nr = isa_product()->nr;
    struct requantise q = qdense_limits(d->y_dtype, d->y_zero);
    q.add = to->w->add + to->col;
    q.add32 = to->w->narrow ? to->w->add32 + to->col : NULL;
    q.scale = to->w->scale + to->col;
    q.w_zero = to->w->w_zero_any ? to->w->w_zero + to->col : NULL;
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (to->row0 + row + r) * d->y_stride + to->group + to->col;
        q.row_sum = to->w->w_zero_any ? to->row_sums[row + r] : 0;
        if (d->y_dtype == PEN_DTYPE_I32) {
            isa_int()->add(sums + r * nr, &q, (int32_t *)to->y + at, n);
        } else {
            isa_int()->requantise(sums + r * nr, &q, (uint8_t *)to->y + at, n);
        }
    }
}

static void floats(const struct qtaker *to, const int32_t *sums, size_t row, size_t rows, size_t n)
{
    const struct qdense *d = to->d;
    const struct qfloats *f = d->floats;
    const size_t row0 = to->row0 + row, first = f->per_row ? row0 : 0;
    const struct int_floats q = {.sum = sums,
                                 .w_sums = to->w->sums + to->col,
                                 .w_scale = to->w->scale + to->col,
                                 .bias = f->bias + row0 * f->bias_stride + to->group + to->col,
                                 .bias_stride = f->bias_stride,
                                 .x_scale = f->x_scale + first,
                                 .x_zero = f->x_zero + first,
                                 .y = (float *)to->y + row0 * d->y_stride + to->group + to->col,
                                 .m = rows,
                                 .n = n,
                                 .sum_stride = isa_product()->nr,
                                 .y_stride = d->y_stride,
                                 .x_step = f->per_row ? 1 : 0,
                                 .min = f->min,
                                 .max = f->max};
    isa_int()->floats(&q);
}

void qtake(const void *taker, const int32_t *sums, size_t row, size_t rows)
{
    const struct qtaker *to = taker;
    const size_t nr = isa_product()->nr, n = to->d->n - to->col < nr ? to->d->n - to->col : nr;
    if (to->d->y_dtype == PEN_DTYPE_F32) {
        floats(to, sums, row, rows, n);
    } else {
        integers(to, sums, row, rows, n);
    }
}

void qtake_from(struct int_tile *t, const struct qtaker *taker)
{
    static const int32_t nothing[INT_NR_MAX] = {0};
    t->add = nothing;
    t->take = qtake;
    t->taker = taker;
}
