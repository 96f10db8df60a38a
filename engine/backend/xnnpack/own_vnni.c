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

#include "backend/xnnpack/own_int_out.inc"

static inline __attribute__((always_inline)) uint32_t word(const uint8_t *x)
{
    uint32_t v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) vi added(const struct int_tile *t, int c, const int cols)
{
    return c < cols ? *(const vi *)(const void *)(t->add + 16 * c) : (vi){0};
}

/* `rows` rows from r0 on against `cols` vectors of columns: their sums stay in registers. */
static inline __attribute__((always_inline)) void block(const struct int_tile *t, size_t r0, const int rows,
                                                        const int cols)
{
    const uint32_t *w = t->w;
    vi sum[TILE_MR][2];
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = added(t, 0, cols);
        sum[r][1] = added(t, 1, cols);
    }
    for (size_t run = 0; run < t->runs; run++) {
        const uint8_t *x = t->x + r0 * t->x_stride + t->offsets[run];
        for (size_t k = 0; k < t->run_words; k++, x += 4, w += 32) {
            vi w0 = *(const vi *)(const void *)w, w1 = {0};
            if (cols == 2) {
                w1 = *(const vi *)(const void *)(w + 16);
            }
            UNROLL
            for (int r = 0; r < rows; r++) {
                uint32_t v = word(x + (size_t)r * t->x_stride);
                sum[r][0] = dot(sum[r][0], v, w0);
                if (cols == 2) {
                    sum[r][1] = dot(sum[r][1], v, w1);
                }
            }
        }
    }
    out(t, sum, r0, rows, cols);
}

/* One row alone: four sums for each column, or the instruction's latency would be waited for. */
static inline __attribute__((always_inline)) void single(const struct int_tile *t, size_t r0, const int cols)
{
    const uint32_t *w = t->w;
    vi sum[4][2] = {{{0}}};
    for (size_t run = 0; run < t->runs; run++) {
        const uint8_t *x = t->x + r0 * t->x_stride + t->offsets[run];
        size_t k = 0;
        for (; k + 4 <= t->run_words; k += 4, w += 128) {
            UNROLL
            for (size_t i = 0; i < 4; i++) {
                uint32_t v = word(x + 4 * (k + i));
                sum[i][0] = dot(sum[i][0], v, *(const vi *)(const void *)(w + 32 * i));
                if (cols == 2) {
                    sum[i][1] = dot(sum[i][1], v, *(const vi *)(const void *)(w + 32 * i + 16));
                }
            }
        }
        UNROLL
        for (size_t i = 0; i < 3; i++) {
            if (k + i < t->run_words) {
                uint32_t v = word(x + 4 * (k + i));
                sum[i][0] = dot(sum[i][0], v, *(const vi *)(const void *)w);
                if (cols == 2) {
                    sum[i][1] = dot(sum[i][1], v, *(const vi *)(const void *)(w + 16));
                }
                w += 32;
            }
        }
    }
    vi all[1][2];
    for (int c = 0; c < 2; c++) {
        all[0][c] = sum[0][c] + sum[1][c] + sum[2][c] + sum[3][c] + added(t, c, cols);
    }
    out(t, all, r0, 1, cols);
}

/* Blocks of up to 12 rows, about as many in each: a block of few rows waits for the weights. */
#define BLOCK(rows, cols)                                                                                              \
    case rows:                                                                                                         \
        block(t, r, rows, cols);                                                                                       \
        break;
#define PANEL(cols)                                                                                                    \
    size_t blocks = (t->m + TILE_MR - 1) / TILE_MR;                                                                    \
    for (size_t i = 0, r = 0; i < blocks; i++) {                                                                       \
        size_t rows = (t->m - r + blocks - i - 1) / (blocks - i);                                                      \
        switch (rows) {                                                                                                \
            BLOCK(12, cols)                                                                                            \
            BLOCK(11, cols)                                                                                            \
            BLOCK(10, cols)                                                                                            \
            BLOCK(9, cols)                                                                                             \
            BLOCK(8, cols)                                                                                             \
            BLOCK(7, cols)                                                                                             \
            BLOCK(6, cols)                                                                                             \
            BLOCK(5, cols)                                                                                             \
            BLOCK(4, cols)                                                                                             \
            BLOCK(3, cols)                                                                                             \
            BLOCK(2, cols)                                                                                             \
        default:                                                                                                       \
            single(t, r, cols);                                                                                        \
        }                                                                                                              \
        r += rows;                                                                                                     \
    }

static void panel_wide(const struct int_tile *t)
{
    PANEL(2)
}

static void panel_narrow(const struct int_tile *t)
{
    PANEL(1)
}

static void tile_bytes(const struct int_tile *t)
{
    if (t->n > 16) {
        panel_wide(t);
    } else {
        panel_narrow(t);
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
