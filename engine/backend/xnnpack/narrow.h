/*
 * narrow.h - convolutions of a few channels out, such as the last layer of what makes a picture: a panel of weights would be nearly empty, so vectors go along the
 * terms of a sum instead.
 *
 * Threads: packed weights are shared by any; scratch belongs to one exec.
 */
#ifndef XNNPACK_NARROW_H
#define XNNPACK_NARROW_H

#include "backend/xnnpack/filter.h"
#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/window.h"

/* By attributes and weights, the same for all sizes. */
bool narrow_takes(const struct node *n, const struct filter *f);
size_t narrow_packed_bytes(const struct filter *f);
/* ohwi: [out][height][width][in]; bias may be NULL. */
void narrow_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed);

struct narrow {
    struct window w;
    struct act act;
    size_t in, out;
    size_t piece, pieces;         /* results of a row that a unit makes */
    size_t span;                  /* pixels under one piece */
    const struct epilogue *after; /* over results that are in the cache; NULL = nothing */
};

void narrow_init(struct narrow *q, const struct window *w, const struct act *act, const struct filter *f);
size_t narrow_scratch_bytes(const struct narrow *q, size_t threads);
void narrow_run(const struct narrow *q, const float *packed, const struct step *s, struct run *r);

#endif
