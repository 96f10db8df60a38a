#include "backend/xnnpack/own_lanes.h"

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

#ifdef __AVX512F__
/* 1 / d for d of 1 to infinity: fourteen bits, doubled by a step of Newton's, in place of a division, which takes as long as all the rest. */
INLINE vf reciprocal(vf d)
{
    const __m512 first = _mm512_rcp14_ps((__m512)d);
    const __m512 missing = _mm512_fnmadd_ps((__m512)d, first, _mm512_set1_ps(2.0f));
    const __mmask16 finite = _mm512_cmp_ps_mask((__m512)d, _mm512_set1_ps(INFINITY), _CMP_NEQ_UQ);
    return (vf)_mm512_mask_mul_ps(first, finite, first, missing);
}

/*
 * 1 / (1 + 2^u) with u = -x log2 e, split into a whole number and f, |f| <= 1/2. 2^f: a polynomial with a relative error of 2e-9. Beyond the clamp the sum is 1 or
 * infinity. The result's error is below 2e-7 of 1, and for large negative x some 1e-7 |x| of itself.
 */
INLINE vf sigmoid_of(vf x, vf factor)
{
    const vf magic = all(12582912.0f);
    const vf u = clamp(x * factor, all(-127.0f), all(128.0f)), t = u + magic, f = u - (t - magic);
    vf p = all(1.53458124e-4f);
    p = p * f + all(1.33999309e-3f);
    p = p * f + all(9.61848907e-3f);
    p = p * f + all(5.55032864e-2f);
    p = p * f + all(0.240226462f);
    p = p * f + all(0.693147182f);
    p = p * f + all(1.0f);
    const __m512i power = _mm512_slli_epi32((__m512i)t, 23);
    return reciprocal(p * (vf)_mm512_add_epi32(power, _mm512_set1_epi32(0x3F800000)) + all(1.0f));
}

/* n: whole vectors. */
static bool vectors(enum unary_fn fn, const float *x, float *y, size_t n, float a)
{
    const float log2_e = 1.44269504f;
    if (OWN_KEPT_UNARY_SIGMOID && fn == UNARY_SIGMOID) {
        for (size_t i = 0; i < n; i += OWN_LANES) {
            store(y + i, sigmoid_of(load(x + i), all(-log2_e)));
        }
        return true;
    }
    if (OWN_KEPT_UNARY_SWISH && fn == UNARY_SWISH) {
        for (size_t i = 0; i < n; i += OWN_LANES) {
            const vf v = load(x + i);
            store(y + i, v * sigmoid_of(v, all(-a * log2_e)));
        }
        return true;
    }
    return false;
}
#else
static bool vectors(enum unary_fn fn, const float *x, float *y, size_t n, float a)
{
    (void)fn, (void)x, (void)y, (void)n, (void)a;
    return false;
}
#endif

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
    if (!vectors(fn, x, y, whole, a)) {
        smooth(fn, x, y, whole, a);
    }
    if (whole < n) {
        float rest[OWN_LANES] = {0};
        memcpy(rest, x + whole, (n - whole) * sizeof *x);
        if (!vectors(fn, rest, rest, OWN_LANES, a)) {
            smooth(fn, rest, rest, OWN_LANES, a);
        }
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
