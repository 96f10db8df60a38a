/* decode_png.c - through libpng's simplified interface; and a PNG written by it. */
#include "picture_internal.h"

#include <string.h>

#include <png.h>

static uint32_t u32_big(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Of the chunk eXIf, which the simplified interface passes over. Chunks: length, name, data, checksum; the first begins at 8. */
static uint32_t png_orientation(const uint8_t *bytes, size_t size)
{
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        uint32_t length = u32_big(bytes + at);
        if (length > size - at - 12 || memcmp(bytes + at + 4, "IEND", 4) == 0) {
            break;
        }
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0) {
            return exif_orientation(bytes + at + 8, length);
        }
        at += (size_t)length + 12;
    }
    return 1;
}

enum pen_status decode_png(const struct picture_source *s, struct picture *ret_picture, uint32_t *ret_orientation,
                           struct pen_error *reterr)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    const png_color white = {255, 255, 255}; /* behind transparent parts */
    struct picture picture;
    if (!png_image_begin_read_from_memory(&png, s->bytes, s->size)) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken PNG: %s.", s->name, png.message);
    }
    png.format = png.format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits without a gamma are as 8 bits are, not linear light */
    enum pen_status status =
        picture_new(png.width, png.height, png.format == PNG_FORMAT_RGB ? 3 : 1, s->name, &s->limits, &picture, reterr);
    if (status != PEN_OK) {
        png_image_free(&png);
        return status;
    }
    if (!png_image_finish_read(&png, &white, picture.pixels, 0, NULL)) {
        picture_fini(&picture);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: broken PNG: %s.", s->name, png.message);
    }
    *ret_orientation = png_orientation(s->bytes, s->size);
    *ret_picture = picture;
    return PEN_OK;
}

enum pen_status picture_write_png(const char *path, const struct picture *picture, struct pen_error *reterr)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = picture->width,
                     .height = picture->height,
                     .format = picture->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&png, path, 0, picture->pixels, 0, NULL)) {
        return pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write it: %s.", path, png.message);
    }
    return PEN_OK;
}
