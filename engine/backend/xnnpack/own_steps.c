/* Compiled without contraction: the steps must be those of the reference, to the bit. */
#include <string.h>

#include "backend/row_rounding.h"
#include "backend/xnnpack/own_lanes.h"

#define WAYS (4 * OWN_LANES) /* a single minimum would wait for itself at each element */

/* NaN changes no range. count <= WAYS */
static inline __attribute__((always_inline)) void range_grow(float *min, float *max, const float *x, size_t count)
{
    for (size_t l = 0; l < count; l++) {
        min[l] = x[l] < min[l] ? x[l] : min[l];
        max[l] = x[l] > max[l] ? x[l] : max[l];
    }
}

void OWN(own_range)(const float *x, size_t n, float *ret_min, float *ret_max)
{
    float min[WAYS] = {0.0f}, max[WAYS] = {0.0f};
    size_t i = 0;
    for (; i + WAYS <= n; i += WAYS) {
        range_grow(min, max, x + i, WAYS);
    }
    range_grow(min, max, x + i, n - i);
    float low = 0.0f, high = 0.0f;
    for (i = 0; i < WAYS; i++) {
        low = min[i] < low ? min[i] : low;
        high = max[i] > high ? max[i] : high;
    }
    *ret_min = low;
    *ret_max = high;
}

typedef int32_t vi __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias));

/* By lanes: a where the mask is set, else b. */
INLINE vf choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
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
