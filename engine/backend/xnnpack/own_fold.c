#include "backend/xnnpack/own_vec.h"

#include "backend/xnnpack/own_math.h"

#define WAYS 32 /* independent sums: hides the latency of the adder and keeps rounding errors small */

static inline float fold_step(enum fold_fn fn, float acc, float v)
{
    switch (fn) {
    case FOLD_SUM:
        return acc + v;
    case FOLD_MAX:
        return v > acc || v != v ? v : acc;
    case FOLD_MIN:
        return v < acc || v != v ? v : acc;
    case FOLD_PROD:
        return acc * v;
    case FOLD_ABS:
        return acc + fabsf(v);
    case FOLD_SQUARE:
        return acc + v * v;
    case FOLD_COUNT:
    default:
        return acc;
    }
}

static inline float fold_first(enum fold_fn fn, float v)
{
    return fn == FOLD_ABS ? fabsf(v) : fn == FOLD_SQUARE ? v * v : v;
}

/* How two partial results meet. */
static inline float fold_meet(enum fold_fn fn, float p, float q)
{
    return fold_step(fn == FOLD_ABS || fn == FOLD_SQUARE ? FOLD_SUM : fn, p, q);
}

static inline __attribute__((always_inline)) float fold_one(enum fold_fn fn, const float *x, size_t n)
{
    float acc[WAYS];
    if (n < WAYS) {
        float v = fold_first(fn, x[0]);
        for (size_t i = 1; i < n; i++) {
            v = fold_step(fn, v, x[i]);
        }
        return v;
    }
    for (size_t k = 0; k < WAYS; k++) {
        acc[k] = fold_first(fn, x[k]);
    }
    size_t i = WAYS;
    for (; i + WAYS <= n; i += WAYS) {
        for (size_t k = 0; k < WAYS; k++) {
            acc[k] = fold_step(fn, acc[k], x[i + k]);
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        acc[k] = fold_step(fn, acc[k], x[i]);
    }
    for (size_t width = WAYS / 2; width > 0; width /= 2) {
        for (size_t k = 0; k < width; k++) {
            acc[k] = fold_meet(fn, acc[k], acc[k + width]);
        }
    }
    return acc[0];
}

static inline __attribute__((always_inline)) void fold_rows_one(enum fold_fn fn, const float *x, size_t stride,
                                                                size_t rows, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = fold_first(fn, x[i]);
    }
    size_t r = 1;
    for (; r + 4 <= rows; r += 4) { /* results go through memory once for four rows; the order stays */
        const float *row = x + r * stride;
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = fold_step(fn, fold_step(fn, y[i], row[i]), row[stride + i]);
            y[i] = fold_step(fn, fold_step(fn, v, row[2 * stride + i]), row[3 * stride + i]);
        }
    }
    for (; r < rows; r++) {
        const float *row = x + r * stride;
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = fold_step(fn, y[i], row[i]);
        }
    }
}

/* A switch outside of the loops: each case is compiled for its own function. */
#define EACH(call)                                                                                                     \
    switch (fn) {                                                                                                      \
    case FOLD_SUM:                                                                                                     \
        call(FOLD_SUM);                                                                                                \
    case FOLD_MAX:                                                                                                     \
        call(FOLD_MAX);                                                                                                \
    case FOLD_MIN:                                                                                                     \
        call(FOLD_MIN);                                                                                                \
    case FOLD_PROD:                                                                                                    \
        call(FOLD_PROD);                                                                                               \
    case FOLD_ABS:                                                                                                     \
        call(FOLD_ABS);                                                                                                \
    case FOLD_SQUARE:                                                                                                  \
        call(FOLD_SQUARE);                                                                                             \
    case FOLD_COUNT:                                                                                                   \
    default:                                                                                                           \
        break;                                                                                                         \
    }

float OWN(own_fold)(enum fold_fn fn, const float *x, size_t n)
{
#define ONE(f) return fold_one(f, x, n)
    EACH(ONE)
    return 0.0f;
}

void OWN(own_fold_rows)(enum fold_fn fn, const float *x, size_t stride, size_t rows, float *y, size_t n)
{
#define ROWS(f)                                                                                                        \
    fold_rows_one(f, x, stride, rows, y, n);                                                                           \
    break
    EACH(ROWS)
}

float OWN(own_exp_sum)(const float *x, float *y, size_t n, float shift)
{
    SIMD for (size_t i = 0; i < n; i++)
    {
        y[i] = exp_share(x[i] - shift);
    }
    return n > 0 ? fold_one(FOLD_SUM, y, n) : 0.0f;
}

float OWN(own_square_sum)(const float *x, size_t n, float mean)
{
    float acc[WAYS] = {0};
    size_t i = 0;
    for (; i + WAYS <= n; i += WAYS) {
        for (size_t k = 0; k < WAYS; k++) {
            float d = x[i + k] - mean;
            acc[k] += d * d;
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        float d = x[i] - mean;
        acc[k] += d * d;
    }
    return fold_one(FOLD_SUM, acc, WAYS);
}

float OWN(own_dot)(const float *x, const float *y, size_t n)
{
    float acc[WAYS] = {0};
    size_t i = 0;
    for (; i + WAYS <= n; i += WAYS) {
        for (size_t k = 0; k < WAYS; k++) {
            acc[k] += x[i + k] * y[i + k];
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        acc[k] += x[i] * y[i];
    }
    return fold_one(FOLD_SUM, acc, WAYS);
}
