/* Products of a few columns: each result is the sum of a vector of sums, along the terms. */
#include "backend/xnnpack/own_lanes.h"

#define ROWS (OWN_LANES == 16 ? DOTS_ROWS : 2) /* whose sums fit the registers beside the columns */

INLINE float total(vf v)
{
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)v);
#else
    float part[OWN_LANES];
    store(part, v);
    for (size_t n = OWN_LANES / 2; n > 0; n /= 2) {
        for (size_t i = 0; i < n; i++) {
            part[i] += part[i + n];
        }
    }
    return part[0];
#endif
}

/* `rows` and `cols` are constants where it is expanded. */
INLINE void dots_of(const struct dots *d, const float *x, float *y, const size_t rows, const size_t cols)
{
    vf acc[ROWS][DOTS_COLS] = {{{0}}};
    const float *w = d->w;
    for (size_t b = 0; b < d->bands; b++, x += d->x_band, w += d->k) {
        size_t k = 0;
        for (; k + OWN_LANES <= d->k; k += OWN_LANES) {
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const vf v = load(x + r * d->x_stride + k);
                UNROLL
                for (size_t c = 0; c < cols; c++) {
                    acc[r][c] += v * load(w + c * d->w_stride + k);
                }
            }
        }
        for (size_t r = 0; k < d->k && r < rows; r++) {
            const vf v = load_some(x + r * d->x_stride + k, d->k - k);
            for (size_t c = 0; c < cols; c++) {
                acc[r][c] += v * load_some(w + c * d->w_stride + k, d->k - k);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) {
            y[r * d->y_stride + c] = total(acc[r][c]) + d->bias[c];
        }
    }
}

INLINE void rows_of(const struct dots *d, const size_t cols)
{
    size_t r = 0;
    for (; r + ROWS <= d->m; r += ROWS) {
        dots_of(d, d->x + r * d->x_stride, d->y + r * d->y_stride, ROWS, cols);
    }
    for (; r < d->m; r++) {
        dots_of(d, d->x + r * d->x_stride, d->y + r * d->y_stride, 1, cols);
    }
}

void OWN(own_dots)(const struct dots *d)
{
    switch (d->n) {
    case 1:
        rows_of(d, 1);
        break;
    case 2:
        rows_of(d, 2);
        break;
    case 3:
        rows_of(d, 3);
        break;
    default:
        rows_of(d, 4);
        break;
    }
}
