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

/* Four vectors of channels stay in registers while the taps go by. */
#define BLOCK (4 * OWN_LANES)

void OWN(own_pool_max)(const float *const *taps, size_t count, float *y, size_t n)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        float acc[BLOCK];
        for (size_t k = 0; k < BLOCK; k++) {
            acc[k] = taps[0][i + k];
        }
        for (size_t t = 1; t < count; t++) {
            const float *x = taps[t] + i;
            for (size_t k = 0; k < BLOCK; k++) {
                acc[k] = x[k] > acc[k] || x[k] != x[k] ? x[k] : acc[k];
            }
        }
        for (size_t k = 0; k < BLOCK; k++) {
            y[i + k] = acc[k];
        }
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
    for (; i + BLOCK <= n; i += BLOCK) {
        float acc[BLOCK] = {0};
        for (size_t t = 0; t < count; t++) {
            const float *x = taps[t] + i;
            for (size_t k = 0; k < BLOCK; k++) {
                acc[k] += x[k];
            }
        }
        for (size_t k = 0; k < BLOCK; k++) {
            y[i + k] = acc[k] * scale;
        }
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
