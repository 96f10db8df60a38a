/* Products of unsigned and signed bytes with the processor's own instruction: four of them to a 32-bit sum, nothing saturates. */
#include "backend/xnnpack/own_int.h"

#include <immintrin.h>
#include <string.h>

#define TILE_LANES 16
#define TILE_MR    12

typedef int32_t vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline __attribute__((always_inline)) vi dot(vi sum, uint32_t x, vi w)
{
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32((int)x), (__m512i)w);
}

#include "backend/xnnpack/own_int_tile.inc"

void own_int_product_vnni(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    tiles(x, x_stride, w, words, m, y);
}

/* ---- sums that leave as bytes ---- */

static inline __attribute__((always_inline)) uint32_t word(const uint8_t *x)
{
    uint32_t v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) void out(const struct int_tile *t, vi sum, size_t r, int c)
{
    __m512i v = _mm512_add_epi32((__m512i)sum, _mm512_loadu_si512(t->add + 16 * c));
    if (t->w_zero != NULL) {
        __m512i zeros = _mm512_loadu_si512(t->w_zero + 16 * c);
        v = _mm512_sub_epi32(v, _mm512_mullo_epi32(zeros, _mm512_set1_epi32(t->row_sum[r])));
    }
    __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(v), _mm512_loadu_ps(t->scale + 16 * c));
    f = _mm512_min_ps(_mm512_max_ps(f, _mm512_set1_ps(t->low)), _mm512_set1_ps(t->high));
    v = _mm512_add_epi32(_mm512_cvtps_epi32(f), _mm512_set1_epi32(t->zero));
    size_t left = t->n - 16 * (size_t)c;
    const __mmask16 mask = (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1);
    _mm512_mask_cvtepi32_storeu_epi8(t->y + r * t->y_stride + 16 * c, mask, v);
}

/* `rows` rows from r0 on against `cols` vectors of columns: their sums stay in registers. */
static inline __attribute__((always_inline)) void block(const struct int_tile *t, size_t r0, const int rows,
                                                        const int cols)
{
    const uint8_t *x = t->x + r0 * t->x_stride;
    vi sum[TILE_MR][2];
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (vi){0};
    }
    for (size_t k = 0; k < t->words; k++) {
        vi w0 = *(const vi *)(const void *)(t->w + k * 32), w1 = {0};
        if (cols == 2) {
            w1 = *(const vi *)(const void *)(t->w + k * 32 + 16);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            uint32_t v = word(x + (size_t)r * t->x_stride + 4 * k);
            sum[r][0] = dot(sum[r][0], v, w0);
            if (cols == 2) {
                sum[r][1] = dot(sum[r][1], v, w1);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        out(t, sum[r][0], r0 + (size_t)r, 0);
        if (cols == 2) {
            out(t, sum[r][1], r0 + (size_t)r, 1);
        }
    }
}

/* One row alone: four sums for each column, or the instruction's latency would be waited for. */
static inline __attribute__((always_inline)) void single(const struct int_tile *t, size_t r0, const int cols)
{
    const uint8_t *x = t->x + r0 * t->x_stride;
    vi sum[4][2] = {{{0}}};
    size_t k = 0;
    for (; k + 4 <= t->words; k += 4) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const uint32_t *w = t->w + (k + (size_t)i) * 32;
            uint32_t v = word(x + 4 * (k + (size_t)i));
            sum[i][0] = dot(sum[i][0], v, *(const vi *)(const void *)w);
            if (cols == 2) {
                sum[i][1] = dot(sum[i][1], v, *(const vi *)(const void *)(w + 16));
            }
        }
    }
    for (; k < t->words; k++) {
        uint32_t v = word(x + 4 * k);
        sum[0][0] = dot(sum[0][0], v, *(const vi *)(const void *)(t->w + k * 32));
        if (cols == 2) {
            sum[0][1] = dot(sum[0][1], v, *(const vi *)(const void *)(t->w + k * 32 + 16));
        }
    }
    out(t, sum[0][0] + sum[1][0] + sum[2][0] + sum[3][0], r0, 0);
    if (cols == 2) {
        out(t, sum[0][1] + sum[1][1] + sum[2][1] + sum[3][1], r0, 1);
    }
}

static inline __attribute__((always_inline)) void panel(const struct int_tile *t, const int cols)
{
    size_t r = 0;
    for (; t->m - r >= 12; r += 12) {
        block(t, r, 12, cols);
    }
    for (; t->m - r >= 4; r += 4) {
        block(t, r, 4, cols);
    }
    for (; r < t->m; r++) {
        single(t, r, cols);
    }
}

static void tile_bytes(const struct int_tile *t)
{
    if (t->n > 16) {
        panel(t, 2);
    } else {
        panel(t, 1);
    }
}

/* ---- rows ---- */

static inline __attribute__((always_inline)) __m512i load_tail(const uint8_t *x, size_t n)
{
    return _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, x);
}

static int32_t sum_bytes(const uint8_t *x, size_t n)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    size_t i = 0;
    for (; n - i >= 64; i += 64) {
        sum = _mm512_dpbusd_epi32(sum, _mm512_loadu_si512(x + i), ones);
    }
    if (i < n) {
        sum = _mm512_dpbusd_epi32(sum, load_tail(x + i, n - i), ones);
    }
    return _mm512_reduce_add_epi32(sum);
}

static void copy_runs(uint8_t *to, const uint8_t *x, size_t n, size_t runs, size_t step, uint8_t flip)
{
    const __m512i flips = _mm512_set1_epi8((char)flip);
    for (size_t r = 0; r < runs; r++, x += step, to += n) {
        size_t i = 0;
        for (; n - i >= 64; i += 64) {
            _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(x + i), flips));
        }
        if (i < n) {
            _mm512_mask_storeu_epi8(to + i, ((__mmask64)1 << (n - i)) - 1,
                                    _mm512_xor_si512(load_tail(x + i, n - i), flips));
        }
    }
}

/* Two halves of the table, of which the byte's highest bit chooses. */
__attribute__((target("avx512vbmi"))) void own_int_lookup_vbmi(const uint8_t *table, const uint8_t *x, uint8_t *y,
                                                               size_t n)
{
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
    const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 some = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
        const __m512i v = _mm512_maskz_loadu_epi8(some, x + i);
        const __m512i low = _mm512_permutex2var_epi8(a, v, b), high = _mm512_permutex2var_epi8(c, v, d);
        _mm512_mask_storeu_epi8(y + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
    }
}

const struct own_bytes own_bytes_vnni = {
    .tile = tile_bytes, .depthwise = own_int_depthwise_vnni, .sum = sum_bytes, .copy = copy_runs};
