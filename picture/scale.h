/*
 * scale.h - resizes a picture while its rows come, in Pillow's numbers: Image.resize with BOX, BILINEAR and BICUBIC, an optional box and no reducing_gap.
 *
 * Separable: each row is made narrower or wider and rounded to 8 bits, then added into the rows below construction. Weights have 22 bits behind the point; sums are
 * of 32 bits, so their order does not matter, and results are Pillow's bit for bit. Only the rows in construction are held.
 *
 * Threads: one-at-a-time.
 */
#ifndef PICTURE_SCALE_H
#define PICTURE_SCALE_H

#include "picture.h"

enum scale_filter {
    SCALE_BILINEAR, /* triangle */
    SCALE_AREA,     /* Pillow's BOX: the mean of the pixels whose centres the target pixel covers */
    SCALE_CUBIC,    /* a = -0.5 */
    SCALE_NEAREST,  /* Pillow's NEAREST: one pixel */
};

struct scale_ask {
    uint32_t width, height, channels; /* of the source; 1 or 3 channels */
    float left, top, right, bottom;   /* the part of the source that is scaled, in its pixels; float, as Pillow's box */
    uint32_t to_width, to_height;
    enum scale_filter filter;
    uint8_t *to; /* where the first row goes; rows are to_stride bytes apart */
    size_t to_stride;
    uint64_t memory_bytes; /* the most that it may take */
};

struct scaler;

/* TOO_LARGE or NO_MEMORY with a sentence. */
enum pen_status scaler_new(const struct scale_ask *ask, struct scaler **ret_scaler, struct pen_error *reterr);
/* The next row of the source, from the top. ROW_SPARE bytes behind the row may be read. */
void scaler_row(struct scaler *scaler, const uint8_t *row);
void scaler_free(struct scaler *scaler); /* NULL is fine */

#endif
