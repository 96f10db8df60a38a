/* Patches of an image as rows of a matrix. */
#include "backend/xnnpack/patches.h"

#include <string.h>

void patches_find(const struct dense_image *g, const float *x, size_t first, size_t count, struct patch_origin *o)
{
    size_t pixels = g->out_h * g->out_w;
    size_t image_floats = g->in_h * g->in_w * g->pixel_stride;
    size_t b = first / pixels, oy = first % pixels / g->out_w, ox = first % g->out_w;
    for (size_t i = 0; i < count; i++) {
        o[i].image = x + b * image_floats;
        o[i].y = (ptrdiff_t)(oy * g->stride_h) - (ptrdiff_t)g->pad_top;
        o[i].x = (ptrdiff_t)(ox * g->stride_w) - (ptrdiff_t)g->pad_left;
        if (++ox == g->out_w) {
            ox = 0;
            if (++oy == g->out_h) {
                oy = 0;
                b++;
            }
        }
    }
}

/* Rows of a few floats, as first layers have them, are sooner copied in place than a call of memcpy finds out how long they are. */
static inline void floats_copy(float *to, const float *from, size_t count)
{
    if (count > 16) {
        memcpy(to, from, count * sizeof *to);
    } else if (count >= 8) {
        float a[8], b[8]; /* the halves overlap */
        memcpy(a, from, sizeof a);
        memcpy(b, from + count - 8, sizeof b);
        memcpy(to, a, sizeof a);
        memcpy(to + count - 8, b, sizeof b);
    } else if (count >= 4) {
        float a[4], b[4];
        memcpy(a, from, sizeof a);
        memcpy(b, from + count - 4, sizeof b);
        memcpy(to, a, sizeof a);
        memcpy(to + count - 4, b, sizeof b);
    } else {
        for (size_t i = 0; i < count; i++) {
            to[i] = from[i];
        }
    }
}

/* `count` floats of kernel row ky from its element `from` on (an element is kernel column * channels + channel), zeros outside of the image. */
static void kernel_row_copy(const struct dense_image *g, const struct patch_origin *o, size_t ky, size_t from,
                            size_t count, float *to)
{
    ptrdiff_t y = o->y + (ptrdiff_t)(ky * g->dilation_h);
    if (y < 0 || y >= (ptrdiff_t)g->in_h) {
        memset(to, 0, count * sizeof *to);
        return;
    }
    const float *row = o->image + (size_t)y * g->in_w * g->pixel_stride;
    bool dense = g->dilation_w == 1 && g->pixel_stride == g->channels;
    if (dense && o->x >= 0 && o->x + (ptrdiff_t)g->kernel_w <= (ptrdiff_t)g->in_w) {
        floats_copy(to, row + (size_t)o->x * g->channels + from, count);
        return;
    }
    while (count > 0) {
        size_t kx = from / g->channels, c = from % g->channels;
        size_t run = g->channels - c < count ? g->channels - c : count;
        ptrdiff_t x = o->x + (ptrdiff_t)(kx * g->dilation_w);
        if (x < 0 || x >= (ptrdiff_t)g->in_w) {
            memset(to, 0, run * sizeof *to);
        } else {
            floats_copy(to, row + (size_t)x * g->pixel_stride + c, run);
        }
        to += run;
        from += run;
        count -= run;
    }
}

bool patch_inside(const struct dense_image *g, const struct patch_origin *o)
{
    return g->dilation_w == 1 && g->pixel_stride == g->channels && o->x >= 0 && o->y >= 0 &&
           o->x + (ptrdiff_t)g->kernel_w <= (ptrdiff_t)g->in_w &&
           o->y + (ptrdiff_t)((g->kernel_h - 1) * g->dilation_h) < (ptrdiff_t)g->in_h;
}

void patch_copy(const struct dense_image *g, const struct patch_origin *o, size_t k0, size_t count, float *to)
{
    size_t width = g->kernel_w * g->channels;
    if (count == g->kernel_h * width && patch_inside(g, o)) {
        const size_t step = g->dilation_h * g->in_w * g->channels;
        const float *from = o->image + ((size_t)o->y * g->in_w + (size_t)o->x) * g->channels;
        for (size_t ky = 0; ky < g->kernel_h; ky++, from += step, to += width) {
            floats_copy(to, from, width);
        }
        return;
    }
    while (count > 0) {
        size_t from = k0 % width;
        size_t run = width - from < count ? width - from : count;
        kernel_row_copy(g, o, k0 / width, from, run, to);
        to += run;
        k0 += run;
        count -= run;
    }
}
