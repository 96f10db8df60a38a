#include "backend/xnnpack/own_lanes.h"

/*
 * The tile's shape fills the vector registers: avx512 14 x 2 accumulators, 2 for w, 1 for x of 32; avx2 6 x 2 + 2 + 1 of 16; plain 4 x 2 + 2 + 1 of 16.
 * 14 rows also divide the images of common nets (56 x 56, 28 x 28, 14 x 14); halves serve 7 x 7.
 */
#if OWN_LANES == 16
#define MR 14
#elif OWN_LANES == 8
#define MR 6
#else
#define MR 4
#endif
#define NR (2 * OWN_LANES)

/* `cols` vectors of a row, the last one of `some` elements when `cut`. */
INLINE void row_in(const float *p, vf *row, size_t cols, bool cut, size_t some)
{
    UNROLL
    for (size_t c = 0; c < cols; c++) {
        row[c] = cut && c + 1 == cols ? load_some(p + c * OWN_LANES, some) : load(p + c * OWN_LANES);
    }
}

INLINE void row_out(float *p, const vf *row, size_t cols, bool cut, size_t some)
{
    UNROLL
    for (size_t c = 0; c < cols; c++) {
        if (cut && c + 1 == cols) {
            store_some(p + c * OWN_LANES, row[c], some);
        } else {
            store(p + c * OWN_LANES, row[c]);
        }
    }
}

/* All of these are constants where it is expanded: rows, cols, cut. */
INLINE void tile_run(const struct gemm_tile *t, const size_t rows, const size_t cols, const bool cut)
{
    vf acc[MR][2];
    const size_t some = t->n - (cols - 1) * OWN_LANES;
    vf start[2] = {{0}, {0}};
    if (t->first && t->bias != NULL) {
        row_in(t->bias, start, cols, false, 0);
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        acc[r][0] = start[0];
        acc[r][1] = start[1];
        if (!t->first && r < t->m) {
            row_in(t->y + r * t->y_stride, acc[r], cols, cut, some);
        }
    }
    const float *x = t->x, *w = t->w, *next = t->next;
    const size_t s = t->x_stride;
    /* One pointer for three rows: x86 adds once or twice a register to an address for free. */
    const float *p[5] = {x, x + 3 * s, x + 6 * s, x + 9 * s, x + 12 * s};
    for (size_t band = t->bands;;) {
        for (size_t k = t->k; k > 0; k--) {
            vf wv[2];
            row_in(w, wv, cols, false, 0);
            __builtin_prefetch(next);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const float v = p[r / 3][r % 3 * s];
                UNROLL
                for (size_t c = 0; c < cols; c++) {
                    acc[r][c] += wv[c] * v;
                }
            }
            UNROLL
            for (size_t i = 0; i < (rows + 2) / 3; i++) {
                p[i]++;
            }
            w += NR;
            next += 16;
        }
        if (--band == 0) {
            break;
        }
        UNROLL
        for (size_t i = 0; i < (rows + 2) / 3; i++) {
            p[i] += t->band_stride - t->k;
        }
    }
    const vf low = all(t->min), high = all(t->max);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        if (r >= t->m) {
            break;
        }
        vf row[2] = {acc[r][0], acc[r][1]};
        if (t->last) {
            if (t->sum != NULL) {
                vf sum[2];
                row_in(t->sum + r * t->sum_stride, sum, cols, cut, some);
                row[0] += sum[0];
                row[1] += cols > 1 ? sum[1] : sum[0];
            }
            row[0] = clamp(row[0], low, high);
            row[1] = clamp(row[1], low, high);
        }
        row_out(t->y + r * t->y_stride, row, cols, cut, some);
    }
}

INLINE void tile_rows(const struct gemm_tile *t, const size_t cols, const bool cut)
{
    if (t->m > MR / 2) {
        tile_run(t, MR, cols, cut);
    } else if (t->m > 1) {
        tile_run(t, MR / 2, cols, cut);
    } else {
        tile_run(t, 1, cols, cut);
    }
}

void OWN(own_gemm)(const struct gemm_tile *t)
{
    if (t->n == NR) {
        tile_rows(t, 2, false);
    } else if (t->n > OWN_LANES) {
        tile_rows(t, 2, true);
    } else {
        tile_rows(t, 1, true);
    }
}
