/*
 * sample.h - reading images at computed places: what crops, projections and affine transforms have in common.
 *
 * Threads: one-at-a-time.
 */
#ifndef BUILD_SAMPLE_H
#define BUILD_SAMPLE_H

#include "import/build/build.h"

enum tf_outside {
    TF_OUTSIDE_WHOLE,  /* a place outside the image gives `fill` */
    TF_OUTSIDE_CORNER, /* each of its four neighbours that lies outside counts as `fill` */
    TF_OUTSIDE_CLAMP   /* places are moved to the edge */
};

struct tf_sampling {
    bool nearest; /* halves go up; else bilinear */
    enum tf_outside outside;
    uint32_t fill; /* scalar; unused for CLAMP */
};

/* image [batch, h, w, c] f32, entry [n or 1, 1, 1] int64 (which of the batch), y and x f32 that broadcast to [n, oh, ow]: [n, oh, ow, c]. */
uint32_t tf_sample(struct build *b, uint32_t image, uint32_t entry, uint32_t y, uint32_t x,
                   const struct tf_sampling *how);
/* boxes [n, 4] (y1, x1, y2, x2, 1 = the last pixel), entries [n], size [2]. TensorFlow's CropAndResize. */
uint32_t tf_crop_and_resize(struct build *b, uint32_t image, uint32_t boxes, uint32_t entries, uint32_t size,
                            bool nearest, float fill);
/* transforms [n or 1, 8]: output (x, y) reads ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x + c1 y + 1; size [2]. */
uint32_t tf_project(struct build *b, uint32_t image, uint32_t transforms, uint32_t size, const struct tf_sampling *how);
/* 0, 1, ... count - 1 as floats; count: a scalar of any integer type. */
uint32_t tf_count_up(struct build *b, uint32_t count);
uint32_t tf_size_of(struct build *b, uint32_t x, int64_t axis); /* a scalar int64 */

#endif
