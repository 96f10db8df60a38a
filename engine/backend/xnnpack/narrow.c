#include "backend/xnnpack/narrow.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/isa.h"

#define TERMS_LEAST 128 /* of a sum: with fewer, adding up the vectors of sums costs more than is saved */
#define RUN_LEAST   16  /* of them that lie in one piece */
#define ROWS_BYTES  ((size_t)64 << 10) /* of the image under one piece of results, where they are copied */

static size_t terms_of(const struct filter *f)
{
    return f->kernel_h * f->kernel_w * f->in;
}

bool narrow_takes(const struct node *n, const struct filter *f)
{
    uint32_t count = 0;
    const int64_t *dilations = node_ints(n, ATTR_dilations, &count);
    const bool whole = count == 0 || dilations[count - 1] == 1; /* a row of the window is one piece */
    return isa_own()->wide && f->groups == 1 && f->out <= DOTS_COLS && whole && terms_of(f) >= TERMS_LEAST &&
           f->kernel_w * f->in >= RUN_LEAST;
}

size_t narrow_packed_bytes(const struct filter *f)
{
    return (f->out * (terms_of(f) + 1) * sizeof(float) + 127) / 64 * 64;
}

void narrow_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed)
{
    for (size_t c = 0; c < f->out; c++) {
        *packed++ = bias != NULL ? bias[c] : 0.0f;
    }
    memcpy(packed, ohwi, f->out * terms_of(f) * sizeof *packed);
}

static size_t span_of(const struct window *w, size_t results)
{
    return results > 0 ? (results - 1) * w->stride[1] + w->kernel[1] : 0;
}

void narrow_init(struct narrow *q, const struct window *w, const struct act *act, const struct filter *f)
{
    *q = (struct narrow){.w = *w, .act = *act, .in = f->in, .out = f->out};
    const size_t pixel = w->kernel[0] * f->in * sizeof(float), fit = ROWS_BYTES / pixel;
    const size_t most = fit > w->kernel[1] ? (fit - w->kernel[1]) / w->stride[1] + 1 : 1;
    const size_t least = 4 * DOTS_ROWS; /* or most of what is copied would be copied again */
    q->piece = most > least ? most : least;
    q->piece = q->piece < w->out[1] ? q->piece : w->out[1];
    q->pieces = q->piece > 0 ? (w->out[1] + q->piece - 1) / q->piece : 1;
    q->span = span_of(w, q->piece);
}

/* The rows of the image under one piece of results, within their padding. */
static size_t rows_floats(const struct narrow *q)
{
    return (q->w.kernel[0] * q->span * q->in + 31) / 16 * 16;
}

size_t narrow_scratch_bytes(const struct narrow *q, size_t threads)
{
    return threads * rows_floats(q) * sizeof(float);
}

struct narrow_job {
    const struct narrow *q;
    const float *packed;
    const struct step *s;
};

/* Pixels [left, left + span) of a row, counted from the beginning of its padding. NULL: the row is padding itself. */
static void row_copy(const struct narrow *q, size_t pitch, const float *from, size_t left, size_t span, float *to)
{
    const size_t begin = q->w.begin[1], width = q->w.in[1];
    const size_t before = left < begin ? (begin - left < span ? begin - left : span) : 0; /* pixels of padding */
    const size_t first = left + before - begin, there = first < width ? width - first : 0;
    const size_t count = from == NULL ? 0 : there < span - before ? there : span - before;
    if (count < span) {
        memset(to, 0, span * q->in * sizeof *to);
    }
    to += before * q->in;
    if (pitch == q->in && count > 0) {
        memcpy(to, from + first * pitch, count * q->in * sizeof *to);
    }
    for (size_t x = 0; x < count && pitch != q->in; x++) {
        memcpy(to + x * q->in, from + (first + x) * pitch, q->in * sizeof *to);
    }
}

/* The image under `span` pixels from (top, left) on, counted with its padding: where it lies, or a copy. *ret_band: floats from one row to the next. */
static const float *rows_take(const struct narrow_job *j, size_t image, size_t top, size_t left, size_t span,
                              size_t *ret_band)
{
    const struct narrow *q = j->q;
    const struct window *w = &q->w;
    const size_t pitch = j->s->in_row[0], last = top + (w->kernel[0] - 1) * w->dilation[0];
    const float *x = (const float *)j->s->in[0] + image * w->in[0] * w->in[1] * pitch;
    float *copy = (float *)j->s->scratch + team_self() * rows_floats(q);
    const bool inside = top >= w->begin[0] && last - w->begin[0] < w->in[0] && left >= w->begin[1] &&
                        left - w->begin[1] + span <= w->in[1];
    if (inside && pitch == q->in) {
        *ret_band = w->dilation[0] * w->in[1] * q->in;
        return x + ((top - w->begin[0]) * w->in[1] + left - w->begin[1]) * q->in;
    }
    for (size_t k = 0; k < w->kernel[0]; k++) {
        const size_t row = top + k * w->dilation[0] - w->begin[0]; /* above the image: wraps */
        row_copy(q, pitch, row < w->in[0] ? x + row * w->in[1] * pitch : NULL, left, span, copy + k * span * q->in);
    }
    *ret_band = span * q->in;
    return copy;
}

/* One piece of a row of results. */
static void task(void *context, size_t unit)
{
    const struct narrow_job *j = context;
    const struct narrow *q = j->q;
    const struct window *w = &q->w;
    const size_t row = unit / q->pieces, first = unit % q->pieces * q->piece;
    const size_t count = w->out[1] - first < q->piece ? w->out[1] - first : q->piece;
    const size_t at = (row * w->out[1] + first) * q->out;
    float *y = (float *)j->s->out[0] + at;
    struct dots d = {.w = j->packed + q->out,
                     .bias = j->packed,
                     .y = y,
                     .x_stride = w->stride[1] * q->in,
                     .w_stride = w->kernel[0] * w->kernel[1] * q->in,
                     .y_stride = q->out,
                     .m = count,
                     .n = q->out,
                     .k = w->kernel[1] * q->in,
                     .bands = w->kernel[0]};
    d.x = rows_take(j, row / w->out[0], row % w->out[0] * w->stride[0], first * w->stride[1], span_of(w, count),
                    &d.x_band);
    isa_own()->dots(&d);
    act_piece(&q->act, y, count * q->out);
    if (q->after != NULL) {
        epilogue_run(q->after, j->s->in, y, at, count * q->out);
    }
}

void narrow_run(const struct narrow *q, const float *packed, const struct step *s, struct run *r)
{
    struct narrow_job j = {q, packed, s};
    parallel(r, task, &j, q->w.batch * q->w.out[0] * q->pieces);
}
