#include "backend/xnnpack/own_lanes.h"

/* Outputs of one tile: their sums stay in registers beside the weights of one kernel row. As many as hide the latency of a multiply-add. */
#if OWN_LANES == 16
#define PIXELS 8
#elif OWN_LANES == 8
#define PIXELS 6
#else
#define PIXELS 4
#endif

INLINE vf part_in(const float *p, const bool cut, size_t n)
{
    return cut ? load_some(p, n) : load(p);
}

INLINE void limit_out(const struct depthwise_row *d, float *y, vf v, const bool cut)
{
    v = clamp(v, all(d->min), all(d->max));
    if (cut) {
        store_some(y, v, d->channels);
    } else {
        store(y, v);
    }
}

/* Column `at` of a row of x. */
INLINE bool is_inside(const struct depthwise_row *d, ptrdiff_t at)
{
    return (size_t)at < d->in_w;
}

/* One output. */
INLINE void single(const struct depthwise_row *d, size_t ox, const bool cut)
{
    ptrdiff_t x0 = (ptrdiff_t)(ox * d->stride) - (ptrdiff_t)d->pad;
    vf sum = load(d->bias);
    for (size_t ky = 0; ky < d->kernel_h; ky++) {
        for (size_t kx = 0; kx < d->kernel_w; kx++) {
            ptrdiff_t at = x0 + (ptrdiff_t)(kx * d->dilation);
            if (is_inside(d, at)) {
                sum += part_in(d->x + ky * d->x_row + (size_t)at * d->x_pixel, cut, d->channels) *
                       load(d->w + (ky * d->kernel_w + kx) * OWN_LANES);
            }
        }
    }
    limit_out(d, d->y + ox * d->y_pixel, sum, cut);
}

/*
 * Some outputs side by side. Each input is loaded once for all outputs that it is part of. Constants where this is expanded: pixels, kw, stride, and whether
 * some columns lie outside (edge).
 */
INLINE void tile(const struct depthwise_row *d, size_t ox, const size_t pixels, const size_t kw, const size_t stride,
                 const bool edge)
{
    vf sum[PIXELS];
    const vf bias = load(d->bias);
    UNROLL
    for (size_t p = 0; p < pixels; p++) {
        sum[p] = bias;
    }
    const ptrdiff_t x0 = (ptrdiff_t)(ox * stride) - (ptrdiff_t)d->pad;
    const float *row = d->x + x0 * (ptrdiff_t)d->x_pixel, *w = d->w;
    for (size_t ky = 0; ky < d->kernel_h; ky++, row += d->x_row) {
        vf weights[7];
        UNROLL
        for (size_t kx = 0; kx < kw; kx++) {
            weights[kx] = load(w + kx * OWN_LANES);
        }
        w += kw * OWN_LANES;
        UNROLL_MORE
        for (size_t i = 0; i < (pixels - 1) * stride + kw; i++) {
            if (edge && !is_inside(d, x0 + (ptrdiff_t)i)) {
                continue;
            }
            const vf v = load(row + i * d->x_pixel);
            UNROLL
            for (size_t p = 0; p < pixels; p++) {
                if (i >= p * stride && i - p * stride < kw) {
                    sum[p] += v * weights[i - p * stride];
                }
            }
        }
    }
    UNROLL
    for (size_t p = 0; p < pixels; p++) {
        limit_out(d, d->y + (ox + p) * d->y_pixel, sum[p], false);
    }
}

/* The same for any kernel, stride and dilation, and for fewer channels than a vector has. */
INLINE void tile_any(const struct depthwise_row *d, size_t ox, const size_t pixels, const bool edge, const bool cut)
{
    vf sum[PIXELS];
    const vf bias = load(d->bias);
    UNROLL
    for (size_t p = 0; p < pixels; p++) {
        sum[p] = bias;
    }
    const ptrdiff_t x0 = (ptrdiff_t)(ox * d->stride) - (ptrdiff_t)d->pad;
    const float *row = d->x, *w = d->w;
    for (size_t ky = 0; ky < d->kernel_h; ky++, row += d->x_row) {
        for (size_t kx = 0; kx < d->kernel_w; kx++, w += OWN_LANES) {
            const vf weight = load(w);
            ptrdiff_t at = x0 + (ptrdiff_t)(kx * d->dilation);
            UNROLL
            for (size_t p = 0; p < pixels; p++, at += (ptrdiff_t)d->stride) {
                if (!edge || is_inside(d, at)) {
                    sum[p] += part_in(row + at * (ptrdiff_t)d->x_pixel, cut, d->channels) * weight;
                }
            }
        }
    }
    UNROLL
    for (size_t p = 0; p < pixels; p++) {
        limit_out(d, d->y + (ox + p) * d->y_pixel, sum[p], cut);
    }
}

/* Kernels and strides that have code of their own. */
INLINE void tile_of(const struct depthwise_row *d, size_t ox, const size_t pixels, const bool edge)
{
    const size_t form = d->dilation == 1 && d->stride <= 2 ? d->kernel_w * 2 + d->stride : 0;
    switch (form) {
    case 3 * 2 + 1:
        tile(d, ox, pixels, 3, 1, edge);
        break;
    case 3 * 2 + 2:
        tile(d, ox, pixels, 3, 2, edge);
        break;
    case 5 * 2 + 1:
        tile(d, ox, pixels, 5, 1, edge);
        break;
    case 5 * 2 + 2:
        tile(d, ox, pixels, 5, 2, edge);
        break;
    case 7 * 2 + 1:
        tile(d, ox, pixels, 7, 1, edge);
        break;
    default:
        tile_any(d, ox, pixels, edge, false);
        break;
    }
}

/* The same outputs for the channels of the next vector; the last one ends with the last channel. */
static inline void block_next(struct depthwise_row *d, size_t done, size_t all)
{
    size_t step = all - done < OWN_LANES ? all - done : OWN_LANES;
    d->x += step;
    d->y += step;
    d->bias += d->block;
    d->w += d->block;
}

/* All channels of some outputs, so that memory is walked through in its order. */
INLINE void tile_blocks(const struct depthwise_row *d, size_t ox, const size_t pixels, const bool edge)
{
    struct depthwise_row part = *d;
    for (size_t done = OWN_LANES;; done += OWN_LANES) {
        tile_of(&part, ox, pixels, edge);
        if (done >= d->channels) {
            return;
        }
        block_next(&part, done, d->channels);
    }
}

/* Tiles from left to right; the last one overlaps the one before. */
INLINE void row_whole(const struct depthwise_row *d, const size_t pixels)
{
    for (size_t at = 0; at < d->out_w; at += pixels) {
        size_t ox = at + pixels <= d->out_w ? at : d->out_w - pixels;
        if (ox >= d->inside_from && ox + pixels <= d->inside_to) {
            tile_blocks(d, ox, pixels, false);
        } else {
            tile_blocks(d, ox, pixels, true);
        }
    }
}

/* Fewer outputs than a tile has. */
static void row_narrow(const struct depthwise_row *d)
{
    struct depthwise_row part = *d;
    for (size_t done = OWN_LANES;; done += OWN_LANES) {
        for (size_t ox = 0; ox < d->out_w; ox++) {
            single(&part, ox, false);
        }
        if (done >= d->channels) {
            return;
        }
        block_next(&part, done, d->channels);
    }
}

/* Few channels: some lanes of each vector are not there. */
static void row_cut(const struct depthwise_row *d)
{
    size_t ox = 0;
    for (; ox + PIXELS <= d->out_w; ox += PIXELS) {
        tile_any(d, ox, PIXELS, true, true);
    }
    for (; ox < d->out_w; ox++) {
        single(d, ox, true);
    }
}

/*
 * Outputs of a tile: the last one overlaps the one before, and each has some work besides; so many that all together cost least. PIXELS / 2 to PIXELS, and
 * out_w at most.
 */
static size_t width_of(size_t out_w)
{
    size_t best = PIXELS / 2, least = SIZE_MAX;
    for (size_t p = PIXELS; p >= PIXELS / 2; p--) {
        const size_t cost = (out_w + p - 1) / p * (p + 1);
        if (p <= out_w && cost < least) {
            best = p;
            least = cost;
        }
    }
    return best;
}

void OWN(own_depthwise)(const struct depthwise_row *d)
{
    if (d->channels < OWN_LANES) {
        row_cut(d);
        return;
    }
    if (d->out_w < PIXELS / 2) {
        row_narrow(d);
        return;
    }
    switch (width_of(d->out_w)) {
    case PIXELS:
        row_whole(d, PIXELS);
        break;
    case PIXELS - 1:
        row_whole(d, PIXELS - 1);
        break;
#if PIXELS > 4
    case PIXELS - 2:
        row_whole(d, PIXELS - 2);
        break;
#endif
#if PIXELS > 6
    case PIXELS - 3:
        row_whole(d, PIXELS - 3);
        break;
#endif
    default:
        row_whole(d, PIXELS / 2);
        break;
    }
}
