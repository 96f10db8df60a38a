/*
 * Products of unsigned and signed bytes in 256 bits, compiled twice. AVX-VNNI multiplies and adds four of them. AVX2's own instruction saturates: there even
 * and odd bytes are widened to 16 bits and multiplied apart. Weights stay bytes in memory, and sums leave as bytes without being written down.
 */
#include "backend/xnnpack/own_int.h"

#include <immintrin.h>
#include <string.h>

#define DOT_PASTE2(a, b) a##_##b
#define DOT_PASTE(a, b)  DOT_PASTE2(a, b)
#define OWN_DOT(name)    DOT_PASTE(name, OWN_DOT_ISA)

#define NR 16
#define MR 4

#ifdef OWN_DOT_EVEX /* for a test on processors that have AVX-512 instead */
void OWN_DOT(own_int_product)(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m,
                              int32_t *y);
#define DOT(sum, x, w) _mm256_dpbusd_epi32(sum, x, w)
#elif defined(__AVXVNNI__)
#define DOT(sum, x, w) _mm256_dpbusd_avx_epi32(sum, x, w)
#endif

#ifdef DOT
/* Eight words of four bytes: one instruction multiplies and adds them. */
struct wide {
    __m256i all;
};

static inline __attribute__((always_inline)) struct wide weights(const void *w)
{
    return (struct wide){_mm256_loadu_si256(w)};
}

static inline __attribute__((always_inline)) struct wide data(__m256i v)
{
    return (struct wide){v};
}

static inline __attribute__((always_inline)) __m256i dot(__m256i sum, struct wide x, struct wide w)
{
    return DOT(sum, x.all, w.all);
}
#else
/* Eight words of four signed bytes, widened. */
struct wide {
    __m256i even, odd;
};

static inline __attribute__((always_inline)) struct wide weights(const void *w)
{
    __m256i v = _mm256_loadu_si256(w);
    return (struct wide){_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8)};
}

static inline __attribute__((always_inline)) struct wide data(__m256i v)
{
    return (struct wide){_mm256_and_si256(v, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(v, 8)};
}

static inline __attribute__((always_inline)) __m256i dot(__m256i sum, struct wide x, struct wide w)
{
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x.even, w.even));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x.odd, w.odd));
}
#endif

static inline __attribute__((always_inline)) __m256i spread(const uint8_t *x)
{
    int32_t v;
    memcpy(&v, x, sizeof v);
    return _mm256_set1_epi32(v);
}

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Adds products of `rows` rows with 16 columns. */
static inline __attribute__((always_inline)) void sums(const uint8_t *x, size_t x_stride, const uint32_t *w,
                                                       size_t words, __m256i sum[MR][2], const int rows)
{
    for (size_t k = 0; k < words; k++) {
        const struct wide w0 = weights(w + k * NR), w1 = weights(w + k * NR + 8);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const struct wide v = data(spread(x + (size_t)r * x_stride + 4 * k));
            sum[r][0] = dot(sum[r][0], v, w0);
            sum[r][1] = dot(sum[r][1], v, w1);
        }
    }
}

void OWN_DOT(own_int_product)(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    for (size_t r = 0; r < m; r++) {
        __m256i sum[MR][2] = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
        sums((const uint8_t *)(x + r * x_stride), 0, w, words, sum, 1);
        _mm256_storeu_si256((void *)(y + r * NR), sum[0][0]);
        _mm256_storeu_si256((void *)(y + r * NR + 8), sum[0][1]);
    }
}

/* Eight sums, their addend included, as rounded numbers. What is below the limits becomes so when it is packed. */
static inline __attribute__((always_inline)) __m256i rounded(__m256i v, const float *scale, float high)
{
    __m256 f = _mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_loadu_ps(scale));
    return _mm256_cvtps_epi32(_mm256_min_ps(f, _mm256_set1_ps(high)));
}

/* What turns unsigned bytes into those of y: the flip is in the zero, too. */
struct ending {
    __m256i zero, flip;
};

static inline __attribute__((always_inline)) struct ending ending_of(int32_t zero, float low)
{
    const int flip = low + (float)zero < 0.0f ? 0x80 : 0;
    return (struct ending){_mm256_set1_epi16((short)(zero + flip)), _mm256_set1_epi8((char)flip)};
}

static inline __attribute__((always_inline)) void row_out(const struct int_tile *t, const __m256i sum[2], size_t r)
{
    __m256i v[2];
    const struct ending e = ending_of(t->zero, t->low);
    uint8_t *y = t->y + r * t->y_stride;
    for (int c = 0; c < 2; c++) {
        v[c] = sum[c];
        if (t->w_zero != NULL) {
            __m256i zeros = _mm256_loadu_si256((const void *)(t->w_zero + 8 * c));
            v[c] = _mm256_sub_epi32(v[c], _mm256_mullo_epi32(zeros, _mm256_set1_epi32(t->row_sum[r])));
        }
        v[c] = rounded(v[c], t->scale + 8 * c, t->high);
    }
    __m256i words = _mm256_adds_epi16(_mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8), e.zero);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = _mm_xor_si128(bytes, _mm256_castsi256_si128(e.flip));
    if (t->n >= NR) {
        _mm_storeu_si128((void *)y, bytes);
    } else {
        memcpy(y, &bytes, t->n);
    }
}

/* Sums that somebody takes as they are. */
static inline __attribute__((always_inline)) void sums_out(const struct int_tile *t, __m256i sum[MR][2], size_t r0,
                                                           const int rows)
{
    int32_t room[MR * NR];
    UNROLL
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_si256((void *)(room + r * NR), sum[r][0]);
        _mm256_storeu_si256((void *)(room + r * NR + 8), sum[r][1]);
    }
    t->take(t->taker, room, r0, (size_t)rows);
}

static inline __attribute__((always_inline)) void rows_run(const struct int_tile *t, size_t r0, const int rows)
{
    __m256i sum[MR][2];
    const uint32_t *w = t->w;
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = _mm256_loadu_si256((const void *)t->add);
        sum[r][1] = _mm256_loadu_si256((const void *)(t->add + 8));
    }
    for (size_t run = 0; run < t->runs; run++, w += t->run_words * NR) {
        sums(t->x + r0 * t->x_stride + t->offsets[run], t->x_stride, w, t->run_words, sum, rows);
    }
    if (t->take != NULL) {
        sums_out(t, sum, r0, rows);
        return;
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        row_out(t, sum[r], r0 + (size_t)r);
    }
}

static void tile_bytes(const struct int_tile *t)
{
    size_t r = 0;
    for (; t->m - r >= MR; r += MR) {
        rows_run(t, r, MR);
    }
    for (; r < t->m; r++) {
        rows_run(t, r, 1);
    }
}

/* ---- depthwise: half of a block of 64 at a time, see own_vnni_depthwise.c ---- */

/* 32 bytes from x on; half: which 32 of the block. */
static inline __attribute__((always_inline)) __m256i half_run(const struct int_depthwise *d, const uint8_t *x, size_t k,
                                                              size_t half, const size_t groups)
{
    __m256i sum[4], ones[4];
    size_t at = k * 64 + 8 * half;
    for (size_t q = 0; q < 4; q++) {
        sum[q] = _mm256_loadu_si256((const void *)(d->add + at + 16 * q));
        ones[q] = _mm256_setzero_si256();
    }
    for (size_t g = 0; g < groups; g++) {
        const uint32_t *to = d->taps + 4 * g;
        const uint8_t *w = d->w + (k * groups + g) * 256 + 32 * half;
        __m256i a = _mm256_loadu_si256((const void *)(x + to[0])), b = _mm256_loadu_si256((const void *)(x + to[1]));
        __m256i c = _mm256_loadu_si256((const void *)(x + to[2])), e = _mm256_loadu_si256((const void *)(x + to[3]));
        __m256i ab = _mm256_unpacklo_epi8(a, b), ce = _mm256_unpacklo_epi8(c, e);
        __m256i ab2 = _mm256_unpackhi_epi8(a, b), ce2 = _mm256_unpackhi_epi8(c, e);
        const __m256i v[4] = {_mm256_unpacklo_epi16(ab, ce), _mm256_unpackhi_epi16(ab, ce),
                              _mm256_unpacklo_epi16(ab2, ce2), _mm256_unpackhi_epi16(ab2, ce2)};
        for (size_t q = 0; q < 4; q++) {
            const struct wide x4 = data(v[q]);
            sum[q] = dot(sum[q], x4, weights(w + 64 * q));
            if (d->w_zero != NULL) {
                const __m256i one = _mm256_set1_epi32((int)d->ones[g]);
                ones[q] = dot(ones[q], x4, data(one));
            }
        }
    }
    for (size_t q = 0; q < 4; q++) {
        if (d->w_zero != NULL) {
            __m256i zeros = _mm256_loadu_si256((const void *)(d->w_zero + at + 16 * q));
            sum[q] = _mm256_sub_epi32(sum[q], _mm256_mullo_epi32(ones[q], zeros));
        }
        sum[q] = rounded(sum[q], d->scale + at + 16 * q, d->high);
    }
    const struct ending e = ending_of(d->zero, d->low);
    __m256i p = _mm256_adds_epi16(_mm256_packs_epi32(sum[0], sum[1]), e.zero);
    __m256i s = _mm256_adds_epi16(_mm256_packs_epi32(sum[2], sum[3]), e.zero);
    return _mm256_xor_si256(_mm256_packus_epi16(p, s), e.flip);
}

static inline __attribute__((always_inline)) void row(const struct int_depthwise *d, const uint8_t *x, uint8_t *y,
                                                      size_t n, const size_t groups)
{
    size_t k = 0, half = 0;
    for (size_t i = 0; i < n; i += 32) {
        __m256i v = half_run(d, x + i, k, half, groups);
        if (n - i >= 32) {
            _mm256_storeu_si256((void *)(y + i), v);
        } else {
            memcpy(y + i, &v, n - i);
        }
        k = half == 0 ? k : k + 1 == d->blocks ? 0 : k + 1;
        half ^= 1;
    }
}

static void depthwise(const struct int_depthwise *d, const uint8_t *x, uint8_t *y, size_t n)
{
    if (d->groups == 3) {
        row(d, x, y, n, 3);
    } else {
        row(d, x, y, n, d->groups);
    }
}

/* ---- rows ---- */

static int32_t sum_bytes(const uint8_t *x, size_t n)
{
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    int32_t rest = 0;
    uint64_t parts[4];
    for (; n - i >= 32; i += 32) {
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(_mm256_loadu_si256((const void *)(x + i)), _mm256_setzero_si256()));
    }
    for (; i < n; i++) {
        rest += x[i];
    }
    memcpy(parts, &sum, sizeof parts);
    return rest + (int32_t)(parts[0] + parts[1] + parts[2] + parts[3]);
}

static void copy_runs(uint8_t *to, const uint8_t *x, size_t n, size_t runs, size_t step, uint8_t flip)
{
    const __m256i flips = _mm256_set1_epi8((char)flip);
    for (size_t r = 0; r < runs; r++, x += step, to += n) {
        size_t i = 0;
        for (; n - i >= 32; i += 32) {
            _mm256_storeu_si256((void *)(to + i), _mm256_xor_si256(_mm256_loadu_si256((const void *)(x + i)), flips));
        }
        for (; n - i >= 8; i += 8) {
            _mm_storel_epi64((void *)(to + i),
                             _mm_xor_si128(_mm_loadl_epi64((const void *)(x + i)), _mm256_castsi256_si128(flips)));
        }
        for (; i < n; i++) {
            to[i] = x[i] ^ flip;
        }
    }
}

const struct own_bytes OWN_DOT(own_bytes) = {
    .tile = tile_bytes, .depthwise = depthwise, .sum = sum_bytes, .copy = copy_runs};
