/* Products of bf16 by the processor's own instruction: two numbers of 16 bits at a time, sums in f32. Compiled for AVX-512 with BF16, or for Arm's BF16, alone. */
#include <string.h>

#include "backend/xnnpack/own_lanes.h"

#include "backend/xnnpack/own_gemm_tile.inc"

void own_gemm_pairs(const struct gemm_tile *t)
{
    tile_of(t, GEMM_PAIRS);
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
#else
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
