#include "backend/xnnpack/own_vec.h"

#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_math.h"

/* A function that this build leaves out has no loop. */
#define CASE(fn)                                                                                                       \
    case fn:                                                                                                           \
        if (!OWN_KEPT_##fn)                                                                                            \
            break;

/* One loop per function: each is simple enough for the vectoriser. */
#define LOOP(expression)                                                                                               \
    SIMD for (size_t i = 0; i < n; i++)                                                                                \
    {                                                                                                                  \
        float v = x[i];                                                                                                \
        y[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

static __attribute__((noinline)) void smooth(enum unary_fn fn, const float *x, float *y, size_t n, float a)
{
    switch (fn) {
        CASE(UNARY_EXP)
        LOOP(exp_f(v));
        CASE(UNARY_LOG)
        LOOP(log_f(v));
        CASE(UNARY_SIGMOID)
        LOOP(sigmoid_f(v));
        CASE(UNARY_TANH)
        LOOP(tanh_f(v));
        CASE(UNARY_ERF)
        LOOP(erf_f(v));
        CASE(UNARY_GELU)
        LOOP(0.5f * v * (1.0f + erf_f(v * 0.707106781f)));
        CASE(UNARY_GELU_TANH)
        LOOP(0.5f * v * (1.0f + tanh_f(0.797884561f * (v + 0.044715f * v * v * v))));
        CASE(UNARY_SOFTPLUS)
        LOOP(softplus_f(v));
        CASE(UNARY_SWISH)
        LOOP(v / exp_and_one(-a * v));
        CASE(UNARY_MISH)
        LOOP(v * tanh_f(softplus_f(v)));
        CASE(UNARY_ELU)
        LOOP(v < 0.0f ? a * expm1_f(v) : v);
        CASE(UNARY_CELU)
        LOOP(v < 0.0f ? a * expm1_f(v / a) : v);
    default:
        break;
    }
}

/* Rare ones: the C library, one element at a time. */
static void library(enum unary_fn fn, const float *x, float *y, size_t n)
{
    switch (fn) {
        CASE(UNARY_SIN)
        LOOP(sinf(v));
        CASE(UNARY_COS)
        LOOP(cosf(v));
        CASE(UNARY_TAN)
        LOOP(tanf(v));
        CASE(UNARY_ASIN)
        LOOP(asinf(v));
        CASE(UNARY_ACOS)
        LOOP(acosf(v));
        CASE(UNARY_ATAN)
        LOOP(atanf(v));
        CASE(UNARY_SINH)
        LOOP(sinhf(v));
        CASE(UNARY_COSH)
        LOOP(coshf(v));
        CASE(UNARY_ASINH)
        LOOP(asinhf(v));
        CASE(UNARY_ACOSH)
        LOOP(acoshf(v));
        CASE(UNARY_ATANH)
        LOOP(atanhf(v));
    default:
        break;
    }
}

/*
 * An element's bits must not depend on where a row ends: what a compiler makes of the last few elements rounds in another order than its loop over vectors.
 * So the loop has whole vectors only, and the rest takes part in one of its own.
 */
static void smooth_all(enum unary_fn fn, const float *x, float *y, size_t n, float a)
{
    const size_t whole = n / OWN_LANES * OWN_LANES;
    smooth(fn, x, y, whole, a);
    if (whole < n) {
        float rest[OWN_LANES] = {0};
        memcpy(rest, x + whole, (n - whole) * sizeof *x);
        smooth(fn, rest, rest, OWN_LANES, a);
        memcpy(y + whole, rest, (n - whole) * sizeof *y);
    }
}

static void piecewise(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b)
{
    switch (fn) {
        CASE(UNARY_CLAMP)
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = x[i];
            v = v < a ? a : v;
            y[i] = v > b ? b : v;
        }
        break;
        CASE(UNARY_LEAKY)
        LOOP(v < 0.0f ? a * v : v);
        CASE(UNARY_SELU)
        LOOP(b * (v > 0.0f ? v : a * expm1_f(v)));
        CASE(UNARY_SOFTSIGN)
        LOOP(v / (1.0f + (v < 0.0f ? -v : v)));
        CASE(UNARY_HARDSIGMOID)
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = a * x[i] + b;
            v = v < 0.0f ? 0.0f : v;
            y[i] = v > 1.0f ? 1.0f : v;
        }
        break;
        CASE(UNARY_HARDSWISH)
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = x[i] * 0.166666667f + 0.5f;
            v = v < 0.0f ? 0.0f : v;
            y[i] = x[i] * (v > 1.0f ? 1.0f : v);
        }
        break;
        CASE(UNARY_SHRINK)
        LOOP(v < -b ? v + a : v > b ? v - a : 0.0f);
        CASE(UNARY_THRESHOLD)
        LOOP(v > a ? v : 0.0f);
    default:
        break;
    }
}

void OWN(own_unary)(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b)
{
    switch (fn) {
        CASE(UNARY_ABS)
        LOOP(fabsf(v));
        CASE(UNARY_NEG)
        LOOP(-v);
        CASE(UNARY_CEIL)
        LOOP(ceilf(v));
        CASE(UNARY_FLOOR)
        LOOP(floorf(v));
        CASE(UNARY_ROUND)
        LOOP(rintf(v)); /* to even: the rounding mode is never changed */
        CASE(UNARY_SQRT)
        LOOP(sqrtf(v));
        CASE(UNARY_RECIPROCAL)
        LOOP(1.0f / v);
        CASE(UNARY_SIGN)
        LOOP(v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v);
        CASE(UNARY_RELU)
        LOOP(v < 0.0f ? 0.0f : v);
    case UNARY_CLAMP:
    case UNARY_LEAKY:
    case UNARY_SELU:
    case UNARY_SOFTSIGN:
    case UNARY_HARDSIGMOID:
    case UNARY_HARDSWISH:
    case UNARY_SHRINK:
    case UNARY_THRESHOLD:
        piecewise(fn, x, y, n, a, b);
        break;
    default:
        if (fn >= UNARY_SIN) {
            library(fn, x, y, n);
        } else {
            smooth_all(fn, x, y, n, a);
        }
        break;
    }
}
