/*
 * stage.h - one step at work on one picture: rows in, a picture out. Nobody outside of this folder includes this.
 *
 * Threads: one-at-a-time.
 */
#ifndef PICTURE_STAGE_H
#define PICTURE_STAGE_H

#include "steps.h"

struct stage {
    struct picture out;                          /* the result; owned until it is taken */
    struct scaler *scaler;                       /* NULL: rows are cut out */
    int64_t left, top;                           /* of the part that is cut out; negative beyond the edge */
    uint32_t width, y;                           /* of the source; rows that came */
    double scale_x, scale_y, offset_x, offset_y; /* where a point of the source comes to lie */
};

/* step NULL: the picture as it is. The source has the steps' channels. TOO_LARGE or NO_MEMORY with a sentence. */
enum pen_status stage_begin(struct stage *stage, const struct picture_steps *steps, const struct picture_step *step,
                            uint32_t width, uint32_t height, struct pen_error *reterr);
void stage_row(struct stage *stage, const uint8_t *row);
void stage_fini(struct stage *stage); /* fine for zeros */

#endif
