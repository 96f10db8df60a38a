#include "backend/xnnpack/qrow.h"

#include <string.h>

#include "backend/xnnpack/isa.h"

/* One pixel's channels into a row of words. */
static void channels_copy(const struct qdense *d, const uint8_t *x, uint8_t *row, size_t at)
{
    size_t count = d->image.channels;
    if (isa_product()->bytes == 4) {
        memset(row + at, d->x_zero & 0xff, x == NULL ? count : 0);
        memcpy(row + at, x != NULL ? x : row + at, x != NULL ? count : 0);
        return;
    }
    int16_t *wide = (int16_t *)(void *)row + at;
    if (x == NULL) {
        memset(wide, 0, count * sizeof *wide);
    } else {
        isa_int()->widen(x, d->flip, d->x_zero + (d->flip != 0 ? 128 : 0), wide, count);
    }
}

/* Tap by tap: any dilation, and groups of channels. */
static void taps_copy(const struct qdense *d, const uint8_t *first, size_t top, size_t left, uint8_t *row)
{
    const struct dense_image *i = &d->image;
    const bool bytes = isa_product()->bytes == 4;
    size_t run = i->kernel_w * i->channels, pitch = bytes ? d->run_words * 4 : run; /* numbers of a row of the window */
    for (size_t kh = 0; kh < i->kernel_h; kh++) {
        size_t y = top + kh * i->dilation_h;
        for (size_t kw = 0; kw < i->kernel_w; kw++) {
            size_t px = left + kw * i->dilation_w;
            bool inside = y < i->in_h && px < i->in_w;
            channels_copy(d, inside ? first + (y * i->in_w + px) * i->pixel_stride : NULL, row,
                          kh * pitch + kw * i->channels);
        }
        for (size_t k = 0; d->flip != 0 && bytes && k < run; k++) {
            row[kh * pitch + k] ^= 0x80;
        }
    }
}

/* The part of [start, start + count) that lies within [0, size): how much is before it, and its length. A start below 0 has wrapped. */
static size_t overlap(size_t start, size_t count, size_t size, size_t *ret_before)
{
    size_t before = start < size ? 0 : (size_t)0 - start; /* of a wrapped start: how far below 0 */
    if (before > count) {
        before = count;
    }
    *ret_before = before;
    size_t from = start + before;
    return before == count || from >= size ? 0 : count - before < size - from ? count - before : size - from;
}

/* Pixels that lie side by side: each row of the window is one run of bytes, with the padding on either side. */
static void runs_copy(const struct qdense *d, const uint8_t *first, size_t top, size_t left, uint8_t *row)
{
    const struct dense_image *i = &d->image;
    size_t above, before, c = i->channels, run = i->kernel_w * c, pitch = d->run_words * 4, step = i->in_w * c;
    size_t rows = overlap(top, i->kernel_h, i->in_h, &above), there = overlap(left, i->kernel_w, i->in_w, &before);
    int zero = (d->x_zero & 0xff) ^ d->flip;
    const uint8_t *from = first + (top + above) * step + (left + before) * c;
    for (size_t h = 0; (there < i->kernel_w || rows < i->kernel_h) && h < i->kernel_h; h++) {
        memset(row + h * pitch, zero, run);
    }
    row += above * pitch + before * c;
    for (size_t r = 0; r < rows && there > 0; r++, row += pitch, from += step) {
        isa_bytes()->copy(row, from, there * c, 1, 0, d->flip);
    }
}

void qrow_copy(const struct qdense *d, const uint8_t *x, size_t index, uint8_t *row)
{
    const struct dense_image *i = &d->image;
    const struct own_bytes *bytes = isa_bytes();
    for (size_t run = 1; run <= d->runs; run++) { /* behind the last term of each */
        memset(row + (run * d->run_words - 1) * 4, 0, 4);
    }
    if (d->plain) {
        const uint8_t *from = x + index * i->pixel_stride;
        if (bytes != NULL) {
            bytes->copy(row, from, d->k, 1, 0, d->flip);
        } else {
            isa_int()->widen(from, d->flip, d->x_zero + (d->flip != 0 ? 128 : 0), (int16_t *)(void *)row, d->k);
        }
        return;
    }
    size_t image = index / (i->out_h * i->out_w), oy = index / i->out_w % i->out_h, ox = index % i->out_w;
    size_t top = oy * i->stride_h - i->pad_top; /* outside of the image: wraps, and is past its end */
    size_t left = ox * i->stride_w - i->pad_left;
    const uint8_t *first = x + image * i->in_h * i->in_w * i->pixel_stride;
    bool side_by_side = i->dilation_h == 1 && i->dilation_w == 1 && i->pixel_stride == i->channels;
    if (bytes != NULL && side_by_side) {
        runs_copy(d, first, top, left, row);
    } else {
        taps_copy(d, first, top, left, row);
    }
}
