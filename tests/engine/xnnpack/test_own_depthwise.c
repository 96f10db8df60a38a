/* Each table's depthwise loop against a plain sum in double: the session's choice is only one of the tables. */
#include <criterion/criterion.h>
#include <math.h>

#ifdef __x86_64__
#define OWN_X86
#endif
#include "backend/xnnpack/own.h"
#include "cross.h"

#ifdef OWN_X86
enum { CHANNELS = 50, WIDTH = 40, KERNEL = 9, ROWS = 3 };

static float x[ROWS * WIDTH * CHANNELS], w[4 * 16 * (ROWS * KERNEL + 1)], y[WIDTH * CHANNELS];

static void fill(float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)cross_pick(-1000, 1000) * 1e-3f;
    }
}

/* The first channel of a block, as the loops expect it. */
static size_t first_of(const struct depthwise_row *d, size_t lanes, size_t block)
{
    return d->channels < lanes ? 0 : (block + 1) * lanes <= d->channels ? block * lanes : d->channels - lanes;
}

static double want(const struct depthwise_row *d, size_t lanes, size_t ox, size_t channel)
{
    size_t block = channel / lanes, at = channel - first_of(d, lanes, block);
    const float *packed = d->bias + block * d->block;
    double sum = (double)packed[at];
    for (size_t ky = 0; ky < d->kernel_h; ky++) {
        for (size_t kx = 0; kx < d->kernel_w; kx++) {
            ptrdiff_t column = (ptrdiff_t)(ox * d->stride + kx * d->dilation) - (ptrdiff_t)d->pad;
            if (column >= 0 && column < (ptrdiff_t)d->in_w) {
                sum += (double)d->x[ky * d->x_row + (size_t)column * d->x_pixel + channel] *
                       (double)packed[lanes + (ky * d->kernel_w + kx) * lanes + at];
            }
        }
    }
    return fmin(fmax(sum, (double)d->min), (double)d->max);
}

static void row(const struct own *own, struct depthwise_row *d)
{
    const size_t lanes = own->lanes, blocks = (d->channels + lanes - 1) / lanes;
    d->block = (d->kernel_h * d->kernel_w + 1) * lanes;
    cr_assert(blocks * d->block <= sizeof w / sizeof *w);
    /* Channels that two blocks hold have the same weights in both. */
    fill(w, blocks * d->block);
    for (size_t i = 0; blocks > 1 && i < d->block; i++) {
        size_t from = first_of(d, lanes, blocks - 1) + i % lanes;
        if (from < (blocks - 1) * lanes) {
            w[(blocks - 1) * d->block + i] = w[from / lanes * d->block + i / lanes * lanes + from % lanes];
        }
    }
    d->x = x, d->bias = w, d->w = w + lanes, d->y = y;
    d->x_row = WIDTH * CHANNELS, d->x_pixel = d->y_pixel = CHANNELS;
    own->depthwise(d);
    for (size_t i = 0; i < d->out_w * CHANNELS; i++) {
        size_t channel = i % CHANNELS;
        if (channel < d->channels) {
            double expected = want(d, lanes, i / CHANNELS, channel);
            cr_assert(fabs((double)y[i] - expected) <= 1e-5 + 1e-4 * fabs(expected), "%s: output %zu", own->name, i);
        }
    }
}

static void rows(const struct own *own)
{
    fill(x, sizeof x / sizeof *x);
    for (int i = 0; i < 200; i++) {
        struct depthwise_row d = {.kernel_h = (size_t)cross_pick(0, ROWS), .kernel_w = (size_t)cross_pick(1, KERNEL)};
        d.stride = (size_t)cross_pick(1, 3);
        d.dilation = (size_t)cross_pick(1, 2);
        d.pad = (size_t)cross_pick(0, (int64_t)d.kernel_w - 1);
        d.in_w = (size_t)cross_pick(1, WIDTH);
        d.out_w = (size_t)cross_pick(1, WIDTH);
        d.channels = (size_t)cross_pick(1, CHANNELS);
        d.min = i % 2 ? -0.5f : -INFINITY;
        d.max = i % 3 ? 0.5f : INFINITY;
        /* Outputs whose windows have all columns. */
        size_t span = (d.kernel_w - 1) * d.dilation + 1;
        d.inside_from = (d.pad + d.stride - 1) / d.stride;
        d.inside_to = d.in_w + d.pad >= span ? (d.in_w + d.pad - span) / d.stride + 1 : 0;
        row(own, &d);
    }
}
#endif

Test(own_depthwise, every_instruction_set)
{
#ifdef OWN_X86
    if (__builtin_cpu_supports("avx2")) {
        rows(&own_avx2);
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        rows(&own_avx512);
    }
#endif
}
