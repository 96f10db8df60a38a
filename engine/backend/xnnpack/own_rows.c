#include <string.h>

#include "backend/xnnpack/own_vec.h"

void OWN(own_affine)(const float *x, float *y, size_t n, float mean, float scale, const float *gain, const float *bias)
{
    if (gain != NULL && bias != NULL) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
        }
    } else if (gain != NULL) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = (x[i] - mean) * scale * gain[i];
        }
    } else {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = (x[i] - mean) * scale;
        }
    }
}

void OWN(own_axpy)(float *y, const float *x, size_t n, float a)
{
    SIMD for (size_t i = 0; i < n; i++)
    {
        y[i] += a * x[i];
    }
}

typedef int32_t vi __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias));
typedef float v4f __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t v4i __attribute__((vector_size(16), aligned(4), may_alias));

/* The larger of both, and NaN when x is one; C has no ?: for vectors, so masks choose. */
#define MAX_OF_TAPS(vector, mask)                                                                                      \
    do {                                                                                                               \
        vector acc = *(const vector *)(taps[0] + i);                                                                   \
        for (size_t t = 1; t < count; t++) {                                                                           \
            vector x = *(const vector *)(taps[t] + i);                                                                 \
            mask newer = (x > acc) | (x != x);                                                                         \
            acc = (vector)((newer & (mask)x) | (~newer & (mask)acc));                                                  \
        }                                                                                                              \
        *(vector *)(y + i) = acc;                                                                                      \
    } while (0)

#define SUM_OF_TAPS(vector)                                                                                            \
    do {                                                                                                               \
        vector acc = *(const vector *)(taps[0] + i);                                                                   \
        for (size_t t = 1; t < count; t++) {                                                                           \
            acc += *(const vector *)(taps[t] + i);                                                                     \
        }                                                                                                              \
        *(vector *)(y + i) = acc * scale;                                                                              \
    } while (0)

/* A vector of channels stays in a register while the taps go by; then four at a time, then one: the largest pictures have few channels. */
void OWN(own_pool_max)(const float *const *taps, size_t count, float *y, size_t n)
{
    size_t i = 0;
    for (; i + OWN_LANES <= n; i += OWN_LANES) {
        MAX_OF_TAPS(vf, vi);
    }
    for (; i + 4 <= n; i += 4) {
        MAX_OF_TAPS(v4f, v4i);
    }
    for (; i < n; i++) {
        float acc = taps[0][i];
        for (size_t t = 1; t < count; t++) {
            float v = taps[t][i];
            acc = v > acc || v != v ? v : acc;
        }
        y[i] = acc;
    }
}

void OWN(own_pool_sum)(const float *const *taps, size_t count, float *y, size_t n, float scale)
{
    size_t i = 0;
    for (; count > 0 && i + OWN_LANES <= n; i += OWN_LANES) {
        SUM_OF_TAPS(vf);
    }
    for (; count > 0 && i + 4 <= n; i += 4) {
        SUM_OF_TAPS(v4f);
    }
    for (; i < n; i++) {
        float acc = 0.0f;
        for (size_t t = 0; t < count; t++) {
            acc += taps[t][i];
        }
        y[i] = acc * scale;
    }
}

/* Tiles of 4 x 4 or 8 x 8 numbers, turned in registers. */
typedef uint32_t v4u __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline)) void four_turn(const v4u *rows, v4u *cols)
{
    const v4u low = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const v4u high = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const v4u low2 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const v4u high2 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    cols[0] = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
    cols[1] = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
    cols[2] = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
    cols[3] = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
}

/* `rows` and `spill` are constants where it is expanded. Fewer rows than 4 leave the rest of a column alone, unless it may be spoilt. */
static inline __attribute__((always_inline)) void tile_four(const uint32_t *x, size_t x_stride, uint32_t *y,
                                                            size_t y_stride, const size_t rows, const bool spill)
{
    v4u in[4], out[4];
    for (size_t r = 0; r < 4; r++) {
        in[r] = r < rows ? *(const v4u *)(x + r * x_stride) : (v4u){0};
    }
    four_turn(in, out);
    for (size_t c = 0; c < 4; c++) {
        uint32_t *to = y + c * y_stride;
        if (rows == 4 || spill) {
            *(v4u *)to = out[c];
            continue;
        }
        if (rows > 1) {
            memcpy(to, &out[c], 8);
        }
        if (rows != 2) {
            to[rows - 1] = out[c][rows - 1];
        }
    }
}

/* Fewer rows than 4, all of y: what a column spoils of the next one is written by that. */
static void rows_turn(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows, size_t cols)
{
    size_t c = 0;
    if (rows == 3 && y_stride == 3) {
        for (; c + 8 <= cols; c += 4) {
            tile_four(x + c, x_stride, y + c * 3, 3, 3, true);
        }
    }
    for (; c + 4 <= cols; c += 4) {
        if (rows == 3) {
            tile_four(x + c, x_stride, y + c * y_stride, y_stride, 3, false);
        } else if (rows == 2) {
            tile_four(x + c, x_stride, y + c * y_stride, y_stride, 2, false);
        } else {
            tile_four(x + c, x_stride, y + c * y_stride, y_stride, 1, false);
        }
    }
    for (; c < cols; c++) {
        for (size_t r = 0; r < rows; r++) {
            y[c * y_stride + r] = x[r * x_stride + c];
        }
    }
}

#if OWN_LANES >= 8
#define TURN 8
typedef uint32_t v8u __attribute__((vector_size(32), aligned(4), may_alias));

/* Two of four_turn, side by side: columns 0 to 3, and 4 to 7. */
static inline __attribute__((always_inline)) void halves_turn(const v8u *rows, v8u *cols)
{
    const v8u low = __builtin_shufflevector(rows[0], rows[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const v8u high = __builtin_shufflevector(rows[0], rows[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const v8u low2 = __builtin_shufflevector(rows[2], rows[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const v8u high2 = __builtin_shufflevector(rows[2], rows[3], 2, 10, 3, 11, 6, 14, 7, 15);
    cols[0] = __builtin_shufflevector(low, low2, 0, 1, 8, 9, 4, 5, 12, 13);
    cols[1] = __builtin_shufflevector(low, low2, 2, 3, 10, 11, 6, 7, 14, 15);
    cols[2] = __builtin_shufflevector(high, high2, 0, 1, 8, 9, 4, 5, 12, 13);
    cols[3] = __builtin_shufflevector(high, high2, 2, 3, 10, 11, 6, 7, 14, 15);
}

static inline __attribute__((always_inline)) void tile_turn(const uint32_t *x, size_t x_stride, uint32_t *y,
                                                            size_t y_stride)
{
    v8u in[8], low[4], high[4];
    for (size_t r = 0; r < 8; r++) {
        in[r] = *(const v8u *)(x + r * x_stride);
    }
    halves_turn(in, low);
    halves_turn(in + 4, high);
    for (size_t c = 0; c < 4; c++) {
        *(v8u *)(y + c * y_stride) = __builtin_shufflevector(low[c], high[c], 0, 1, 2, 3, 8, 9, 10, 11);
        *(v8u *)(y + (c + 4) * y_stride) = __builtin_shufflevector(low[c], high[c], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
#define TURN 4
static inline __attribute__((always_inline)) void tile_turn(const uint32_t *x, size_t x_stride, uint32_t *y,
                                                            size_t y_stride)
{
    tile_four(x, x_stride, y, y_stride, 4, false);
}
#endif

#define STRIP 64 /* rows that are turned before the next columns: so many lines of x stay in the first cache */

/* Whole tiles of up to STRIP rows, then 4 rows of each column that are left; gives the rows that are done. */
static size_t strip_turn(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows, size_t cols)
{
    const size_t whole = rows / TURN * TURN, four = rows / 4 * 4;
    size_t c = 0;
    for (; c + TURN <= cols; c += TURN) {
        for (size_t r = 0; r < whole; r += TURN) {
            tile_turn(x + r * x_stride + c, x_stride, y + c * y_stride + r, y_stride);
        }
        for (size_t k = 0; whole < four && k < TURN; k += 4) {
            tile_four(x + whole * x_stride + c + k, x_stride, y + (c + k) * y_stride + whole, y_stride, 4, false);
        }
    }
    for (; c < cols; c++) {
        for (size_t r = 0; r < four; r++) {
            y[c * y_stride + r] = x[r * x_stride + c];
        }
    }
    return four;
}

void OWN(own_transpose)(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows, size_t cols)
{
    size_t r = 0;
    while (r + 4 <= rows) {
        r += strip_turn(x + r * x_stride, x_stride, y + r, y_stride, rows - r < STRIP ? rows - r : STRIP, cols);
    }
    if (r < rows) {
        rows_turn(x + r * x_stride, x_stride, y + r, y_stride, rows - r, cols);
    }
}
