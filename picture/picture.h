/*
 * picture.h - pictures: from the bytes of a file to rows of pixels, and from there to the size and the channels that somebody wants.
 *
 * Decodes PNG, JPEG, WebP and BMP; other formats are known by name and refused with it. What comes out is upright (Exif orientation 1 to 8 is applied, of JPEG,
 * PNG and WebP), 8 bits a channel, grey or RGB: 16-bit samples keep their high 8 bits, transparent parts lie on white (BMP has none), CMYK becomes RGB without a
 * colour profile, palettes are looked up, an animation gives its first frame. Neither embedded profiles nor gammas are applied. All this is what Pillow does.
 *
 * Errors: INVALID (no picture), UNSUPPORTED (a picture that is not read here), CORRUPT (broken or cut off), TOO_LARGE (a cap), NO_MEMORY, NOT_FOUND and IO (files); the
 * sentence begins with the name that the caller gave.
 * Threads: any (no state).
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

/* ---- pictures ---- */

struct picture {
    uint32_t width, height;
    uint32_t channels; /* 1 grey, 3 RGB */
    uint8_t *pixels;   /* [height, width, channels]; owned: picture_fini */
};

/* What one picture may take; a field that is 0 has the default. */
struct picture_limits {
    uint64_t pixels;       /* 100 million */
    uint64_t file_bytes;   /* 256 MiB */
    uint64_t memory_bytes; /* of pixels and of what a decoder or a resize needs beside them: 1 GiB each */
};

/* Pixels that are not set. name: what the sentence is about. limits: NULL = defaults. */
enum pen_status picture_new(uint32_t width, uint32_t height, uint32_t channels, const char *name,
                            const struct picture_limits *limits, struct picture *ret_picture, struct pen_error *reterr);
void picture_fini(struct picture *picture);

/* How a file is read; all zeros: upright, transparent parts on black, at full size. */
struct picture_options {
    bool as_stored;        /* the orientation is not applied */
    bool alpha_dropped;    /* the colours of transparent parts are taken as they are */
    uint8_t background[3]; /* RGB: what transparent parts lie on */
    /* A JPEG of at least so many pixels each way may be decoded at 1/2, 1/4 or 1/8, as long as it stays as large as this; 0 = at full size. */
    uint32_t least_width, least_height;
};

/* ---- files ---- */

enum picture_format {
    PICTURE_NONE, /* no picture that we know */
    PICTURE_PNG,
    PICTURE_JPEG,
    PICTURE_BMP,
    PICTURE_WEBP,
    PICTURE_OTHER, /* a picture; picture_format_name says which */
};

/* By the first bytes, whatever the file is called. */
enum picture_format picture_probe(const uint8_t *bytes, size_t size);
/* "a PNG", "a GIF", "an AVIF picture"; NULL: no picture that we know. Static text. */
const char *picture_format_name(const uint8_t *bytes, size_t size);

/* A whole file in memory. */
enum pen_status picture_decode(const uint8_t *bytes, size_t size, const char *name, const struct picture_limits *limits,
                               struct picture *ret_picture, struct pen_error *reterr);
/* The bytes of a regular file, behind `before` bytes that are not set; free() the block. */
enum pen_status picture_file(const char *path, size_t before, const struct picture_limits *limits, uint8_t **ret_block,
                             size_t *ret_size, struct pen_error *reterr);
/* A regular file; a FIFO or a device is refused and not waited for. */
enum pen_status picture_read(const char *path, const struct picture_limits *limits, struct picture *ret_picture,
                             struct pen_error *reterr);
/* A PNG of 8 bits a channel. */
enum pen_status picture_write_png(const char *path, const struct picture *picture, struct pen_error *reterr);
/* The same in memory: `to` has `room` bytes, of which picture_png_room are always enough. */
size_t picture_png_room(const struct picture *picture);
enum pen_status picture_encode_png(const struct picture *picture, uint8_t *to, size_t room, size_t *ret_size,
                                   struct pen_error *reterr);

/* ---- sizes and channels ---- */

enum picture_filter {
    PICTURE_BILINEAR, /* a triangle, as wide as a target pixel when it shrinks: no pixel is skipped; soft */
    PICTURE_NEAREST,  /* one source pixel */
    PICTURE_AREA,     /* the mean of the pixels whose centres the target pixel covers */
};
enum picture_fit {
    PICTURE_STRETCH, /* width and height each on their own */
    PICTURE_CROP,    /* the middle part of the right proportions */
    PICTURE_PAD,     /* whole, in the middle, black around it */
};

/* As many channels as wanted: grey = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), or grey three times. */
enum pen_status picture_convert(const struct picture *picture, uint32_t channels, struct picture *ret_picture,
                                struct pen_error *reterr);

/* Of 1 or 3 channels, by Pillow's numbers (scale.h): BILINEAR, NEAREST and BOX; crop is ImageOps.fit, pad ImageOps.pad. */
enum pen_status picture_resize(const struct picture *picture, uint32_t width, uint32_t height,
                               enum picture_filter filter, enum picture_fit fit, struct picture *ret_picture,
                               struct pen_error *reterr);

#endif
