/* exif.c - the orientation of a photograph. Source: Exif 2.32 (JEITA CP-3451X), tag 0x0112 of IFD 0; TIFF 6.0 for the structure. */
#include "picture_internal.h"

#include <string.h>

#define ORIENTATION_TAG 0x0112u
#define TYPE_SHORT      3u

static uint32_t number(const uint8_t *at, size_t bytes, bool little)
{
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | at[little ? bytes - 1 - i : i];
    }
    return value;
}

uint32_t exif_orientation(const uint8_t *tiff, size_t size)
{
    if (size < 14 || (memcmp(tiff, "II", 2) != 0 && memcmp(tiff, "MM", 2) != 0)) {
        return 1;
    }
    bool little = tiff[0] == 'I';
    uint32_t at = number(tiff + 4, 4, little);
    if (number(tiff + 2, 2, little) != 42 || at > size - 2) {
        return 1;
    }
    uint32_t count = number(tiff + at, 2, little);
    for (uint32_t i = 0; i < count && 12 * ((size_t)i + 1) <= size - 2 - at; i++) {
        const uint8_t *entry = tiff + at + 2 + 12 * (size_t)i;
        if (number(entry, 2, little) == ORIENTATION_TAG && number(entry + 2, 2, little) == TYPE_SHORT) {
            uint32_t value = number(entry + 8, 2, little);
            return value >= 1 && value <= 8 ? value : 1;
        }
    }
    return 1;
}

/*
 * The stored pixel that belongs at (x, y) of the upright picture. Orientation o says where row 0 and column 0 of the stored one lie:
 * 1 top left, 2 top right, 3 bottom right, 4 bottom left, 5 left top, 6 right top, 7 right bottom, 8 left bottom.
 */
static const uint8_t *stored_at(const struct picture *p, uint32_t orientation, uint32_t x, uint32_t y)
{
    bool turned = orientation >= 5;
    uint32_t column = turned ? y : x, row = turned ? x : y;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) {
        column = p->width - 1 - column;
    }
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) {
        row = p->height - 1 - row;
    }
    return p->pixels + ((size_t)row * p->width + column) * p->channels;
}

enum pen_status picture_upright(struct picture *picture, uint32_t orientation, const char *name,
                                const struct picture_limits *limits, struct pen_error *reterr)
{
    struct picture out;
    bool turned = orientation >= 5;
    if (orientation <= 1 || orientation > 8) {
        return PEN_OK;
    }
    enum pen_status status =
        picture_new(turned ? picture->height : picture->width, turned ? picture->width : picture->height,
                    picture->channels, name, limits, &out, reterr);
    if (status != PEN_OK) {
        return status;
    }
    uint8_t *to = out.pixels;
    for (uint32_t y = 0; y < out.height; y++) {
        for (uint32_t x = 0; x < out.width; x++, to += out.channels) {
            memcpy(to, stored_at(picture, orientation, x, y), out.channels);
        }
    }
    picture_fini(picture);
    *picture = out;
    return PEN_OK;
}
