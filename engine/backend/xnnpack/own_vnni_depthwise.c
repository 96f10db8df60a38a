/*
 * Depthwise convolution of bytes: four taps at a time are woven together, so that one instruction multiplies and adds all four for 16 channels. Unpacking
 * works within 128 bits and leaves channels in an order of its own; weights lie in that order, and packing the results undoes it.
 */
#include "backend/xnnpack/own_int.h"

#include <immintrin.h>

struct block {
    __m512i sum[4], ones[4];
};

static inline __attribute__((always_inline)) void weave(const struct int_depthwise *d, const uint8_t *x,
                                                        const uint8_t *w, struct block *b, const size_t groups,
                                                        const int zeros)
{
    for (size_t g = 0; g < groups; g++) {
        const uint32_t *at = d->taps + 4 * g;
        __m512i p = _mm512_loadu_si512(x + at[0]), q = _mm512_loadu_si512(x + at[1]);
        __m512i r = _mm512_loadu_si512(x + at[2]), s = _mm512_loadu_si512(x + at[3]);
        __m512i pq = _mm512_unpacklo_epi8(p, q), rs = _mm512_unpacklo_epi8(r, s);
        __m512i pq2 = _mm512_unpackhi_epi8(p, q), rs2 = _mm512_unpackhi_epi8(r, s);
        const __m512i v[4] = {_mm512_unpacklo_epi16(pq, rs), _mm512_unpackhi_epi16(pq, rs),
                              _mm512_unpacklo_epi16(pq2, rs2), _mm512_unpackhi_epi16(pq2, rs2)};
        const __m512i *wg = (const __m512i *)(const void *)(w + g * 256);
        for (int i = 0; i < 4; i++) {
            b->sum[i] = _mm512_dpbusd_epi32(b->sum[i], v[i], _mm512_loadu_si512(wg + i));
            if (zeros) {
                b->ones[i] = _mm512_dpbusd_epi32(b->ones[i], v[i], _mm512_set1_epi32((int)d->ones[g]));
            }
        }
    }
}

/* 64 sums to 64 bytes in the order of memory. */
static inline __attribute__((always_inline)) __m512i finish(const struct int_depthwise *d, size_t at, struct block *b,
                                                            const int zeros)
{
    const __m512 high = _mm512_set1_ps(d->high);
    const uint32_t flip =
        d->low + (float)d->zero < 0.0f ? 0x80 : 0; /* of signed bytes, which are packed as unsigned ones */
    const __m512i zero = _mm512_set1_epi16((short)(d->zero + (int32_t)flip));
    for (size_t i = 0; i < 4; i++) {
        __m512i v = b->sum[i]; /* starts from add */
        if (zeros) {
            v = _mm512_sub_epi32(v, _mm512_mullo_epi32(b->ones[i], _mm512_loadu_si512(d->w_zero + at + 16 * i)));
        }
        __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(v), _mm512_loadu_ps(d->scale + at + 16 * i));
        b->sum[i] =
            _mm512_cvtps_epi32(_mm512_min_ps(f, high)); /* what is below the limits becomes so when it is packed */
    }
    __m512i p = _mm512_adds_epi16(_mm512_packs_epi32(b->sum[0], b->sum[1]), zero);
    __m512i q = _mm512_adds_epi16(_mm512_packs_epi32(b->sum[2], b->sum[3]), zero);
    return _mm512_xor_si512(_mm512_packus_epi16(p, q), _mm512_set1_epi8((char)flip));
}

static inline __attribute__((always_inline)) void row(const struct int_depthwise *d, const uint8_t *x, uint8_t *y,
                                                      size_t n, const size_t groups, const int zeros)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i += 64) {
        struct block b;
        for (size_t q = 0; q < 4; q++) {
            b.sum[q] = _mm512_loadu_si512(d->add + k * 64 + 16 * q);
            b.ones[q] = _mm512_setzero_si512();
        }
        weave(d, x + i, d->w + k * groups * 256, &b, groups, zeros);
        __m512i v = finish(d, k * 64, &b, zeros);
        if (n - i >= 64) {
            _mm512_storeu_si512(y + i, v);
        } else {
            _mm512_mask_storeu_epi8(y + i, ((__mmask64)1 << (n - i)) - 1, v);
        }
        k = k + 1 == d->blocks ? 0 : k + 1;
    }
}

/* 3 x 3 windows are nearly all there are: their three groups are unrolled. */
void own_int_depthwise_vnni(const struct int_depthwise *d, const uint8_t *x, uint8_t *y, size_t n)
{
    if (d->groups == 3) {
        if (d->w_zero != NULL) {
            row(d, x, y, n, 3, 1);
        } else {
            row(d, x, y, n, 3, 0);
        }
    } else if (d->w_zero != NULL) {
        row(d, x, y, n, d->groups, 1);
    } else {
        row(d, x, y, n, d->groups, 0);
    }
}
