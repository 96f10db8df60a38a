/*
 * picture_internal.h - what a decoder needs and is: one function per format, in decode_<format>.c, and its row in formats.c. Nobody outside of this folder includes this.
 *
 * Threads: any (no state).
 */
#ifndef PICTURE_INTERNAL_H
#define PICTURE_INTERNAL_H

#include "picture.h"

/* Takes the rows of a picture while it is decoded, from the top down, so that nobody keeps the whole. */
struct row_taker {
    /* The size is known. */
    enum pen_status (*begin)(void *self, uint32_t width, uint32_t height, uint32_t channels, struct pen_error *reterr);
    void (*take)(void *self, const uint8_t *row); /* borrows until it returns; ROW_SPARE bytes behind it may be read */
    void *self;
};

/* What a decoder is given. */
struct picture_source {
    const uint8_t *bytes;
    size_t size;
    const char *name;
    struct picture_limits limits; /* without zeros */
    struct picture_options options;
    const struct row_taker *taker; /* NULL: the whole picture is wanted */
};

/* What the file says of itself. */
struct picture_info {
    uint32_t width, height; /* as stored, before a scaled decoding */
    uint32_t orientation;   /* Exif's, 1 to 8 */
};

/*
 * Fills the picture as the file has it. When the taker took the rows, the picture has no pixels. On failure the picture may hold pixels that the caller frees.
 */
typedef enum pen_status picture_decoder(const struct picture_source *source, struct picture *ret_picture,
                                        struct picture_info *ret_info, struct pen_error *reterr);
picture_decoder decode_png, decode_jpeg, decode_bmp, decode_webp;
/* Any format: the caps, the format, the decoder; not turned upright yet. */
picture_decoder decode_stored;
/* Are rows as they come upright ones, or will they be turned? */
bool rows_are_wanted(const struct picture_source *source, const struct picture_info *info);

/* A format that is known. */
struct format {
    enum picture_format id;
    const char *name;        /* with its article */
    picture_decoder *decode; /* NULL: refused with its name */
    bool (*is)(const uint8_t *bytes, size_t size);
};
const struct format *format_of(const uint8_t *bytes, size_t size); /* NULL: no picture */

#define ROW_SPARE 32 /* bytes behind rows that a taker gets */

struct picture_limits limits_or_default(const struct picture_limits *limits);

/* A colour of that alpha on a background. */
static inline uint32_t laid_over(uint32_t colour, uint32_t alpha, uint32_t background)
{
    uint32_t sum = colour * alpha + background * (255u - alpha) + 128u;
    return ((sum >> 8) + sum) >> 8;
}

/* A row of RGB becomes grey, or one of grey RGB; channels: of the row that comes. */
void row_convert(const uint8_t *row, uint32_t width, uint32_t channels, uint8_t *to);

/* TOO_LARGE with a sentence when a picture of that size is beyond the caps, which must have no zeros. */
enum pen_status picture_size_check(uint32_t width, uint32_t height, uint32_t channels, const char *name,
                                   const struct picture_limits *limits, struct pen_error *reterr);

/* TIFF structure behind "Exif\0\0": the orientation, 1 to 8; 1 where it says nothing, or nonsense. */
uint32_t exif_orientation(const uint8_t *tiff, size_t size);
/* Turns and mirrors the picture in place of itself, so that orientation 1 is right for it. */
enum pen_status picture_upright(struct picture *picture, uint32_t orientation, const char *name,
                                const struct picture_limits *limits, struct pen_error *reterr);

#endif
