/*
 * own_lanes.h - loads, stores and limits of one vector, for loops that keep their sums in registers; compiled once per instruction set as own_vec.h is.
 *
 * Threads: any.
 */
#ifndef XNNPACK_OWN_LANES_H
#define XNNPACK_OWN_LANES_H

#include "backend/xnnpack/own_vec.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

/* The accumulators live in registers only when every loop over rows is unrolled. */
#ifdef __clang__
#define UNROLL      _Pragma("clang loop unroll(full)")
#define UNROLL_MORE UNROLL
#else
#define UNROLL      _Pragma("GCC unroll 14")
#define UNROLL_MORE _Pragma("GCC unroll 21")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE vf load(const float *p)
{
    return *(const vf *)p;
}

INLINE void store(float *p, vf v)
{
    *(vf *)p = v;
}

/* The first n of a vector; the others are 0 and are not touched. */
#if defined(__AVX512F__)
INLINE vf load_some(const float *p, size_t n)
{
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

INLINE void store_some(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#else
INLINE vf load_some(const float *p, size_t n)
{
    float part[OWN_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        part[i] = p[i];
    }
    return load(part);
}

INLINE void store_some(float *p, vf v, size_t n)
{
    float part[OWN_LANES];
    store(part, v);
    for (size_t i = 0; i < n; i++) {
        p[i] = part[i];
    }
}
#endif

/* NaN stays: x86's instructions give their second operand then, Arm's give NaN. */
INLINE vf clamp(vf v, vf low, vf high)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)v));
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)v));
#elif defined(__aarch64__)
    return (vf)vminq_f32(vmaxq_f32((float32x4_t)v, (float32x4_t)low), (float32x4_t)high);
#else
    for (size_t i = 0; i < OWN_LANES; i++) {
        float x = v[i] < low[i] ? low[i] : v[i];
        v[i] = x > high[i] ? high[i] : x;
    }
    return v;
#endif
}

INLINE vf all(float x)
{
    float part[OWN_LANES];
    for (size_t i = 0; i < OWN_LANES; i++) {
        part[i] = x;
    }
    return load(part);
}

#endif
