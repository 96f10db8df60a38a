/* Compiled without contraction: the steps must be those of the reference, to the bit. */
#include <string.h>

#include "backend/row_rounding.h"
#include "backend/xnnpack/own_lanes.h"

typedef int32_t vi __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias));

/* By lanes: a where the mask is set, else b. */
INLINE vf choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Of NaN and a number the number, which is the second operand. */
INLINE vf lower(vf x, vf least)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)x, (__m512)least);
#else
    return choose((vi)(x < least), x, least);
#endif
}

INLINE vf higher(vf x, vf most)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)x, (__m512)most);
#else
    return choose((vi)(x > most), x, most);
#endif
}

void OWN(own_range)(const float *x, size_t n, float *ret_min, float *ret_max)
{
    vf low[2] = {{0}}, high[2] = {{0}};
    size_t i = 0;
    for (; i + 2 * OWN_LANES <= n; i += 2 * OWN_LANES) {
        UNROLL
        for (size_t k = 0; k < 2; k++) {
            const vf v = load(x + i + k * OWN_LANES);
            low[k] = lower(v, low[k]);
            high[k] = higher(v, high[k]);
        }
    }
    for (; i < n; i += OWN_LANES) { /* what is not there is 0, which counts anyway */
        const vf v = n - i >= OWN_LANES ? load(x + i) : load_some(x + i, n - i);
        low[0] = lower(v, low[0]);
        high[0] = higher(v, high[0]);
    }
    const vf least = lower(low[1], low[0]), most = higher(high[1], high[0]);
#if defined(__AVX512F__)
    *ret_min = _mm512_reduce_min_ps((__m512)least);
    *ret_max = _mm512_reduce_max_ps((__m512)most);
#else
    *ret_min = *ret_max = 0.0f;
    for (i = 0; i < OWN_LANES; i++) {
        *ret_min = least[i] < *ret_min ? least[i] : *ret_min;
        *ret_max = most[i] > *ret_max ? most[i] : *ret_max;
    }
#endif
}

/* The steps of a vector: whole numbers, of NaN the lowest. */
INLINE vi whole_steps(const struct row_steps *s, vf x)
{
    const vf high = all(127.0f), low = all(s->low), half = all(0x1.fffffep-2f);
    vf t = x * s->inverse + s->zero;
    t = clamp(choose((vi)(t > low), t, low), low, high);
    const vf signed_half = (vf)((vi)half | ((vi)t & (vi)all(-0.0f)));
    return __builtin_convertvector(t + signed_half, vi);
}

/* row_step() of a vector. */
INLINE vf steps_of(const struct row_steps *s, vf x)
{
    const vf t = __builtin_convertvector(whole_steps(s, x), vf);
    return choose((vi)(x != x), x, (t - s->zero) * s->scale);
}

void OWN(own_steps)(const struct row_steps *s, const float *x, float *y, size_t n)
{
    size_t i = 0;
    for (; i + OWN_LANES <= n; i += OWN_LANES) {
        store(y + i, steps_of(s, load(x + i)));
    }
    if (i < n) {
        store_some(y + i, steps_of(s, load_some(x + i, n - i)), n - i);
    }
}

typedef uint8_t vbyte __attribute__((vector_size(OWN_LANES), aligned(1), may_alias));

INLINE vbyte bytes_of(const struct row_steps *s, vf x)
{
    return __builtin_convertvector(whole_steps(s, x) + 128, vbyte);
}

bool OWN(own_step_bytes)(const struct row_steps *s, const float *x, uint8_t *y, size_t n)
{
    vi odd = {0};
    size_t i = 0;
    for (; i + OWN_LANES <= n; i += OWN_LANES) {
        const vf v = load(x + i);
        odd |= (vi)(v != v);
        *(vbyte *)(y + i) = bytes_of(s, v);
    }
    if (i < n) {
        const vf v = load_some(x + i, n - i);
        const vbyte last = bytes_of(s, v);
        odd |= (vi)(v != v);
        memcpy(y + i, &last, n - i);
    }
    int32_t any = 0;
    for (i = 0; i < OWN_LANES; i++) {
        any |= odd[i];
    }
    return any != 0;
}
