#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_vec.h"

#include <math.h>

/* A function that this build leaves out has no loops. */
#define CASE(fn)                                                                                                       \
    case fn:                                                                                                           \
        if (!OWN_KEPT_##fn)                                                                                            \
            break;

/* Three loops: both advance, or one side is a single value. */
#define LOOPS(expression)                                                                                              \
    if (a_step != 0 && b_step != 0) {                                                                                  \
        SIMD for (size_t i = 0; i < n; i++)                                                                            \
        {                                                                                                              \
            float p = a[i], q = b[i];                                                                                  \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    } else if (a_step != 0) {                                                                                          \
        const float q = b[0];                                                                                          \
        SIMD for (size_t i = 0; i < n; i++)                                                                            \
        {                                                                                                              \
            float p = a[i];                                                                                            \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    } else {                                                                                                           \
        const float p = a[0];                                                                                          \
        SIMD for (size_t i = 0; i < n; i++)                                                                            \
        {                                                                                                              \
            float q = b[b_step * i];                                                                                   \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    break

static float power(float p, float q)
{
    return q == 2.0f ? p * p : q == 1.0f ? p : powf(p, q);
}

static float modulo(float p, float q)
{
    float r = fmodf(p, q);
    return r == 0.0f ? copysignf(r, q) : (r < 0.0f) != (q < 0.0f) ? r + q : r;
}

/* x^y for one y: the exponents that models use need no library call. */
static int power_fixed(const float *a, float q, float *y, size_t n)
{
    if (q == 2.0f) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = a[i] * a[i];
        }
    } else if (q == 3.0f) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = a[i] * a[i] * a[i];
        }
    } else if (q == 0.5f) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = a[i] == -INFINITY ? INFINITY : sqrtf(a[i]);
        }
    } else {
        return 0;
    }
    return 1;
}

void OWN(own_binary)(enum binary_fn fn, const float *a, size_t a_step, const float *b, size_t b_step, float *y,
                     size_t n)
{
    switch (fn) {
        CASE(BINARY_ADD)
        LOOPS(p + q);
        CASE(BINARY_SUB)
        LOOPS(p - q);
        CASE(BINARY_MUL)
        LOOPS(p * q);
        CASE(BINARY_DIV)
        LOOPS(p / q);
        CASE(BINARY_MAX)
        LOOPS(p > q || p != p ? p : q); /* NaN wins, as NumPy's maximum */
        CASE(BINARY_MIN)
        LOOPS(p < q || p != p ? p : q);
        CASE(BINARY_PRELU)
        LOOPS(p < 0.0f ? p * q : p);
        CASE(BINARY_FMOD)
        LOOPS(fmodf(p, q));
        CASE(BINARY_MOD)
        LOOPS(modulo(p, q));
        CASE(BINARY_POW)
        if (b_step == 0 && a_step != 0 && power_fixed(a, b[0], y, n)) {
            break;
        }
        LOOPS(power(p, q));
    case BINARY_COUNT:
    default:
        break;
    }
}
