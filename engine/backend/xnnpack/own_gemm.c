#include <string.h>

#include "backend/xnnpack/own_lanes.h"

#include "backend/xnnpack/own_gemm_tile.inc"

#ifdef __AVX512F__
/*
 * Tiles of up to 8 columns, or of 17 to 24: the last vector is half as wide. Where the processor does 512 bits in two turns this takes a half or three quarters of
 * the time, and elsewhere no more. Sums are taken in the same order, so the bits are those of the other tiles.
 */
#define HALF (OWN_LANES / 2)
typedef float vhalf __attribute__((vector_size(HALF * 4), aligned(4), may_alias));

INLINE vhalf half_some(const float *p, __mmask8 some)
{
    return (vhalf)_mm256_maskz_loadu_ps(some, p);
}

/* All of these are constants where it is expanded: rows; wide: a whole vector is before the half one. */
INLINE void half_tile(const struct gemm_tile *t, const size_t rows, const bool wide)
{
    vf acc[MR];
    vhalf end[MR];
    const size_t at = wide ? OWN_LANES : 0;
    const __mmask8 some = (__mmask8)((1u << (t->n - at)) - 1);
    const bool bias = t->first && t->bias != NULL;
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const bool onto = !t->first && r < t->m;
        const float *y = t->y + r * t->y_stride;
        acc[r] = !wide ? (vf){0} : onto ? load(y) : bias ? load(t->bias) : (vf){0};
        end[r] = onto ? half_some(y + at, some) : bias ? *(const vhalf *)(t->bias + at) : (vhalf){0};
    }
    const float *x = t->x, *w = t->w, *next = t->next;
    const size_t s = t->x_stride, step = t->fetch;
    const float *p[5] = {x, x + 3 * s, x + 6 * s, x + 9 * s, x + 12 * s};
    for (size_t band = t->bands;;) {
        for (size_t k = t->k; k > 0; k--) {
            const vf first = wide ? load(w) : (vf){0};
            const vhalf last = *(const vhalf *)(w + at);
            if (wide) {
                __builtin_prefetch(next);
            }
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const float number = p[r / 3][r % 3 * s];
                if (wide) {
                    acc[r] = acc[r] + first * number;
                }
                end[r] = end[r] + last * number;
            }
            UNROLL
            for (size_t i = 0; i < (rows + 2) / 3; i++) {
                p[i]++;
            }
            w += NR;
            next += step;
        }
        if (--band == 0) {
            break;
        }
        UNROLL
        for (size_t i = 0; i < (rows + 2) / 3; i++) {
            p[i] += t->band_stride - t->k;
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        if (r >= t->m) {
            break;
        }
        float *y = t->y + r * t->y_stride;
        const float *sum = t->sum != NULL ? t->sum + r * t->sum_stride : NULL;
        vf row = acc[r];
        vhalf tail = end[r];
        if (t->last && sum != NULL) {
            if (wide) {
                row += load(sum);
            }
            tail += half_some(sum + at, some);
        }
        if (t->last) {
            row = clamp(row, all(t->min), all(t->max));
            tail = (vhalf)_mm256_min_ps(_mm256_set1_ps(t->max), _mm256_max_ps(_mm256_set1_ps(t->min), (__m256)tail));
        }
        if (wide) {
            store(y, row);
        }
        _mm256_mask_storeu_ps(y + at, some, (__m256)tail);
    }
}

INLINE void half_rows(const struct gemm_tile *t, const bool wide)
{
    const size_t rows = gemm_rows(MR, t->m);
    if (rows == MR) {
        half_tile(t, MR, wide);
    } else if (rows == ROWS_LESS(2)) {
        half_tile(t, ROWS_LESS(2), wide);
    } else if (rows == ROWS_LESS(4)) {
        half_tile(t, ROWS_LESS(4), wide);
    } else if (rows == ROWS_LESS(6)) {
        half_tile(t, ROWS_LESS(6), wide);
    } else if (rows == MR / 2) {
        half_tile(t, MR / 2, wide);
    } else {
        half_tile(t, 1, wide);
    }
}

/* False: the tile has other columns. */
static bool halves_run(const struct gemm_tile *t)
{
    if (t->n <= HALF) {
        half_rows(t, false);
        return true;
    }
    if (t->n > OWN_LANES && t->n <= OWN_LANES + HALF) {
        half_rows(t, true);
        return true;
    }
    return false;
}
#else
static bool halves_run(const struct gemm_tile *t)
{
    (void)t;
    return false;
}
#endif

void OWN(own_gemm)(const struct gemm_tile *t)
{
    if (!halves_run(t)) {
        tile_of(t, GEMM_F32);
    }
}

void OWN(own_gemm_half)(const struct gemm_tile *t, enum gemm_form form)
{
    if (form == GEMM_BF16) {
        tile_of(t, GEMM_BF16);
    } else {
        tile_of(t, GEMM_F16);
    }
}

#include "backend/xnnpack/own_gemm_row.inc"

void OWN(own_gemm_row)(const struct gemm_row *t)
{
    row_of(t, GEMM_F32);
}
