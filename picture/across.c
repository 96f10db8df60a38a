/* across.c - per group of four taps: 16 high parts, 16 low parts, each laid out as two times four pairs. */
#include "across.h"

#include <stdlib.h>
#include <string.h>

#define LOW_BITS 11
#define GROUP    4u  /* taps */
#define LANES    16u /* 16-bit numbers in a register */

#if defined(__x86_64__)
#include <immintrin.h>

bool across_here(void)
{
    return __builtin_cpu_supports("avx2");
}

static uint32_t groups_of(uint32_t most)
{
    return (most + GROUP - 1) / GROUP;
}

uint64_t across_bytes(uint64_t target, uint64_t most)
{
    return target * (most / GROUP + 1) * 2 * LANES * sizeof(int16_t);
}

/* Lane i belongs to tap 2 * (i / 8) + i % 2: pairs of taps for red, green, blue and nothing, twice. */
static void group_pack(const int32_t *weight, uint32_t count, int16_t *to)
{
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t tap = 2 * (i / 8) + i % 2;
        int32_t w = tap < count ? weight[tap] : 0;
        to[i] = (int16_t)(w >> LOW_BITS);
        to[LANES + i] = (int16_t)(w & ((1 << LOW_BITS) - 1));
    }
}

int16_t *across_pack(const struct pixel_taps *taps)
{
    uint32_t groups = groups_of(taps->most);
    int16_t *packed = aligned_alloc(64, (size_t)taps->target * groups * 2 * LANES * sizeof *packed);
    for (uint32_t x = 0; packed && x < taps->target; x++) {
        for (uint32_t g = 0; g < groups; g++) {
            uint32_t left = taps->count[x] > g * GROUP ? taps->count[x] - g * GROUP : 0;
            group_pack(taps->weight + (size_t)x * taps->most + g * GROUP, left,
                       packed + ((size_t)x * groups + g) * 2 * LANES);
        }
    }
    return packed;
}

__attribute__((target("avx2"))) void across_run(const struct pixel_taps *taps, const int16_t *packed,
                                                const uint8_t *from, uint8_t *to)
{
    const __m256i pairs = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                                           -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m128i half = _mm_set1_epi32(1 << (TAPS_BITS - 1));
    uint32_t groups = groups_of(taps->most);
    for (uint32_t x = 0; x < taps->target; x++, to += 3) {
        const int16_t *weight = packed + (size_t)x * groups * 2 * LANES;
        const uint8_t *at = from + (size_t)taps->first[x] * 3;
        __m256i high = _mm256_setzero_si256(), low = high;
        for (uint32_t k = 0; k < taps->count[x]; k += GROUP, at += 3 * GROUP, weight += 2 * LANES) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
            __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pairs);
            high = _mm256_add_epi32(
                high, _mm256_madd_epi16(pixels, _mm256_load_si256((const __m256i *)(const void *)weight)));
            low = _mm256_add_epi32(
                low, _mm256_madd_epi16(pixels, _mm256_load_si256((const __m256i *)(const void *)(weight + LANES))));
        }
        __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, LOW_BITS), low);
        __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        sum = _mm_srai_epi32(_mm_add_epi32(sum, half), TAPS_BITS);
        sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
        uint32_t rgb = (uint32_t)_mm_cvtsi128_si32(sum);
        memcpy(to, &rgb, 3);
    }
}

#else

bool across_here(void)
{
    return false;
}

uint64_t across_bytes(uint64_t target, uint64_t most)
{
    (void)target;
    (void)most;
    return 0;
}

int16_t *across_pack(const struct pixel_taps *taps)
{
    (void)taps;
    return NULL;
}

void across_run(const struct pixel_taps *taps, const int16_t *packed, const uint8_t *from, uint8_t *to)
{
    (void)taps;
    (void)packed;
    (void)from;
    (void)to;
}
#endif
