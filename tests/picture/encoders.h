/*
 * encoders.h - files as libpng, libjpeg and other programs write them.
 *
 * Threads: owner. Each function gives the size of the file in `to`, which has `room` bytes.
 */
#ifndef ENCODERS_H
#define ENCODERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* color: libpng's PNG_COLOR_TYPE; row_bytes: of `pixels`, 16-bit samples big-endian. exif: of the chunk eXIf, may be NULL. */
struct png_ask {
    uint32_t width, height;
    int depth, color;
    const uint8_t *pixels;
    size_t row_bytes;
    const uint8_t *exif;
    uint32_t exif_bytes;
};
size_t png_make(uint8_t *to, size_t room, const struct png_ask *ask);

/* channels: 1 grey, 3 RGB, 4 CMYK (inverted, as Adobe writes it). orientation 0: no Exif. */
struct jpeg_ask {
    uint32_t width, height, channels, orientation;
    bool progressive, big_endian;
    const uint8_t *pixels;
};
size_t jpeg_make(uint8_t *to, size_t room, const struct jpeg_ask *ask);

/* 24 bits, bottom row first: 3x2 pixels of the bytes y * 100 + x. */
size_t bmp_make(uint8_t *to);

/* TIFF structure with an orientation. Returns its 26 bytes in `to`. */
size_t exif_make(uint8_t *to, bool big_endian, uint32_t orientation);

#endif
