/*
 * groups.h - convolutions in groups of several channels, f32, NHWC: each group is a product whose windows are read where they lie, in rows of the image that are
 * copied with their padding, a band of them at a time. Groups that are narrower than a vector are multiplied several at once; weights between them are zero.
 *
 * Results do not depend on the number of threads. Threads: packed weights are shared by any; a groups_run belongs to one exec.
 */
#ifndef XNNPACK_GROUPS_H
#define XNNPACK_GROUPS_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/filter.h"
#include "backend/xnnpack/window.h"

/* Several groups, each of several channels in or out; vectors of 8 or more. Kernels of one pixel, or dilated along rows: no. */
bool groups_takes(const struct node *n, const struct filter *f);
size_t groups_packed_bytes(const struct filter *f);
/* w: in the graph's layout, aligned; bias may be NULL. packed: 64-byte aligned. PEN_ERR_NO_MEMORY: it needs some meanwhile. */
enum pen_status groups_pack(const struct filter *f, const float *w, const float *bias, uint8_t *packed);

struct groups {
    struct window w;
    struct filter f; /* merged */
    struct act act;
    const struct epilogue *after;           /* over the results while they are in the cache; NULL = nothing */
    size_t merged;                          /* groups of the node in one of f */
    size_t pitch;                           /* floats of a copied row */
    size_t band_rows, bands, chunk, chunks; /* output rows of a unit, and groups; how many units of each */
};

/* f: of the node. */
void groups_init(struct groups *q, const struct window *w, const struct filter *f, const struct act *act,
                 size_t threads);
size_t groups_scratch_bytes(const struct groups *q, size_t threads);
/* The step's first input is the picture. sum: NULL, or what is added before the clamp, as large as the result. */
void groups_run(const struct groups *q, const uint8_t *packed, const struct step *s, const float *sum, struct run *r);

#endif
