#include <string.h>

#include "backend/xnnpack/own_lanes.h"

#include "backend/xnnpack/own_gemm_tile.inc"

void OWN(own_gemm)(const struct gemm_tile *t)
{
    tile_of(t, GEMM_F32);
}

void OWN(own_gemm_half)(const struct gemm_tile *t, enum gemm_form form)
{
    if (form == GEMM_BF16) {
        tile_of(t, GEMM_BF16);
    } else {
        tile_of(t, GEMM_F16);
    }
}

#define PANELS                                                                                                         \
    4 /* side by side: so many streams of weights, and twice as many sums as hide the latency of a multiply-add */

/* Columns [at, at + OWN_LANES) of n; those behind are 0. */
INLINE vf columns_in(const float *p, size_t at, size_t n)
{
    return at + OWN_LANES <= n ? load(p + at) : at < n ? load_some(p + at, n - at) : (vf){0};
}

INLINE void columns_out(const struct gemm_row *t, size_t at, vf v)
{
    if (t->sum != NULL) {
        v += columns_in(t->sum, at, t->n);
    }
    v = clamp(v, all(t->min), all(t->max));
    if (at + OWN_LANES <= t->n) {
        store(t->y + at, v);
    } else if (at < t->n) {
        store_some(t->y + at, v, t->n - at);
    }
}

/* `panels` is a constant where it is expanded. */
INLINE void row_panels(const struct gemm_row *t, size_t c, const size_t panels)
{
    vf acc[2 * PANELS];
    const float *w = t->w + c / NR * t->panel;
    UNROLL
    for (size_t i = 0; i < 2 * panels; i++) {
        acc[i] = t->start != NULL ? columns_in(t->start, c + i * OWN_LANES, t->n) : (vf){0};
    }
    for (size_t k = 0; k < t->k; k++, w += NR) {
        const float x = t->x[k];
        UNROLL
        for (size_t i = 0; i < 2 * panels; i++) {
            acc[i] = acc[i] + load(w + i / 2 * t->panel + i % 2 * OWN_LANES) * x;
        }
    }
    UNROLL
    for (size_t i = 0; i < 2 * panels; i++) {
        columns_out(t, c + i * OWN_LANES, acc[i]);
    }
}

void OWN(own_gemm_row)(const struct gemm_row *t)
{
    size_t c = 0;
    for (; c + (PANELS - 1) * NR < t->n; c += PANELS * NR) {
        row_panels(t, c, PANELS);
    }
    for (; c < t->n; c += NR) {
        row_panels(t, c, 1);
    }
}
