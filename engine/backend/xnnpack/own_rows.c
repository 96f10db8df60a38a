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

/* 8 x 8 tiles: one cache line of each side at a time. */
static inline __attribute__((always_inline)) void tile_transpose(const uint32_t *x, size_t x_stride, uint32_t *y,
                                                                 size_t y_stride)
{
    uint32_t tile[8][8];
    for (size_t r = 0; r < 8; r++) {
        for (size_t c = 0; c < 8; c++) {
            tile[c][r] = x[r * x_stride + c];
        }
    }
    for (size_t c = 0; c < 8; c++) {
        for (size_t r = 0; r < 8; r++) {
            y[c * y_stride + r] = tile[c][r];
        }
    }
}

void OWN(own_transpose)(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows, size_t cols)
{
    size_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        size_t c = 0;
        for (; c + 8 <= cols; c += 8) {
            tile_transpose(x + r * x_stride + c, x_stride, y + c * y_stride + r, y_stride);
        }
        for (; c < cols; c++) {
            for (size_t k = 0; k < 8; k++) {
                y[c * y_stride + r + k] = x[(r + k) * x_stride + c];
            }
        }
    }
    for (; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            y[c * y_stride + r] = x[r * x_stride + c];
        }
    }
}
