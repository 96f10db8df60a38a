/*
 * patches.h - the rows of a product that are patches of an image: where they lie, and copies of them.
 *
 * Threads: any.
 */
#ifndef XNNPACK_PATCHES_H
#define XNNPACK_PATCHES_H

#include "backend/xnnpack/dense.h"

/* Where a row's patch starts in the image; may lie outside by the padding. */
struct patch_origin {
    const float *image; /* of its batch element */
    ptrdiff_t y, x;
};

/* Of rows [first, first + count). */
void patches_find(const struct dense_image *g, const float *x, size_t first, size_t count, struct patch_origin *o);
/* The whole patch lies within the image and its rows in one piece. */
bool patch_inside(const struct dense_image *g, const struct patch_origin *o);
/* Elements [k0, k0 + count) of a row of x. */
void patch_copy(const struct dense_image *g, const struct patch_origin *o, size_t k0, size_t count, float *to);

#endif
