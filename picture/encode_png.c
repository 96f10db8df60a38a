/* encode_png.c - a picture as a PNG in memory. */
#include "picture.h"

#include <png.h>

static png_image image_of(const struct picture *picture)
{
    return (png_image){.version = PNG_IMAGE_VERSION,
                       .width = picture->width,
                       .height = picture->height,
                       .format = picture->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB,
                       .flags = PNG_IMAGE_FLAG_FAST};
}

size_t picture_png_room(const struct picture *picture)
{
    png_image image = image_of(picture);
    return PNG_IMAGE_PNG_SIZE_MAX(image);
}

enum pen_status picture_encode_png(const struct picture *picture, uint8_t *to, size_t room, size_t *ret_size,
                                   struct pen_error *reterr)
{
    png_image image = image_of(picture);
    png_alloc_size_t size = room;
    if (!png_image_write_to_memory(&image, to, &size, 0, picture->pixels, 0, NULL))
        return pen_error_set(reterr, PEN_ERR_INVALID, "a picture of %u x %u pixels cannot be a PNG: %s", picture->width,
                             picture->height, image.message);
    *ret_size = (size_t)size;
    return PEN_OK;
}
