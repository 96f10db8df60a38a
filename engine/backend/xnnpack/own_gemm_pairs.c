/* Products of bf16 by the processor's own instruction: two numbers of 16 bits at a time, sums in f32. Compiled for AVX-512 with BF16, or for Arm's BF16, alone. */
#include <string.h>

#include "backend/xnnpack/own_lanes.h"

#include "backend/xnnpack/own_gemm_tile.inc"

void own_gemm_pairs(const struct gemm_tile *t)
{
    tile_of(t, GEMM_PAIRS);
}

#include "backend/xnnpack/own_gemm_row.inc"

void own_gemm_row_pairs(const struct gemm_row *t)
{
    row_of(t, GEMM_PAIRS);
}

#ifdef OWN_ARM
INLINE uint16x8_t pairs_of(const float *x)
{
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(x)), vld1q_f32(x + 4)));
}

void own_pairs_make(const float *x, uint32_t *y, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        vst1q_u16((uint16_t *)(void *)(y + i / 2), pairs_of(x + i));
    }
    if (i < n) {
        float part[8] = {0};
        memcpy(part, x + i, (n - i) * sizeof *part);
        const uint16x8_t pairs = pairs_of(part);
        memcpy(y + i / 2, &pairs, (n - i + 1) / 2 * sizeof *y);
    }
}

void own_pairs_lay(const float *even, const float *odd, uint32_t *y, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const size_t count = n - i < 8 ? n - i : 8;
        float a[8] = {0}, b[8] = {0};
        memcpy(a, even + i, count * sizeof *a);
        if (odd != NULL) {
            memcpy(b, odd + i, count * sizeof *b);
        }
        const uint16x8x2_t both = vzipq_u16(pairs_of(a), pairs_of(b));
        memcpy(y + i, &both, count * sizeof *y);
    }
}
#else
/* Of both rows, as halves of words. */
static __m512i halves_of(const float *x, __mmask16 some)
{
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x)));
}

void own_pairs_lay(const float *even, const float *odd, uint32_t *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 some = (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
        const __m512i low = halves_of(even + i, some);
        const __m512i high = odd != NULL ? _mm512_slli_epi32(halves_of(odd + i, some), 16) : _mm512_setzero_si512();
        _mm512_mask_storeu_epi32(y + i, some, _mm512_or_si512(low, high));
    }
}

void own_pairs_make(const float *x, uint32_t *y, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));
        _mm512_storeu_si512(y + i / 2, (__m512i)pairs);
    }
    for (; i < n; i += 16) {
        const size_t left = n - i < 16 ? n - i : 16;
        __m256bh pairs = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps((__mmask16)((1u << left) - 1), x + i));
        _mm256_mask_storeu_epi32(y + i / 2, (__mmask8)((1u << (left + 1) / 2) - 1), (__m256i)pairs);
    }
}
#endif
