/* resize.c - sizes. Separable: rows first, then columns, in float; rounded once at the end. */
#include "picture_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which source pixels make up each target pixel of one axis, and how much of each. */
struct taps {
    uint32_t most;   /* weights per target pixel, at most */
    uint32_t *first; /* [target] */
    uint32_t *count; /* [target] */
    float *weight;   /* [target, most] */
};

static void taps_fini(struct taps *taps)
{
    free(taps->first);
    free(taps->count);
    free(taps->weight);
}

/* Triangle filter around the target's centre in source coordinates, (i + 0.5) * scale; at least one pixel wide. */
static void taps_bilinear(struct taps *taps, uint32_t from, uint32_t i, double scale, double support)
{
    double centre = (i + 0.5) * scale, sum = 0.0;
    double low = floor(centre - support + 0.5), high = floor(centre + support + 0.5);
    uint32_t first = low < 0 ? 0 : (uint32_t)low;
    uint32_t last = high > from ? from : (uint32_t)high;
    float *weight = taps->weight + (size_t)i * taps->most;
    uint32_t count = 0;
    for (uint32_t s = first; s < last && count < taps->most; s++) {
        double distance = fabs((s + 0.5 - centre) / support);
        double w = distance < 1.0 ? 1.0 - distance : 0.0;
        weight[count++] = (float)w;
        sum += w;
    }
    for (uint32_t k = 0; k < count; k++) {
        weight[k] = (float)(weight[k] / sum);
    }
    taps->first[i] = first;
    taps->count[i] = count;
}

static void taps_nearest(struct taps *taps, uint32_t from, uint32_t i, double scale)
{
    uint32_t source = (uint32_t)((i + 0.5) * scale);
    taps->first[i] = source < from ? source : from - 1;
    taps->count[i] = 1;
    taps->weight[(size_t)i * taps->most] = 1.0f;
}

/* Target pixel i covers the source from i * scale to (i + 1) * scale; a source pixel weighs as much as is covered of it. */
static void taps_area(struct taps *taps, uint32_t from, uint32_t i, double scale)
{
    double low = i * scale, high = (i + 1) * scale;
    uint32_t first = (uint32_t)low, count = 0;
    for (uint32_t s = first; s < from && (double)s < high && count < taps->most; s++) {
        double begin = (double)s > low ? (double)s : low, end = s + 1.0 < high ? s + 1.0 : high;
        taps->weight[(size_t)i * taps->most + count++] = (float)((end - begin) / scale);
    }
    taps->first[i] = first;
    taps->count[i] = count;
}

static bool taps_init(struct taps *taps, uint32_t from, uint32_t to, enum picture_filter filter)
{
    double scale = (double)from / to;
    double support = scale > 1.0 ? scale : 1.0;
    taps->most = (uint32_t)ceil(support) * 2 + 1;
    taps->first = calloc(to, sizeof *taps->first);
    taps->count = calloc(to, sizeof *taps->count);
    taps->weight = calloc((size_t)to * taps->most, sizeof *taps->weight);
    if (!taps->first || !taps->count || !taps->weight) {
        taps_fini(taps);
        return false;
    }
    for (uint32_t i = 0; i < to; i++) {
        if (filter == PICTURE_NEAREST) {
            taps_nearest(taps, from, i, scale);
        } else if (filter == PICTURE_AREA) {
            taps_area(taps, from, i, scale);
        } else {
            taps_bilinear(taps, from, i, scale, support);
        }
    }
    return true;
}

/* A part of a picture; rows are `stride` bytes apart. */
struct part {
    const uint8_t *pixels;
    uint32_t width, height, channels;
    size_t stride;
};

static void across(const struct part *in, const struct taps *taps, uint32_t width, uint32_t y, float *row)
{
    const uint8_t *from = in->pixels + in->stride * y;
    for (uint32_t x = 0; x < width; x++) {
        const float *weight = taps->weight + (size_t)x * taps->most;
        for (uint32_t c = 0; c < in->channels; c++) {
            float sum = 0.0f;
            for (uint32_t k = 0; k < taps->count[x]; k++) {
                sum += weight[k] * from[(size_t)(taps->first[x] + k) * in->channels + c];
            }
            row[(size_t)x * in->channels + c] = sum;
        }
    }
}

static uint8_t rounded(float value)
{
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)(value + 0.5f);
}

/* rows: [in.height, width, channels]. Writes into `out` at (left, top). */
static void down(const struct part *in, const struct taps *taps, const float *rows, uint32_t width, uint32_t height,
                 struct picture *out, uint32_t left, uint32_t top)
{
    size_t line = (size_t)width * in->channels;
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *to = out->pixels + ((size_t)(top + y) * out->width + left) * out->channels;
        const float *weight = taps->weight + (size_t)y * taps->most;
        for (size_t x = 0; x < line; x++) {
            float sum = 0.0f;
            for (uint32_t k = 0; k < taps->count[y]; k++) {
                sum += weight[k] * rows[(taps->first[y] + k) * line + x];
            }
            to[x] = rounded(sum);
        }
    }
}

static enum pen_status scale_into(const struct part *in, uint32_t width, uint32_t height, enum picture_filter filter,
                                  struct picture *out, uint32_t left, uint32_t top, struct pen_error *reterr)
{
    struct taps columns = {0}, lines = {0};
    uint64_t bytes = (uint64_t)in->height * width * in->channels * sizeof(float),
             most = limits_or_default(NULL).memory_bytes;
    if (bytes > most) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "resizing %" PRIu32 "x%" PRIu32 " pixels to %" PRIu32 "x%" PRIu32
                             " needs more than %" PRIu64 " bytes: make the picture smaller first.",
                             in->width, in->height, width, height, most);
    }
    float *rows = malloc((size_t)bytes);
    bool ok = rows && taps_init(&columns, in->width, width, filter);
    ok = ok && taps_init(&lines, in->height, height, filter);
    if (ok) {
        for (uint32_t y = 0; y < in->height; y++) {
            across(in, &columns, width, y, rows + (size_t)y * width * in->channels);
        }
        down(in, &lines, rows, width, height, out, left, top);
        taps_fini(&lines);
        taps_fini(&columns);
    } else if (columns.first) {
        taps_fini(&columns);
    }
    free(rows);
    return ok ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to resize a picture.");
}

static uint32_t share(uint32_t whole, uint32_t part, uint32_t of)
{
    uint64_t value = ((uint64_t)whole * part + of / 2) / of;
    return value < 1 ? 1 : (uint32_t)value;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

enum pen_status picture_resize(const struct picture *picture, uint32_t width, uint32_t height,
                               enum picture_filter filter, enum picture_fit fit, struct picture *ret_image,
                               struct pen_error *reterr)
{
    struct picture out;
    struct part in = {picture->pixels, picture->width, picture->height, picture->channels,
                      (size_t)picture->width * picture->channels};
    uint32_t to_width = width, to_height = height;
    enum pen_status status = picture_new(width, height, picture->channels, "the resized picture", NULL, &out, reterr);
    if (status != PEN_OK) {
        return status;
    }
    bool wide =
        (uint64_t)picture->width * height > (uint64_t)picture->height * width; /* wider than the target's proportions */
    if (fit == PICTURE_CROP) {
        in.width = wide ? least(share(picture->height, width, height), picture->width) : picture->width;
        in.height = wide ? picture->height : least(share(picture->width, height, width), picture->height);
        in.pixels +=
            (picture->height - in.height) / 2 * in.stride + (size_t)(picture->width - in.width) / 2 * in.channels;
    } else if (fit == PICTURE_PAD) {
        to_width = wide ? width : least(share(height, picture->width, picture->height), width);
        to_height = wide ? least(share(width, picture->height, picture->width), height) : height;
        memset(out.pixels, 0, (size_t)width * height * picture->channels);
    }
    status =
        scale_into(&in, to_width, to_height, filter, &out, (width - to_width) / 2, (height - to_height) / 2, reterr);
    if (status != PEN_OK) {
        picture_fini(&out);
        return status;
    }
    *ret_image = out;
    return PEN_OK;
}
