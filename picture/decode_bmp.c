/*
 * decode_bmp.c - uncompressed Windows bitmaps of 8 (palette), 24 and 32 bits; rows from the bottom up unless the height is negative. Of 32 bits the fourth byte, which
 * hardly any program fills, is passed over.
 */
#include "picture_internal.h"

#include <stdlib.h>

static uint32_t u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

struct bmp {
    uint32_t width, height, bits, pixels_at, palette_at, palette_count;
    bool top_down;
    size_t stride;   /* rows are padded to four bytes */
    uint32_t rgb[3]; /* which byte of a pixel is red, green and blue */
};

/* The byte that a mask means; 4 when it means anything else. */
static uint32_t byte_of(uint32_t mask)
{
    uint32_t i = 0;
    while (i < 4 && mask != 0xFFu << (8 * i)) {
        i++;
    }
    return i;
}

/* Blue comes first, unless compression 3 says otherwise by masks behind the first 40 bytes. */
static bool bmp_order(const uint8_t *b, size_t size, bool masks, struct bmp *h)
{
    for (uint32_t c = 0; c < 3; c++) {
        h->rgb[c] = !masks ? 2 - c : size >= 66 ? byte_of(u32(b + 54 + 4 * (size_t)c)) : 4;
    }
    return h->rgb[0] < 4 && h->rgb[1] < 4 && h->rgb[2] < 4;
}

static enum pen_status bmp_header(const struct picture_source *s, struct bmp *h, struct pen_error *reterr)
{
    const uint8_t *b = s->bytes;
    const char *name = s->name;
    size_t size = s->size;
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
        return pen_error_set(
            reterr, PEN_ERR_UNSUPPORTED,
            "%s: a BMP of %u bits and compression %u; 8, 24 and 32 plain bits are read: convert it to PNG or JPEG.",
            name, h->bits, compression);
    }
    if (!bmp_order(b, size, compression == 3, h)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: a BMP whose masks are not whole bytes; save it with 24 bits a pixel.", name);
    }
    h->stride = (((size_t)h->width * h->bits + 31) / 32) * 4;
    bool palette_ok = h->bits != 8 || (h->palette_count <= 256 && palette_at + 4 * (uint64_t)h->palette_count <= size);
    if (h->pixels_at > size || (h->height && h->stride > (size - h->pixels_at) / h->height) || !palette_ok) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the BMP ends before its pixels do.", name);
    }
    return PEN_OK;
}

static void bmp_pixel(const struct bmp *h, const uint8_t *b, const uint8_t *row, uint32_t x, uint8_t *rgb)
{
    static const uint8_t black[4] = {0};
    const uint8_t *from = row + (size_t)x * (h->bits / 8);
    if (h->bits == 8) {
        from = row[x] < h->palette_count ? b + h->palette_at + 4u * row[x] : black;
    }
    for (uint32_t c = 0; c < 3; c++) {
        rgb[c] = from[h->rgb[c]];
    }
}

enum pen_status decode_bmp(const struct picture_source *s, struct picture *ret_picture, struct picture_info *ret_info,
                           struct pen_error *reterr)
{
    struct bmp h = {0};
    struct picture picture;
    enum pen_status status = bmp_header(s, &h, reterr);
    status = status == PEN_OK ? picture_new(h.width, h.height, 3, s->name, &s->limits, &picture, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    for (uint32_t y = 0; y < h.height; y++) {
        const uint8_t *row = s->bytes + h.pixels_at + h.stride * (h.top_down ? y : h.height - 1 - y);
        for (uint32_t x = 0; x < h.width; x++) {
            bmp_pixel(&h, s->bytes, row, x, picture.pixels + ((size_t)y * h.width + x) * 3);
        }
    }
    *ret_info = (struct picture_info){h.width, h.height, 1};
    *ret_picture = picture;
    return PEN_OK;
}
