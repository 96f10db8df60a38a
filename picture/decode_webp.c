/* decode_webp.c - through libwebp: lossy and lossless, with and without alpha; of an animation the first frame on its canvas. */
#include "picture_internal.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

static uint32_t u32_little(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Of the chunk EXIF, whose data begin with the TIFF structure or with "Exif\0\0" before it. Chunks: name, length, data to an even length; the first begins at 12. */
static uint32_t webp_orientation(const uint8_t *bytes, size_t size)
{
    for (size_t at = 12; size >= 8 && at <= size - 8;) {
        uint32_t length = u32_little(bytes + at + 4);
        const uint8_t *data = bytes + at + 8;
        if (length > size - at - 8) {
            break;
        }
        if (memcmp(bytes + at, "EXIF", 4) == 0) {
            size_t skip = length > 6 && memcmp(data, "Exif\0", 6) == 0 ? 6 : 0;
            return exif_orientation(data + skip, length - skip);
        }
        at += 8 + (size_t)length + (length & 1);
    }
    return 1;
}

static void compose(const struct picture_options *options, const uint8_t *rgba, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t alpha = options->alpha_dropped ? 255 : rgba[4 * i + 3];
        for (size_t c = 0; c < 3; c++) {
            rgb[3 * i + c] = (uint8_t)laid_over(rgba[4 * i + c], alpha, options->background[c]);
        }
    }
}

static enum pen_status broken(const struct picture_source *s, enum pen_status status, struct pen_error *reterr)
{
    return status == PEN_ERR_NO_MEMORY
               ? pen_error_set(reterr, status, "%s: no memory to read a WebP picture.", s->name)
               : pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken WebP: its pixels are damaged or cut off.", s->name);
}

static enum pen_status first_frame(const struct picture_source *s, struct picture *picture, struct pen_error *reterr)
{
    const WebPData data = {s->bytes, s->size};
    WebPAnimDecoderOptions options;
    uint8_t *rgba = NULL;
    int time_ms = 0;
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    bool whole = decoder && WebPAnimDecoderGetNext(decoder, &rgba, &time_ms);
    if (whole) {
        compose(&s->options, rgba, (size_t)picture->width * picture->height, picture->pixels);
    }
    WebPAnimDecoderDelete(decoder);
    return whole ? PEN_OK : broken(s, PEN_ERR_CORRUPT, reterr);
}

static enum pen_status with_alpha(const struct picture_source *s, struct picture *picture, struct pen_error *reterr)
{
    size_t count = (size_t)picture->width * picture->height;
    uint8_t *rgba = malloc(count * 4);
    if (!rgba) {
        return broken(s, PEN_ERR_NO_MEMORY, reterr);
    }
    bool whole = WebPDecodeRGBAInto(s->bytes, s->size, rgba, count * 4, (int)picture->width * 4) != NULL;
    if (whole) {
        compose(&s->options, rgba, count, picture->pixels);
    }
    free(rgba);
    return whole ? PEN_OK : broken(s, PEN_ERR_CORRUPT, reterr);
}

enum pen_status decode_webp(const struct picture_source *s, struct picture *ret_picture, struct picture_info *ret_info,
                            struct pen_error *reterr)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(s->bytes, s->size, &f) != VP8_STATUS_OK || f.width <= 0 || f.height <= 0) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken WebP: its header is damaged or cut off.", s->name);
    }
    uint32_t width = (uint32_t)f.width, height = (uint32_t)f.height;
    /* libwebp holds up to two more copies of four channels: a canvas and the one before, or pixels of a lossless file */
    enum pen_status status = picture_size_check(width, height, 8, s->name, &s->limits, reterr);
    status = status == PEN_OK ? picture_new(width, height, 3, s->name, &s->limits, ret_picture, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    *ret_info = (struct picture_info){width, height, webp_orientation(s->bytes, s->size)};
    if (f.has_animation) {
        return first_frame(s, ret_picture, reterr);
    }
    if (f.has_alpha && !s->options.alpha_dropped) {
        return with_alpha(s, ret_picture, reterr);
    }
    size_t bytes = (size_t)width * height * 3;
    return WebPDecodeRGBInto(s->bytes, s->size, ret_picture->pixels, bytes, (int)width * 3)
               ? PEN_OK
               : broken(s, PEN_ERR_CORRUPT, reterr);
}
