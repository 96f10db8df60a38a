/* picture.c - memory of pictures, with its caps; channels. */
#include "picture_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS_DEFAULT (UINT64_C(100) * 1000 * 1000)
#define FILE_DEFAULT   (UINT64_C(256) << 20)
#define MEMORY_DEFAULT (UINT64_C(1) << 30)

struct picture_limits limits_or_default(const struct picture_limits *limits)
{
    struct picture_limits l = limits ? *limits : (struct picture_limits){0};
    l.pixels = l.pixels ? l.pixels : PIXELS_DEFAULT;
    l.file_bytes = l.file_bytes ? l.file_bytes : FILE_DEFAULT;
    l.memory_bytes = l.memory_bytes ? l.memory_bytes : MEMORY_DEFAULT;
    return l;
}

enum pen_status picture_size_check(uint32_t width, uint32_t height, uint32_t channels, const char *name,
                                   const struct picture_limits *limits, struct pen_error *reterr)
{
    uint64_t count = (uint64_t)width * height;
    if (!width || !height || count > limits->pixels) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "%s has %" PRIu32 "x%" PRIu32 " pixels; 1 to %" PRIu64
                             " are taken: make it smaller first.",
                             name, width, height, limits->pixels);
    }
    if (count > limits->memory_bytes / channels || count > SIZE_MAX / channels) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "%s needs more than %" PRIu64 " bytes of memory for %" PRIu32 "x%" PRIu32
                             " pixels: make it smaller first.",
                             name, limits->memory_bytes, width, height);
    }
    return PEN_OK;
}

enum pen_status picture_new(uint32_t width, uint32_t height, uint32_t channels, const char *name,
                            const struct picture_limits *limits, struct picture *ret_picture, struct pen_error *reterr)
{
    struct picture_limits l = limits_or_default(limits);
    enum pen_status status = picture_size_check(width, height, channels, name, &l, reterr);
    if (status != PEN_OK) {
        return status;
    }
    uint8_t *pixels = malloc((size_t)width * height * channels + ROW_SPARE);
    if (!pixels) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for %" PRIu32 "x%" PRIu32 " pixels.", name,
                             width, height);
    }
    *ret_picture = (struct picture){width, height, channels, pixels};
    return PEN_OK;
}

void picture_fini(struct picture *picture)
{
    free(picture->pixels);
    picture->pixels = NULL;
}

/* 16-bit fixed point of BT.601, rounded. */
static void to_grey(const uint8_t *rgb, size_t count, uint8_t *grey)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] + 7471u * rgb[3 * i + 2];
        grey[i] = (uint8_t)((sum + 32768u) >> 16);
    }
}

static void to_rgb(const uint8_t *grey, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; i++) {
        memset(rgb + 3 * i, grey[i], 3);
    }
}

void row_convert(const uint8_t *row, uint32_t width, uint32_t channels, uint8_t *to)
{
    (channels == 3 ? to_grey : to_rgb)(row, width, to);
}

enum pen_status picture_convert(const struct picture *picture, uint32_t channels, struct picture *ret_picture,
                                struct pen_error *reterr)
{
    struct picture out;
    if (channels != 1 && channels != 3) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "a picture has 1 or 3 channels, not %" PRIu32 ".", channels);
    }
    enum pen_status status = picture_new(picture->width, picture->height, channels, "the picture", NULL, &out, reterr);
    if (status != PEN_OK) {
        return status;
    }
    size_t count = (size_t)picture->width * picture->height;
    if (picture->channels == channels) {
        memcpy(out.pixels, picture->pixels, count * channels);
    } else if (channels == 1) {
        to_grey(picture->pixels, count, out.pixels);
    } else {
        to_rgb(picture->pixels, count, out.pixels);
    }
    *ret_picture = out;
    return PEN_OK;
}
