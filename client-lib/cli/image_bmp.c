/* image_bmp.c - uncompressed Windows bitmaps of 8 (palette), 24 and 32 bits; rows from the bottom up unless the height is negative. */
#include "image.h"

#include <stdlib.h>

static uint32_t u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

struct bmp {
    uint32_t width, height, bits, pixels_at, palette_at, palette_count;
    bool top_down;
    size_t stride; /* rows are padded to four bytes */
};

static enum pen_status bmp_header(const uint8_t *b, size_t size, const char *name, struct bmp *h,
                                  struct pen_error *reterr)
{
    if (size < 54 || u32(b + 14) < 40) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the BMP header is cut off or of OS/2's kind.", name);
    }
    uint32_t compression = u32(b + 30), raw_height = u32(b + 22);
    h->width = u32(b + 18);
    h->top_down = raw_height >> 31;
    h->height = h->top_down ? 0u - raw_height : raw_height;
    h->bits = b[28] | (uint32_t)b[29] << 8;
    h->pixels_at = u32(b + 10);
    h->palette_count = u32(b + 46) ? u32(b + 46) : 256;
    uint64_t palette_at = 14 + (uint64_t)u32(b + 14);
    h->palette_at = (uint32_t)palette_at;
    if ((h->bits != 8 && h->bits != 24 && h->bits != 32) ||
        (compression != 0 && !(compression == 3 && h->bits == 32))) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: a BMP of %u bits and compression %u; 8, 24 and 32 plain bits are read.", name,
                             h->bits, compression);
    }
    if (!h->width || !h->height || (uint64_t)h->width * h->height > IMAGE_PIXELS_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s: %ux%u pixels; 1 to %u are taken.", name, h->width,
                             h->height, IMAGE_PIXELS_MAX);
    }
    h->stride = (((size_t)h->width * h->bits + 31) / 32) * 4;
    bool palette_ok = h->bits != 8 || (h->palette_count <= 256 && palette_at + 4 * (uint64_t)h->palette_count <= size);
    if (h->pixels_at > size || h->stride * h->height > size - h->pixels_at || !palette_ok) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the BMP ends before its pixels do.", name);
    }
    return PEN_OK;
}

/* Blue comes first in files. */
static void bmp_pixel(const struct bmp *h, const uint8_t *b, const uint8_t *row, uint32_t x, uint8_t *rgb)
{
    static const uint8_t black[4] = {0};
    const uint8_t *from = row + (size_t)x * (h->bits / 8);
    if (h->bits == 8) {
        from = row[x] < h->palette_count ? b + h->palette_at + 4u * row[x] : black;
    }
    rgb[0] = from[2];
    rgb[1] = from[1];
    rgb[2] = from[0];
}

enum pen_status image_decode_bmp(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                                 struct pen_error *reterr)
{
    struct bmp h = {0};
    struct image image;
    enum pen_status status = bmp_header(bytes, size, name, &h, reterr);
    status = status == PEN_OK ? image_new(h.width, h.height, 3, name, &image, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    for (uint32_t y = 0; y < h.height; y++) {
        const uint8_t *row = bytes + h.pixels_at + h.stride * (h.top_down ? y : h.height - 1 - y);
        for (uint32_t x = 0; x < h.width; x++) {
            bmp_pixel(&h, bytes, row, x, image.pixels + ((size_t)y * h.width + x) * 3);
        }
    }
    *ret_image = image;
    return PEN_OK;
}
