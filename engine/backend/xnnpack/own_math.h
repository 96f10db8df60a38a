/*
 * own_math.h - exp, log, tanh, erf and their relatives as straight-line float code that compilers turn into vectors.
 *
 * Errors, relative unless said: exp 2e-7, log 2e-7 (absolute 1e-7 near 1), tanh 3e-7, erf 4e-7 (tests/engine/xnnpack/test_own_rows.c).
 * NaN passes through; exp saturates to 0 and infinity.
 * Threads: any (pure).
 */
#ifndef XNNPACK_OWN_MATH_H
#define XNNPACK_OWN_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t bits_of(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline float from_bits(int32_t i)
{
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127. */
static inline float pow2(int32_t n)
{
    return from_bits((int32_t)(((uint32_t)n + 127u) << 23));
}

/* x = n ln 2 + r, |r| <= ln 2 / 2: r, and n by the trick of adding 1.5 * 2^23. */
static inline float exp_split(float x, int32_t *ret_n)
{
    const float magic = 12582912.0f;
    float t = x * 1.44269504f + magic;
    float n = t - magic;
    *ret_n = (int32_t)((uint32_t)bits_of(t) - (uint32_t)bits_of(magic));
    return (x - n * 0.693145752f) -
           n * 1.42860677e-6f; /* ln 2 in two parts: the first has 15 bits, so n times it is exact */
}

/* exp(r) - 1 for |r| <= 0.35: Taylor to r^7, the next term is 5e-9. */
static inline float expm1_small(float r)
{
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    return p * r * r + r;
}

static inline float exp_f(float x)
{
    float c = x > 90.0f ? 90.0f : x;
    c = c < -105.0f ? -105.0f : c;
    int32_t n;
    float r = exp_split(c, &n);
    n = n > 256 ? 256 : n; /* NaN gives any n: keep the shifts below defined */
    n = n < -252 ? -252 : n;
    int32_t half = n / 2; /* two factors: n reaches beyond both ends of the exponent */
    return (expm1_small(r) + 1.0f) * pow2(half) * pow2(n - half);
}

/*
 * exp(x) of a share: what is below 2^-125 is 0, as it is beside the largest share, which is 1. Such numbers are subnormal, and many processors take a hundred times as long for each: a
 * masked score gives one.
 */
static inline float exp_share(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -87.0f ? -87.0f : c;
    int32_t n;
    float r = exp_split(c, &n);
    n = n > 128 ? 128 : n; /* infinity */
    n = n < -126 ? -126 : n;
    float e = (expm1_small(r) + 1.0f) * pow2(n);
    return x < -87.0f ? 0.0f : e;
}

/* exp(x) - 1 without cancellation near 0, x <= 88. */
static inline float expm1_f(float x)
{
    float c = x > 88.0f ? 88.0f : x;
    c = c < -87.0f ? -87.0f : c;
    int32_t n;
    float r = exp_split(c, &n);
    n = n > 127 ? 127 : n;
    n = n < -126 ? -126 : n;
    float s = pow2(n);
    return expm1_small(r) * s + (s - 1.0f);
}

/* ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2). */
static inline float log_f(float x)
{
    float tiny = x < 1.17549435e-38f ? 8388608.0f : 1.0f; /* denormals up by 2^23 */
    float scaled = x * tiny;
    int32_t i = bits_of(scaled);
    int32_t e = (int32_t)(((uint32_t)i - 0x3F3504F3u)) >> 23;
    float m = from_bits((int32_t)((uint32_t)i - ((uint32_t)e << 23)));
    float s = (m - 1.0f) / (m + 1.0f);
    float q = s * s;
    float p = 0.181818182f;
    p = p * q + 0.222222222f;
    p = p * q + 0.285714286f;
    p = p * q + 0.4f;
    p = p * q + 0.666666667f;
    float n = (float)e - (tiny > 1.0f ? 23.0f : 0.0f);
    float y = n * 0.693145752f + (n * 1.42860677e-6f + (p * q * s + 2.0f * s));
    y = x == INFINITY ? INFINITY : y;
    y = x == 0.0f ? -INFINITY : y;
    return x >= 0.0f ? y : NAN; /* NaN too */
}

/* 1 + exp(x), the same bits with less work: what is too small beside 1 is 0, and from 88.4 on it is infinity. */
static inline float exp_and_one(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -88.0f ? -88.0f : c;
    int32_t n; /* -127 to 128, which are 0 and infinity as factors; NaN gives any n, and stays NaN */
    float r = exp_split(c, &n);
    return 1.0f + (expm1_small(r) + 1.0f) * pow2(n);
}

static inline float sigmoid_f(float x)
{
    return 1.0f / exp_and_one(-x);
}

static inline float tanh_f(float x)
{
    float c = x > 10.0f ? 10.0f : x;
    c = c < -10.0f ? -10.0f : c;
    float e = expm1_f(2.0f * c);
    return e / (e + 2.0f);
}

/* x P(x^2) / Q(x^2) within +-3.92, where erf rounds to 1: the quotient of two polynomials of degree 5 with the least largest relative error, 2e-8. */
static inline float erf_f(float x)
{
    float c = x > 3.92f ? 3.92f : x;
    c = c < -3.92f ? -3.92f : c;
    float q = c * c;
    float p = 2.05011474e-6f;
    p = p * q + 2.84880283e-4f;
    p = p * q + 3.76549177e-3f;
    p = p * q + 5.27483374e-2f;
    p = p * q + 1.90403491e-1f;
    p = p * q + 1.12837911f;
    float d = 3.80918718e-5f;
    d = d * q + 1.16250583e-3f;
    d = d * q + 1.49689652e-2f;
    d = d * q + 1.14107892e-1f;
    d = d * q + 5.02073467e-1f;
    d = d * q + 1.0f;
    float y = c * p / d;
    y = y > 1.0f ? 1.0f : y;
    return y < -1.0f ? -1.0f : y;
}

static inline float softplus_f(float x)
{
    float a = x < 0.0f ? -x : x;
    float e = exp_f(-a); /* in (0, 1] */
    float u = 1.0f + e;
    float l = log_f(u);
    l = e < 1e-4f ? e * (1.0f - 0.5f * e) : l; /* ln(1 + e) for small e */
    float y = (x > 0.0f ? x : 0.0f) + l;
    return x == x ? y : x;
}

#endif
