/*
 * picture_internal.h - what a decoder needs and is: one function per format, in decode_<format>.c, and its row in formats.c. Nobody outside of this folder includes this.
 *
 * Threads: any (no state).
 */
#ifndef PICTURE_INTERNAL_H
#define PICTURE_INTERNAL_H

#include "picture.h"

/* What a decoder is given; it fills the picture as the file has it, and its orientation. */
struct picture_source {
    const uint8_t *bytes;
    size_t size;
    const char *name;
    struct picture_limits limits; /* without zeros */
};

typedef enum pen_status picture_decoder(const struct picture_source *source, struct picture *ret_picture,
                                        uint32_t *ret_orientation, struct pen_error *reterr);
picture_decoder decode_png, decode_jpeg, decode_bmp;

/* A format that is known. */
struct format {
    enum picture_format id;
    const char *name;        /* with its article */
    picture_decoder *decode; /* NULL: refused with its name */
    bool (*is)(const uint8_t *bytes, size_t size);
};
const struct format *format_of(const uint8_t *bytes, size_t size); /* NULL: no picture */

struct picture_limits limits_or_default(const struct picture_limits *limits);

/* TIFF structure behind "Exif\0\0": the orientation, 1 to 8; 1 where it says nothing, or nonsense. */
uint32_t exif_orientation(const uint8_t *tiff, size_t size);
/* Turns and mirrors the picture in place of itself, so that orientation 1 is right for it. */
enum pen_status picture_upright(struct picture *picture, uint32_t orientation, const char *name,
                                const struct picture_limits *limits, struct pen_error *reterr);

#endif
