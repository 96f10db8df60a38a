#include "backend/xnnpack/narrow.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/isa.h"

#define TERMS_LEAST 128 /* of a sum: with fewer, adding up the vectors of sums costs more than is saved */
#define RUN_LEAST   16  /* of them that lie in one piece */

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

void narrow_init(struct narrow *q, const struct window *w, const struct act *act, const struct filter *f)
{
    *q = (struct narrow){.w = *w, .act = *act, .in = f->in, .out = f->out};
    q->row = (w->begin[1] + w->in[1] + w->end[1]) * f->in;
}

/* The rows of the image under one row of results, within their padding. */
static size_t rows_floats(const struct narrow *q)
{
    return (q->w.kernel[0] * q->row + 31) / 16 * 16;
}

size_t narrow_scratch_bytes(const struct narrow *q, uint32_t threads)
{
    return threads * rows_floats(q) * sizeof(float);
}

struct narrow_job {
    const struct narrow *q;
    const float *packed;
    const struct step *s;
};

/* A row of the image that lies within its padding as it is: no pixel is missing, and none is further away. */
static bool is_plain(const struct narrow *q, const struct step *s)
{
    return q->w.begin[1] == 0 && q->w.end[1] == 0 && s->in_row[0] == q->in;
}

static void row_copy(const struct narrow *q, const struct step *s, const float *from, float *to)
{
    const size_t pitch = s->in_row[0], before = q->w.begin[1] * q->in, after = q->w.end[1] * q->in;
    memset(to, 0, before * sizeof *to);
    to += before;
    if (pitch == q->in) {
        memcpy(to, from, q->w.in[1] * q->in * sizeof *to);
    }
    for (size_t x = 0; x < q->w.in[1] && pitch != q->in; x++) {
        memcpy(to + x * q->in, from + x * pitch, q->in * sizeof *to);
    }
    memset(to + q->w.in[1] * q->in, 0, after * sizeof *to);
}

/* One row of results. */
static void task(void *context, size_t unit)
{
    const struct narrow_job *j = context;
    const struct narrow *q = j->q;
    const struct window *w = &q->w;
    const size_t pitch = j->s->in_row[0], image = unit / w->out[0], top = unit % w->out[0] * w->stride[0];
    float *rows = (float *)j->s->scratch + team_self() * rows_floats(q);
    const float *x = (const float *)j->s->in[0] + image * w->in[0] * w->in[1] * pitch;
    const size_t last = top + (w->kernel[0] - 1) * w->dilation[0];
    const bool plain = is_plain(q, j->s) && top >= w->begin[0] && last - w->begin[0] < w->in[0];
    for (size_t k = 0; k < w->kernel[0] && !plain; k++) {
        const size_t row = top + k * w->dilation[0] - w->begin[0]; /* above the image: wraps */
        if (row < w->in[0]) {
            row_copy(q, j->s, x + row * w->in[1] * pitch, rows + k * q->row);
        } else {
            memset(rows + k * q->row, 0, q->row * sizeof *rows);
        }
    }
    float *y = (float *)j->s->out[0] + unit * w->out[1] * q->out;
    const struct dots d = {.x = plain ? x + (top - w->begin[0]) * w->in[1] * pitch : rows,
                           .w = j->packed + q->out,
                           .bias = j->packed,
                           .y = y,
                           .x_stride = w->stride[1] * q->in,
                           .x_band = plain ? w->dilation[0] * q->row : q->row,
                           .w_stride = w->kernel[0] * w->kernel[1] * q->in,
                           .y_stride = q->out,
                           .m = w->out[1],
                           .n = q->out,
                           .k = w->kernel[1] * q->in,
                           .bands = w->kernel[0]};
    isa_own()->dots(&d);
    act_piece(&q->act, y, w->out[1] * q->out);
    if (q->after != NULL) {
        epilogue_run(q->after, j->s->in, y, unit * w->out[1] * q->out, w->out[1] * q->out);
    }
}

void narrow_run(const struct narrow *q, const float *packed, const struct step *s, struct run *r)
{
    struct narrow_job j = {q, packed, s};
    parallel(r, task, &j, q->w.batch * q->w.out[0]);
}
