#include "backend/xnnpack/dense_paired.h"

#include <string.h>

#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"

#ifdef OWN_X86
#define TILE_ROWS (OWN_TILES_MR / 2)

/* Pixels along one axis under all windows, with the padding before them. */
static size_t spread(size_t out, size_t stride, size_t kernel, size_t dilation)
{
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
}

/* Rows of one call: a part of a row of results, or two rows of them; 0 = rows do not suit. More than half of the tiles are full. */
static size_t rows_of_call(size_t out_w)
{
    if (out_w <= TILE_ROWS / 2) {
        return 0;
    }
    if (out_w <= TILE_ROWS) {
        return 2 * out_w;
    }
    for (size_t parts = (out_w + OWN_TILES_MR - 1) / OWN_TILES_MR; out_w / parts > TILE_ROWS; parts++) {
        if (out_w % parts == 0) {
            return out_w / parts;
        }
    }
    return 0;
}

void dense_paired_init(struct dense *d)
{
    const struct dense_image *g = &d->image;
    if (d->direct || g->channels % 2 != 0) {
        return;
    }
    struct dense_paired *p = &d->paired;
    p->image = *g;
    p->image.channels = p->image.pixel_stride = g->channels / 2;
    p->image.in_h = spread(g->out_h, g->stride_h, g->kernel_h, g->dilation_h);
    p->image.in_w = spread(g->out_w, g->stride_w, g->kernel_w, g->dilation_w);
    p->image.pad_top = p->image.pad_left = 0;
    const size_t slack = TILE_ROWS * g->stride_w * p->image.channels;
    p->words = g->batch * p->image.in_h * p->image.in_w * p->image.channels + slack;
    const size_t rows = rows_of_call(g->out_w);
    p->in_place = rows > 0 && g->dilation_w == 1 && g->kernel_w * p->image.channels % OWN_TILES_K == 0;
    d->mr = p->in_place ? rows : d->mr;
}

struct fill_job {
    const struct dense *d;
    const float *x;
    float *to;
};

/* Pixels [0, count) of a row. */
static void pixels_pair(const struct dense_image *g, const float *from, size_t count, uint32_t *to)
{
    if (g->pixel_stride == g->channels) {
        own_pairs_make(from, to, count * g->channels);
        return;
    }
    for (size_t i = 0; i < count; i++, from += g->pixel_stride, to += g->channels / 2) {
        own_pairs_make(from, to, g->channels);
    }
}

/* One row of the image that is made. */
static void fill_task(void *context, size_t unit)
{
    const struct fill_job *j = context;
    const struct dense_image *g = &j->d->image, *p = &j->d->paired.image;
    const size_t before = g->pad_left < p->in_w ? g->pad_left : p->in_w, left = p->in_w - before;
    const size_t there = left < g->in_w ? left : g->in_w,
                 row = unit % p->in_h - g->pad_top; /* above the image: wraps */
    float *to = j->to + unit * p->in_w * p->channels;
    if (row >= g->in_h) {
        memset(to, 0, p->in_w * p->channels * sizeof *to);
        return;
    }
    memset(to, 0, before * p->channels * sizeof *to);
    to += before * p->channels;
    const float *from = j->x + (unit / p->in_h * g->in_h + row) * g->in_w * g->pixel_stride;
    pixels_pair(g, from, there, (uint32_t *)(void *)to);
    memset(to + there * p->channels, 0, (left - there) * p->channels * sizeof *to);
}

void dense_paired_fill(const struct dense *d, const float *x, float *to, struct run *r)
{
    const struct dense_image *p = &d->paired.image;
    const size_t words = p->batch * p->in_h * p->in_w * p->channels;
    struct fill_job j = {d, x, to};
    parallel(r, fill_task, &j, p->batch * p->in_h);
    memset(to + words, 0, (d->paired.words - words) * sizeof *to);
}
#else
void dense_paired_init(struct dense *d)
{
    (void)d;
}

void dense_paired_fill(const struct dense *d, const float *x, float *to, struct run *r)
{
    (void)d, (void)x, (void)to, (void)r;
}
#endif
