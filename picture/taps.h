/*
 * taps.h - which source pixels make up each target pixel of one axis, and how much of each: Pillow's filters.
 *
 * Threads: any (no state).
 */
#ifndef PICTURE_TAPS_H
#define PICTURE_TAPS_H

#include "scale.h"

#define TAPS_BITS 22 /* behind the point of a weight: 32 less 8 of a pixel, less 2 for sums beyond it */

struct pixel_taps {
    uint32_t target, most; /* most: weights per target pixel at most */
    uint32_t *first;       /* [target], rising */
    uint32_t *count;       /* [target], at least 1; first + count rises */
    int32_t *weight;       /* [target, most] */
};

/* from: pixels of the source; begin, end: the part that is scaled. Weights per target pixel, and bytes, that pixel_taps_init would take. */
uint64_t pixel_taps_most(float begin, float end, uint32_t target, enum scale_filter filter);
uint64_t pixel_taps_bytes(float begin, float end, uint32_t target, enum scale_filter filter);
/* False without memory. */
bool pixel_taps_init(struct pixel_taps *taps, uint32_t from, float begin, float end, uint32_t target,
                     enum scale_filter filter);
void pixel_taps_fini(struct pixel_taps *taps); /* fine for zeros */

#endif
