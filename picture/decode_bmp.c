/*
 * decode_bmp.c - uncompressed Windows and OS/2 bitmaps of 1, 4 and 8 (palette), 24 and 32 bits; rows from the bottom up unless the height is negative. Of 32 bits the fourth
 * byte, which hardly any program fills, is passed over.
 */
#include "picture_internal.h"

#include <stdlib.h>

static uint32_t u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

struct bmp {
    uint32_t width, height, bits, compression, pixels_at, palette_at, palette_count;
    uint32_t entry; /* bytes of an entry of the palette */
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

/* OS/2's first kind has sides of 16 bits and palettes of three bytes a colour. */
static void os2_read(const uint8_t *b, struct bmp *h)
{
    h->width = b[18] | (uint32_t)b[19] << 8;
    h->height = b[20] | (uint32_t)b[21] << 8;
    h->bits = b[24] | (uint32_t)b[25] << 8;
    h->palette_at = 14 + 12;
    h->entry = 3;
    uint32_t room = h->pixels_at > h->palette_at ? (h->pixels_at - h->palette_at) / h->entry : 0;
    h->palette_count = h->bits > 8 ? 0 : room < 1u << h->bits ? room : 1u << h->bits;
}

static void windows_read(const uint8_t *b, uint32_t header, struct bmp *h)
{
    uint32_t raw_height = u32(b + 22);
    h->width = u32(b + 18);
    h->top_down = raw_height >> 31;
    h->height = h->top_down ? 0u - raw_height : raw_height;
    h->bits = b[28] | (uint32_t)b[29] << 8;
    h->compression = u32(b + 30);
    h->palette_at = 14 + header;
    h->entry = 4;
    h->palette_count = u32(b + 46) ? u32(b + 46) : h->bits <= 8 ? 1u << h->bits : 256;
}

/* False: it is cut off. */
static bool header_read(const uint8_t *b, size_t size, struct bmp *h)
{
    uint32_t header = size >= 26 ? u32(b + 14) : 0;
    h->pixels_at = size >= 26 ? u32(b + 10) : 0;
    if (header == 12) {
        os2_read(b, h);
    } else if (header >= 40 && header <= size && size >= 54) {
        windows_read(b, header, h);
    }
    return header == 12 || (header >= 40 && header <= size && size >= 54);
}

static enum pen_status bmp_header(const struct picture_source *s, struct bmp *h, struct pen_error *reterr)
{
    const uint8_t *b = s->bytes;
    const char *name = s->name;
    size_t size = s->size;
    if (!header_read(b, size, h)) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the BMP header is cut off.", name);
    }
    bool palette = h->bits == 1 || h->bits == 4 || h->bits == 8;
    if ((!palette && h->bits != 24 && h->bits != 32) ||
        (h->compression != 0 && !(h->compression == 3 && h->bits == 32))) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: a BMP of %u bits and compression %u; 1, 4, 8, 24 and 32 plain bits are read: convert "
                             "it to PNG or JPEG.",
                             name, h->bits, h->compression);
    }
    if (!bmp_order(b, size, h->compression == 3, h)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: a BMP whose masks are not whole bytes; save it with 24 bits a pixel.", name);
    }
    h->stride = (((size_t)h->width * h->bits + 31) / 32) * 4;
    bool palette_ok =
        !palette || (h->palette_count <= 256 && h->palette_at + h->entry * (uint64_t)h->palette_count <= size);
    if (h->pixels_at > size || (h->height && h->stride > (size - h->pixels_at) / h->height) || !palette_ok) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the BMP ends before its pixels do.", name);
    }
    return PEN_OK;
}

static void bmp_pixel(const struct bmp *h, const uint8_t *b, const uint8_t *row, uint32_t x, uint8_t *rgb)
{
    static const uint8_t black[4] = {0};
    const uint8_t *from = row + (size_t)x * (h->bits / 8);
    if (h->bits <= 8) {
        uint32_t bit = x * h->bits % 8, index = (uint32_t)row[(size_t)x * h->bits / 8] >> (8 - h->bits - bit);
        index &= (1u << h->bits) - 1;
        from = index < h->palette_count ? b + h->palette_at + (size_t)h->entry * index : black;
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
