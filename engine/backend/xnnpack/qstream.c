#include "backend/xnnpack/qstream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"

#define BLOCK       64u
#define PERIOD_MAX  8192u              /* bytes: weights of all its blocks stay in the first cache */
#define BAND_BYTES  ((size_t)96 << 10) /* rows of a band stay in the second cache */
#define SLACK_BYTES 128u               /* read behind the last row */

/* ---- weights ---- */

static size_t greatest_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * Bytes after which channels and blocks begin together. Those of one pixel where no such end is in reach, or where its last block is nearly full anyway: many
 * copies of the weights would buy little.
 */
static size_t period_of(size_t channels, bool *ret_by_pixel)
{
    size_t together = channels / greatest_divisor(channels, BLOCK) * BLOCK;
    size_t pixel = (channels + BLOCK - 1) / BLOCK * BLOCK;
    *ret_by_pixel = together > PERIOD_MAX || (together > 2 * channels && 4 * pixel <= 5 * channels);
    return *ret_by_pixel ? pixel : together;
}

/* Of packed memory: a flag in the first bytes, w [period][groups][4], add, scale, w_zero [period]. */
struct pieces {
    uint32_t *w_zero_any;
    uint8_t *w;
    int32_t *add;
    float *scale;
    int32_t *w_zero;
    size_t bytes;
};

static struct pieces pieces_of(uint8_t *packed, size_t period, size_t groups)
{
    struct pieces p = {.w_zero_any = (uint32_t *)(void *)packed, .w = packed + 64};
    p.add = (int32_t *)(void *)(p.w + period * groups * 4);
    p.scale = (float *)(void *)(p.add + period);
    p.w_zero = (int32_t *)(void *)(p.scale + period);
    p.bytes = 64 + period * (groups * 4 + 12);
    return p;
}

static size_t groups_of(size_t taps)
{
    return (taps + 3) / 4;
}

bool qstream_fits(const struct filter *f, enum pen_dtype y_dtype)
{
    return isa_bytes() != NULL && y_dtype != PEN_DTYPE_I32 && f->in == 1 && f->out == f->groups &&
           f->kernel_h * f->kernel_w <= QSTREAM_TAPS;
}

size_t qstream_packed_bytes(const struct filter *f)
{
    bool by_pixel;
    return pieces_of(NULL, period_of(f->out, &by_pixel), groups_of(f->kernel_h * f->kernel_w)).bytes;
}

/* Byte `at` of the period, channel o. False when its sum may leave 32 bits. */
static bool channel_pack(const struct filter *f, const struct qparams *p, const struct pieces *to, size_t at, size_t o)
{
    size_t taps = f->kernel_h * f->kernel_w, groups = groups_of(taps);
    size_t place = at / BLOCK * BLOCK + int_depthwise_place(at % BLOCK);
    int32_t shift = p->w_dtype == PEN_DTYPE_U8 ? 128 : 0, zero = qdense_w_zero(p, o) - shift;
    int32_t x_zero = qdense_zero(p->x_zero, p->x_dtype) + (p->x_dtype == PEN_DTYPE_I8 ? 128 : 0);
    int64_t sum = 0, most = 0;
    for (size_t t = 0; t < taps; t++) {
        const uint8_t *w = (const uint8_t *)p->w + t / f->kernel_w * f->h_step + t % f->kernel_w * f->w_step;
        int32_t v = qdense_zero(w + o * f->out_step, p->w_dtype) - shift;
        to->w[((at / BLOCK * groups + t / 4) * BLOCK + place % BLOCK) * 4 + t % 4] = (uint8_t)v;
        sum += v;
        most += 255 * ((int64_t)abs(v) + abs(zero));
    }
    int64_t add = (p->bias != NULL ? p->bias[o] : 0) + (int64_t)taps * x_zero * zero - x_zero * sum;
    if (most + llabs(add) > INT32_MAX) {
        return false;
    }
    to->add[place] = (int32_t)add;
    to->scale[place] = qdense_scale(p, o);
    to->w_zero[place] = zero;
    *to->w_zero_any |= zero != 0 ? 1 : 0;
    return true;
}

bool qstream_pack(const struct filter *f, const struct qparams *p, uint8_t *packed)
{
    bool by_pixel, narrow = true;
    size_t period = period_of(f->out, &by_pixel);
    struct pieces to = pieces_of(packed, period, groups_of(f->kernel_h * f->kernel_w));
    memset(packed, 0, to.bytes);
    for (size_t at = 0; narrow && at < (by_pixel ? f->out : period); at++) {
        narrow = channel_pack(f, p, &to, at, at % f->out);
    }
    return narrow;
}

/* ---- the image ---- */

bool qstream_init(struct qstream *s, const struct window *w, size_t threads)
{
    size_t taps = w->kernel[0] * w->kernel[1], stride = w->stride[1];
    size_t width = (w->out[1] - 1) * stride + (w->kernel[1] - 1) * w->dilation[1] + 1;
    *s = (struct qstream){.w = *w, .groups = groups_of(taps)};
    s->blocks = period_of(w->channels, &s->by_pixel) / BLOCK;
    s->phase_bytes = (width + stride - 1) / stride * w->channels;
    s->row_bytes = stride * s->phase_bytes;
    if (s->row_bytes > UINT32_MAX / ((w->kernel[0] - 1) * w->dilation[0] + 1)) {
        return false; /* taps would lie too far apart */
    }
    for (size_t t = 0; t < s->groups * 4; t++) {
        size_t kh = t < taps ? t / w->kernel[1] * w->dilation[0] : 0;
        size_t kw = t < taps ? t % w->kernel[1] * w->dilation[1] : 0;
        s->taps[t] = (uint32_t)(kh * s->row_bytes + kw % stride * s->phase_bytes + kw / stride * w->channels);
        s->ones[t / 4] |= t < taps ? 1u << (t % 4 * 8) : 0;
    }
    size_t over = (w->kernel[0] - 1) * w->dilation[0] + 1, fit = BAND_BYTES / (s->row_bytes + 1);
    s->band_rows = fit > over ? (fit - over) / w->stride[0] + 1 : 1;
    size_t share = (w->out[0] * w->batch + 2 * threads - 1) / (2 * threads);
    s->band_rows = threads > 1 && s->band_rows > share ? share : s->band_rows;
    s->band_rows = s->band_rows > w->out[0] ? w->out[0] : s->band_rows;
    return true;
}

static size_t thread_bytes(const struct qstream *s)
{
    size_t rows = (s->band_rows - 1) * s->w.stride[0] + (s->w.kernel[0] - 1) * s->w.dilation[0] + 1;
    return (rows * s->row_bytes + SLACK_BYTES + 63) / 64 * 64;
}

size_t qstream_scratch_bytes(const struct qstream *s, size_t threads)
{
    return threads * thread_bytes(s);
}

struct job {
    const struct qstream *s;
    struct int_depthwise d;
    const uint8_t *x;
    uint8_t *y, *scratch;
    uint8_t zero, flip; /* zero: of the padding, flipped */
    size_t bands;       /* of one image */
    atomic_size_t next;
};

/* Pixels phase, phase + stride ... of a padded row, one behind the other. */
static void phase_copy(const struct job *j, const uint8_t *row, size_t phase, uint8_t *to)
{
    const struct window *w = &j->s->w;
    size_t stride = w->stride[1], count = j->s->phase_bytes / w->channels;
    size_t before = w->begin[1] > phase ? (w->begin[1] - phase + stride - 1) / stride : 0;
    size_t first = phase + before * stride - w->begin[1]; /* of the image */
    before = before < count ? before : count;
    size_t there = first < w->in[1] ? (w->in[1] - first + stride - 1) / stride : 0;
    there = there < count - before ? there : count - before;
    memset(to, j->zero, before * w->channels);
    to += before * w->channels;
    if (stride == 1) {
        isa_bytes()->copy(to, row + first * w->channels, there * w->channels, 1, 0, j->flip);
    } else {
        isa_bytes()->copy(to, row + first * w->channels, w->channels, there, stride * w->channels, j->flip);
    }
    memset(to + there * w->channels, j->zero, (count - before - there) * w->channels);
}

static void band_run(const struct job *j, size_t unit, uint8_t *scratch)
{
    const struct qstream *s = j->s;
    const struct window *w = &s->w;
    size_t image = unit / j->bands, first = unit % j->bands * s->band_rows, row = w->in[1] * w->channels;
    size_t rows = w->out[0] - first < s->band_rows ? w->out[0] - first : s->band_rows, n = w->out[1] * w->channels;
    size_t needed = (rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
    for (size_t i = 0; i < needed; i++) {
        size_t at = first * w->stride[0] + i - w->begin[0]; /* above the image: wraps, and is past its end */
        uint8_t *to = scratch + i * s->row_bytes;
        if (at >= w->in[0]) {
            memset(to, j->zero, s->row_bytes);
            continue;
        }
        for (size_t p = 0; p < w->stride[1]; p++) {
            phase_copy(j, j->x + (image * w->in[0] + at) * row, p, to + p * s->phase_bytes);
        }
    }
    for (size_t i = 0; i < rows; i++) {
        const uint8_t *x = scratch + i * w->stride[0] * s->row_bytes;
        uint8_t *y = j->y + (image * w->out[0] + first + i) * n;
        size_t step = s->by_pixel ? w->channels : n;
        for (size_t at = 0; at < n; at += step) {
            isa_bytes()->depthwise(&j->d, x + at, y + at, step);
        }
    }
}

/* One task per thread, each with its own piece of scratch; bands are taken as they come. */
static void task(void *context, size_t thread)
{
    struct job *j = context;
    size_t units = j->bands * j->s->w.batch;
    for (size_t u = atomic_fetch_add(&j->next, 1); u < units; u = atomic_fetch_add(&j->next, 1)) {
        band_run(j, u, j->scratch + thread * thread_bytes(j->s));
    }
}

void qstream_run(const struct qstream *s, const struct qparams *p, const uint8_t *packed, const uint8_t *x, uint8_t *y,
                 void *scratch, struct run *r)
{
    struct pieces at = pieces_of((uint8_t *)(uintptr_t)packed, s->blocks * BLOCK, s->groups);
    int32_t y_zero = qdense_zero(p->y_zero, p->y_dtype);
    struct requantise q = qdense_limits(p->y_dtype, y_zero);
    uint8_t flip = p->x_dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    struct job j = {.s = s,
                    .d = {.taps = s->taps,
                          .ones = s->ones,
                          .w = at.w,
                          .add = at.add,
                          .scale = at.scale,
                          .w_zero = *at.w_zero_any != 0 ? at.w_zero : NULL,
                          .groups = s->groups,
                          .blocks = s->blocks,
                          .zero = y_zero,
                          .low = q.low,
                          .high = q.high},
                    .x = x,
                    .y = y,
                    .scratch = scratch,
                    .zero = (uint8_t)((uint32_t)qdense_zero(p->x_zero, p->x_dtype) & 0xff) ^ flip,
                    .flip = flip,
                    .bands = (s->w.out[0] + s->band_rows - 1) / s->band_rows};
    atomic_init(&j.next, 0);
    parallel(r, task, &j, team_threads(r->team));
}
