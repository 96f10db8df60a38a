#include "backend/xnnpack/qdepthwise.h"

#include <string.h>

#include "backend/xnnpack/isa.h"

#define BLOCK 256 /* channels whose sums stay in the first cache */

bool qdepthwise_fits(const struct filter *f)
{
    return f->in == 1 && f->out == f->groups && f->kernel_h * f->kernel_w <= QDEPTHWISE_TAPS;
}

/* add [out], scale [out], weights less their zero point [taps][out] */
size_t qdepthwise_packed_bytes(const struct filter *f)
{
    size_t taps = f->kernel_h * f->kernel_w;
    return (f->out * (sizeof(double) + sizeof(float) + taps * sizeof(int16_t)) + 63) / 64 * 64;
}

void qdepthwise_pack(const struct filter *f, const struct qparams *p, uint8_t *packed)
{
    double *add = (double *)(void *)packed;
    float *scale = (float *)(void *)(add + f->out);
    int16_t *to = (int16_t *)(void *)(scale + f->out);
    for (size_t o = 0; o < f->out; o++) {
        add[o] = p->bias != NULL ? (double)p->bias[o] : 0.0;
        scale[o] = qdense_scale(p, o);
    }
    for (size_t tap = 0; tap < f->kernel_h * f->kernel_w; tap++) {
        const uint8_t *from = (const uint8_t *)p->w + tap / f->kernel_w * f->h_step + tap % f->kernel_w * f->w_step;
        for (size_t o = 0; o < f->out; o++) {
            *to++ = (int16_t)(qdense_zero(from + o * f->out_step, p->w_dtype) - qdense_w_zero(p, o));
        }
    }
}

struct job {
    const struct window *w;
    const struct qparams *p;
    const double *add;
    const float *scale;
    const int16_t *weights;
    const uint8_t *x;
    void *y;
};

/* The pixels under one window; NULL outside. A position above or left of the image wraps and so is past its end. */
static size_t taps_find(const struct job *j, const uint8_t *image, size_t oy, size_t ox, const uint8_t **taps)
{
    const struct window *w = j->w;
    size_t count = 0;
    for (size_t kh = 0; kh < w->kernel[0]; kh++) {
        size_t y = oy * w->stride[0] + kh * w->dilation[0] - w->begin[0];
        for (size_t kw = 0; kw < w->kernel[1]; kw++) {
            size_t x = ox * w->stride[1] + kw * w->dilation[1] - w->begin[1];
            taps[count++] = y < w->in[0] && x < w->in[1] ? image + (y * w->in[1] + x) * w->channels : NULL;
        }
    }
    return count;
}

static void pixel(const struct job *j, const uint8_t **taps, size_t count, size_t at)
{
    const struct qparams *p = j->p;
    int32_t x_zero = qdense_zero(p->x_zero, p->x_dtype) + (p->x_dtype == PEN_DTYPE_I8 ? 128 : 0), sums[BLOCK];
    bool wide = p->y_dtype == PEN_DTYPE_I32;
    struct requantise q = qdense_limits(p->y_dtype, wide ? 0 : qdense_zero(p->y_zero, p->y_dtype));
    for (size_t c = 0; c < j->w->channels; c += BLOCK) {
        size_t n = j->w->channels - c < BLOCK ? j->w->channels - c : BLOCK;
        isa_int()->depthwise(taps, count, j->weights + c, j->w->channels, p->x_dtype == PEN_DTYPE_I8 ? 0x80 : 0, x_zero,
                             sums, n);
        q.add = j->add + c;
        q.scale = j->scale + c;
        if (wide) {
            isa_int()->add(sums, &q, (int32_t *)j->y + at + c, n);
        } else {
            isa_int()->requantise(sums, &q, (uint8_t *)j->y + at + c, n);
        }
        for (size_t t = 0; t < count; t++) {
            taps[t] = taps[t] != NULL ? taps[t] + n : NULL;
        }
    }
}

/* One output row. */
static void row_task(void *context, size_t unit)
{
    const struct job *j = context;
    const struct window *w = j->w;
    const uint8_t *image = j->x + unit / w->out[0] * w->in[0] * w->in[1] * w->channels;
    const uint8_t *taps[QDEPTHWISE_TAPS];
    for (size_t ox = 0; ox < w->out[1]; ox++) {
        size_t count = taps_find(j, image, unit % w->out[0], ox, taps);
        pixel(j, taps, count, (unit * w->out[1] + ox) * w->channels);
    }
}

void qdepthwise_run(const struct window *w, const struct qparams *p, const uint8_t *packed, const uint8_t *x, void *y,
                    struct run *r)
{
    struct job j = {.w = w, .p = p, .x = x, .y = y, .add = (const double *)(const void *)packed};
    j.scale = (const float *)(const void *)(j.add + w->channels);
    j.weights = (const int16_t *)(const void *)(j.scale + w->channels);
    parallel(r, row_task, &j, w->batch * w->out[0]);
}
