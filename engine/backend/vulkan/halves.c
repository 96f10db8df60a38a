#include "backend/vulkan/halves.h"

#include <string.h>

#include "penstock/dtype.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define EIGHT 8

/* Gives how many are done: whole eights, or none where the processor has no such instruction. */
__attribute__((target("avx,f16c"))) static size_t eights_narrow(uint16_t *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + EIGHT <= count; i += EIGHT) {
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_NO_EXC));
    }
    return i;
}

__attribute__((target("avx,f16c"))) static size_t eights_widen(float *to, const uint16_t *from, size_t count)
{
    size_t i = 0;
    for (; i + EIGHT <= count; i += EIGHT) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
    }
    return i;
}

static bool eights_there(void)
{
    return __builtin_cpu_supports("avx2"); /* all that have it have f16c, which clang 14 cannot ask for */
}
#elif defined(__aarch64__)
#include <arm_neon.h>

#define FOUR 4

static size_t eights_narrow(uint16_t *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + FOUR <= count; i += FOUR) {
        vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
    }
    return i;
}

static size_t eights_widen(float *to, const uint16_t *from, size_t count)
{
    size_t i = 0;
    for (; i + FOUR <= count; i += FOUR) {
        vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
    }
    return i;
}

static bool eights_there(void)
{
    return true;
}
#else
static size_t eights_narrow(uint16_t *to, const float *from, size_t count)
{
    (void)to, (void)from, (void)count;
    return 0;
}

static size_t eights_widen(float *to, const uint16_t *from, size_t count)
{
    (void)to, (void)from, (void)count;
    return 0;
}

static bool eights_there(void)
{
    return false;
}
#endif

void vk_halves_narrow(uint16_t *to, const float *from, size_t count)
{
    for (size_t i = eights_there() ? eights_narrow(to, from, count) : 0; i < count; i++) {
        to[i] = pen_f32_to_f16(from[i]);
    }
}

void vk_halves_widen(float *to, const uint16_t *from, size_t count)
{
    for (size_t i = eights_there() ? eights_widen(to, from, count) : 0; i < count; i++) {
        to[i] = pen_f16_to_f32(from[i]);
    }
}

void vk_halves_put(void *staging, const void *value, size_t bytes, bool half)
{
    if (half) {
        vk_halves_narrow(staging, value, bytes / sizeof(float));
    } else {
        memcpy(staging, value, bytes);
    }
}

void vk_halves_get(void *value, const void *staging, size_t bytes, bool half)
{
    if (half) {
        vk_halves_widen(value, staging, bytes / sizeof(float));
    } else {
        memcpy(value, staging, bytes);
    }
}

size_t vk_halves_bytes(size_t bytes, bool half)
{
    return half ? bytes / 2 : bytes;
}
