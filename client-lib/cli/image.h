/*
 * image.h - pictures: decoded from PNG, JPEG and BMP files, converted and resized to what a model takes.
 *
 * Threads: any (no state).
 */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define IMAGE_PIXELS_MAX (100u * 1000u * 1000u)

struct image {
    uint32_t width, height;
    uint32_t channels; /* 1 grey, 3 RGB */
    uint8_t *pixels;   /* [height, width, channels] */
};

/* Of a whole file in memory; the format is told by its first bytes. */
enum pen_status image_decode(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                             struct pen_error *reterr);
bool image_is(const uint8_t *bytes, size_t size); /* one of the three formats */
void image_fini(struct image *image);

/* The decoders behind it. */
enum pen_status image_decode_bmp(const uint8_t *bytes, size_t size, const char *name, struct image *ret_image,
                                 struct pen_error *reterr);
enum pen_status image_new(uint32_t width, uint32_t height, uint32_t channels, const char *name, struct image *ret_image,
                          struct pen_error *reterr);

enum image_filter {
    IMAGE_BILINEAR, /* a triangle; soft */
    IMAGE_NEAREST,  /* one source pixel */
    IMAGE_AREA,     /* the mean of what the target pixel covers: undoes an enlargement exactly */
};
enum image_fit {
    IMAGE_STRETCH, /* width and height each on their own */
    IMAGE_CROP,    /* the middle part of the right proportions */
    IMAGE_PAD,     /* whole, in the middle, black around it */
};

/* As many channels as wanted: grey = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), or grey three times. */
enum pen_status image_convert(const struct image *image, uint32_t channels, struct image *ret_image,
                              struct pen_error *reterr);

/* Pixel centres lie at half coordinates; bilinear widens its triangle when it shrinks, so that no pixel is skipped. */
enum pen_status image_resize(const struct image *image, uint32_t width, uint32_t height, enum image_filter filter,
                             enum image_fit fit, struct image *ret_image, struct pen_error *reterr);

#endif
