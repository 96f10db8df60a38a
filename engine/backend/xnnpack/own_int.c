#include "backend/xnnpack/own_int.h"

#include <math.h>

#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_vec.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef int32_t vi __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias));

#define TILE_LANES OWN_LANES
#define TILE_MR    (OWN_LANES == 16 ? 12 : 4)

/* Two 16-bit products to a 32-bit sum. Bytes would saturate in the instruction for unsigned times signed ones. */
static inline __attribute__((always_inline)) vi dot(vi sum, uint32_t x, vi w)
{
#if defined(__AVX512BW__) && OWN_LANES == 16
    return sum + (vi)_mm512_madd_epi16(_mm512_set1_epi32((int)x), (__m512i)w);
#elif defined(__AVX2__) && OWN_LANES == 8
    return sum + (vi)_mm256_madd_epi16(_mm256_set1_epi32((int)x), (__m256i)w);
#else
    typedef uint32_t vu __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias));
    vi low = (vi)((vu)w << 16) >> 16, high = w >> 16;
    return sum + low * (int32_t)(int16_t)(uint16_t)x + high * (int32_t)(int16_t)(uint16_t)(x >> 16);
#endif
}

#include "backend/xnnpack/own_int_tile.inc"

static void product(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    tiles(x, x_stride, w, words, m, y);
}

#define REQUANTISED(sum32)                                                                                             \
    SIMD for (size_t j = 0; j < n; j++)                                                                                \
    {                                                                                                                  \
        float f = (float)(sum32)*scale[j];                                                                             \
        f = f >= low ? f : low;                                                                                        \
        f = f > high ? high : f;                                                                                       \
        y[j] = (uint8_t)((int32_t)rintf(f) + zero);                                                                    \
    }

/* The exact sum is rounded to single precision once, as integer engines have it; doubles hold every sum exactly, and so do 32 bits where they suffice. */
static void requantise(const int32_t *sum, const struct requantise *q, uint8_t *y, size_t n)
{
    const double *add = q->add;
    const int32_t *add32 = q->add32, *w_zero = q->w_zero;
    const float *scale = q->scale;
    float low = q->low, high = q->high;
    int32_t zero = q->zero, row = q->row_sum;
    if (add32 != NULL && w_zero == NULL) {
        REQUANTISED(sum[j] + add32[j])
    } else if (add32 != NULL) {
        REQUANTISED(sum[j] + add32[j] - w_zero[j] * row)
    } else if (w_zero == NULL) {
        REQUANTISED((double)sum[j] + add[j])
    } else {
        REQUANTISED((double)sum[j] + add[j] - (double)w_zero[j] * (double)row)
    }
}

static void add(const int32_t *sum, const struct requantise *q, int32_t *y, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double zero = q->w_zero != NULL ? (double)q->w_zero[j] * (double)q->row_sum : 0.0;
        y[j] = (int32_t)((double)sum[j] + q->add[j] - zero);
    }
}

static void floats(const struct int_floats *f)
{
    const int32_t *w_sums = f->w_sums;
    const float *w_scale = f->w_scale, min = f->min, max = f->max;
    const size_t n = f->n;
    for (size_t r = 0; r < f->m; r++) {
        const int32_t *sum = f->sum + r * f->sum_stride, x_zero = f->x_zero[r * f->x_step];
        const float x_scale = f->x_scale[r * f->x_step], *bias = f->bias + r * f->bias_stride;
        float *y = f->y + r * f->y_stride;
        SIMD for (size_t j = 0; j < n; j++)
        {
            float v = (float)(sum[j] - x_zero * w_sums[j]) * (w_scale[j] * x_scale) + bias[j];
            v = v < min ? min : v;
            y[j] = v > max ? max : v;
        }
    }
}

typedef uint8_t vbyte __attribute__((vector_size(OWN_LANES), aligned(1), may_alias));
typedef int16_t vshort __attribute__((vector_size(OWN_LANES * 2), aligned(2), may_alias));

/* Two vectors of channels stay in registers while all taps go by. */
static void depthwise(const uint8_t *const *taps, size_t count, const int16_t *w, size_t w_stride, uint8_t flip,
                      int32_t zero, int32_t *sum, size_t n)
{
    size_t j = 0;
    for (; j + 2 * OWN_LANES <= n; j += 2 * OWN_LANES) {
        vi s0 = {0}, s1 = {0};
        for (size_t t = 0; t < count; t++) {
            if (taps[t] == NULL) {
                continue;
            }
            vbyte x0 = *(const vbyte *)(taps[t] + j) ^ flip, x1 = *(const vbyte *)(taps[t] + j + OWN_LANES) ^ flip;
            vshort w0 = *(const vshort *)(w + t * w_stride + j),
                   w1 = *(const vshort *)(w + t * w_stride + j + OWN_LANES);
            s0 += (__builtin_convertvector(x0, vi) - zero) * __builtin_convertvector(w0, vi);
            s1 += (__builtin_convertvector(x1, vi) - zero) * __builtin_convertvector(w1, vi);
        }
        *(vi *)(sum + j) = s0;
        *(vi *)(sum + j + OWN_LANES) = s1;
    }
    for (; j < n; j++) {
        sum[j] = 0;
        for (size_t t = 0; t < count; t++) {
            sum[j] += taps[t] != NULL ? ((int32_t)(uint8_t)(taps[t][j] ^ flip) - zero) * w[t * w_stride + j] : 0;
        }
    }
}

/* The largest byte of all taps, from channel j on while whole vectors fit; the last overlaps the one before. */
#ifdef __x86_64__
#define POOL_MAX(type, bytes, load, store, max, xor, all)                                                              \
    for (; n >= (bytes) && j < n; j += (bytes)) {                                                                      \
        j = j + (bytes) > n ? n - (bytes) : j;                                                                         \
        type most = all(0);                                                                                            \
        for (size_t t = 0; t < count; t++) {                                                                           \
            most = max(most, xor(load((const void *)(taps[t] + j)), all((char)flip)));                                 \
        }                                                                                                              \
        store((void *)(y + j), xor(most, all((char)flip)));                                                            \
    }
#endif

static void pool_max(const uint8_t *const *taps, size_t count, uint8_t flip, uint8_t *y, size_t n)
{
    size_t j = 0;
#if defined(__AVX512BW__) && OWN_LANES == 16
    POOL_MAX(__m512i, 64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_max_epu8, _mm512_xor_si512, _mm512_set1_epi8)
#endif
#if defined(__AVX2__) && OWN_LANES >= 8
    POOL_MAX(__m256i, 32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_max_epu8, _mm256_xor_si256, _mm256_set1_epi8)
#endif
#ifdef __x86_64__
    POOL_MAX(__m128i, 16, _mm_loadu_si128, _mm_storeu_si128, _mm_max_epu8, _mm_xor_si128, _mm_set1_epi8)
#endif
    for (; j < n; j++) {
        uint8_t most = 0;
        for (size_t t = 0; t < count; t++) {
            uint8_t v = taps[t][j] ^ flip;
            most = v > most ? v : most;
        }
        y[j] = most ^ flip;
    }
}

/* y[i][p] = x[p][i]: the parts lie x_step apart. */
static void interleave(const uint8_t *x, size_t x_step, size_t parts, uint8_t *y, size_t n)
{
    if (parts == 2) {
        const uint8_t *x2 = x + x_step;
        for (size_t i = 0; i < n; i++) {
            y[2 * i] = x[i];
            y[2 * i + 1] = x2[i];
        }
        return;
    }
    for (size_t p = 0; p < parts; p++) {
        for (size_t i = 0; i < n; i++) {
            y[i * parts + p] = x[p * x_step + i];
        }
    }
}

/* Sums of some columns, as many as a vector of this type has; *j goes on behind them while they fit. */
#define SUM_COLUMNS(width, bytes_type, sums_type)                                                                      \
    for (; j + (width) <= n; j += (width)) {                                                                           \
        sums_type s0 = *(const sums_type *)(sum + j), s1 = {0};                                                        \
        const uint8_t *at = x + j;                                                                                     \
        for (size_t r = 0; r + 2 <= rows; r += 2, at += 2 * stride) {                                                  \
            s0 += __builtin_convertvector(*(const bytes_type *)at ^ flip, sums_type);                                  \
            s1 += __builtin_convertvector(*(const bytes_type *)(at + stride) ^ flip, sums_type);                       \
        }                                                                                                              \
        if (rows % 2 != 0) {                                                                                           \
            s0 += __builtin_convertvector(*(const bytes_type *)at ^ flip, sums_type);                                  \
        }                                                                                                              \
        *(sums_type *)(sum + j) = s0 + s1;                                                                             \
    }

typedef uint8_t vbyte4 __attribute__((vector_size(4), aligned(1), may_alias));
typedef int32_t vi4 __attribute__((vector_size(16), aligned(4), may_alias));

static void sum_rows(const uint8_t *x, size_t stride, size_t rows, uint8_t flip, int32_t *sum, size_t n)
{
    size_t j = 0;
    SUM_COLUMNS(OWN_LANES, vbyte, vi)
    SUM_COLUMNS(4, vbyte4, vi4)
    for (; j < n; j++) {
        for (size_t r = 0; r < rows; r++) {
            sum[j] += (int32_t)(uint8_t)(x[r * stride + j] ^ flip);
        }
    }
}

static void widen(const uint8_t *x, uint8_t flip, int32_t zero, int16_t *y, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        y[j] = (int16_t)((int32_t)(uint8_t)(x[j] ^ flip) - zero);
    }
}

/* NaN becomes the zero point. */
#define QUANTISED(type)                                                                                                \
    SIMD for (size_t j = 0; j < n; j++)                                                                                \
    {                                                                                                                  \
        float v = x[j] / scale;                                                                                        \
        v = v == v ? v : 0.0f;                                                                                         \
        v = v < low ? low : v;                                                                                         \
        v = v > high ? high : v;                                                                                       \
        y[j] = (type)((int32_t)rintf(v) + zero);                                                                       \
    }

static void quantise(const float *x, float scale, float low, float high, int32_t zero, uint8_t *y, size_t n)
{
    QUANTISED(uint8_t)
}

static void quantise16(const float *x, float scale, float low, float high, int32_t zero, uint16_t *y, size_t n)
{
    QUANTISED(uint16_t)
}

static void dequantise(const uint8_t *x, uint8_t flip, int32_t zero, float scale, float *y, size_t n)
{
    SIMD for (size_t j = 0; j < n; j++)
    {
        y[j] = (float)((int32_t)(uint8_t)(x[j] ^ flip) - zero) * scale;
    }
}

static void dequantise16(const uint16_t *x, uint16_t flip, int32_t zero, float scale, float *y, size_t n)
{
    SIMD for (size_t j = 0; j < n; j++)
    {
        y[j] = (float)((int32_t)(uint16_t)(x[j] ^ flip) - zero) * scale;
    }
}

static inline __attribute__((always_inline)) void fixed_add_loop(const struct fixed_add *f, const uint8_t *x1,
                                                                 size_t step1, const uint8_t *x2, size_t step2,
                                                                 uint8_t *y, size_t n)
{
    uint32_t m1 = (uint32_t)f->m[0], m2 = (uint32_t)f->m[1], bias = (uint32_t)f->bias;
    int32_t zero = f->zero, low = f->low, high = f->high;
    int shift = f->shift;
    uint8_t flip = f->flip;
    SIMD for (size_t j = 0; j < n; j++)
    {
        uint32_t sum = (uint32_t)(uint8_t)(x1[j * step1] ^ flip) * m1 + (uint32_t)(uint8_t)(x2[j * step2] ^ flip) * m2;
        int32_t v = ((int32_t)(sum + bias) >> shift) + zero;
        v = v < low ? low : v;
        v = v > high ? high : v;
        y[j] = (uint8_t)v;
    }
}

static void fixed_add(const struct fixed_add *f, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2,
                      uint8_t *y, size_t n)
{
    if (step1 == 1 && step2 == 1) {
        fixed_add_loop(f, x1, 1, x2, 1, y, n);
    } else {
        fixed_add_loop(f, x1, step1, x2, step2, y, n);
    }
}

/* A row of one operand: step 0 repeats its first element. */
struct operand {
    const uint8_t *x;
    size_t step;
};

static inline __attribute__((always_inline)) uint32_t pair_loop(const struct int_pair *p, bool adds, struct operand a,
                                                                struct operand b, uint8_t *y, uint8_t *marks, size_t n)
{
    const float f1 = p->factor[0], f2 = p->factor[1], low = p->low, high = p->high, limit = 0.5f - p->near_tie;
    const int32_t z1 = p->zero[0], z2 = p->zero[1], zero = p->y_zero;
    const uint8_t flip = p->flip;
    uint32_t any = 0;
    _Pragma("omp simd reduction(| : any)") for (size_t j = 0; j < n; j++)
    {
        int32_t v1 = (int32_t)(uint8_t)(a.x[j * a.step] ^ flip) - z1,
                v2 = (int32_t)(uint8_t)(b.x[j * b.step] ^ flip) - z2;
        float v = adds ? (float)v1 * f1 + (float)v2 * f2 : (float)(v1 * v2) * f1;
        v = v >= low ? v : low;
        v = v > high ? high : v;
        float whole = rintf(v);
        uint32_t mark = fabsf(v - whole) >= limit ? 1 : 0;
        y[j] = (uint8_t)((int32_t)whole + zero);
        marks[j] = (uint8_t)mark;
        any |= mark;
    }
    return any;
}

static bool pair(const struct int_pair *p, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2, uint8_t *y,
                 uint8_t *marks, size_t n)
{
    uint32_t any;
    if (step1 == 1 && step2 == 1) {
        struct operand a = {x1, 1}, b = {x2, 1};
        any = p->adds ? pair_loop(p, true, a, b, y, marks, n) : pair_loop(p, false, a, b, y, marks, n);
    } else if (step2 == 0) {
        any = pair_loop(p, p->adds, (struct operand){x1, step1}, (struct operand){x2, 0}, y, marks, n);
    } else {
        any = pair_loop(p, p->adds, (struct operand){x1, 0}, (struct operand){x2, 1}, y, marks, n);
    }
    return any != 0;
}

static uint8_t largest(const uint8_t *x, uint8_t flip, size_t n)
{
    uint8_t most = 0;
    _Pragma("omp simd reduction(max : most)") for (size_t j = 0; j < n; j++)
    {
        uint8_t v = x[j] ^ flip;
        most = v > most ? v : most;
    }
    return most;
}

static void distance(const uint8_t *x, uint8_t flip, uint8_t from, uint8_t *y, size_t n)
{
    SIMD for (size_t j = 0; j < n; j++)
    {
        y[j] = (uint8_t)(from - (x[j] ^ flip));
    }
}

static void weave(const uint8_t *const rows[4], uint8_t flip, uint32_t *y, int32_t *sum, size_t n)
{
    const uint8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    SIMD for (size_t j = 0; j < n; j++)
    {
        uint8_t p = a[j] ^ flip, q = b[j] ^ flip, r = c[j] ^ flip, s = d[j] ^ flip;
        y[j] = (uint32_t)p | (uint32_t)q << 8 | (uint32_t)r << 16 | (uint32_t)s << 24;
        sum[j] += (int32_t)(int8_t)p + (int32_t)(int8_t)q + (int32_t)(int8_t)r + (int32_t)(int8_t)s;
    }
}

static bool scaled(const struct int_scaled *s, const float *x, uint8_t *y, uint8_t *marks, size_t n)
{
    const float factor = s->factor, low = s->low, high = s->high, near_tie = s->near_tie;
    const int32_t zero = s->zero;
    uint32_t any = 0;
    _Pragma("omp simd reduction(| : any)") for (size_t j = 0; j < n; j++)
    {
        float v = x[j] * factor;
        v = v >= low ? v : low;
        v = v > high ? high : v;
        float whole = rintf(v);
        uint32_t mark = fabsf(v - whole) + fabsf(v) * near_tie >= 0.5f ? 1 : 0;
        y[j] = (uint8_t)((int32_t)whole + zero);
        marks[j] = (uint8_t)mark;
        any |= mark;
    }
    return any != 0;
}

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FUSED(a, b, c) ((a) * (b) + (c))
#endif
#define ROUNDER 0x1.8p23f /* added to a number below 2^22, it leaves the integer nearest to it in the lowest bits */

static inline __attribute__((always_inline)) float real_at(struct operand o, size_t j, bool is_signed)
{
    uint8_t v = o.x[j * o.step];
    return is_signed ? (float)(int8_t)v : (float)v;
}

/* Each sum and product is written so that it is rounded in the same places in every form of the loop. */
static inline __attribute__((always_inline)) void quick_loop(const struct int_quick *q, bool adds, bool is_signed,
                                                             struct operand a, struct operand b, uint8_t *y, size_t n)
{
    const float f1 = q->factor[0], f2 = q->factor[1], offset = q->offset, z1 = q->zero[0], z2 = q->zero[1];
    const float low = q->low + ROUNDER, high = q->high + ROUNDER;
    const uint32_t zero = (uint32_t)q->y_zero;
    SIMD for (size_t j = 0; j < n; j++)
    {
        float v1 = real_at(a, j, is_signed), v2 = real_at(b, j, is_signed);
        union {
            float f;
            uint32_t bits;
        } v;
        v.f = adds ? FUSED(v1, f1, FUSED(v2, f2, offset)) + ROUNDER : FUSED((v1 - z1) * (v2 - z2), f1, ROUNDER);
        v.f = v.f >= low ? v.f : low;
        v.f = v.f > high ? high : v.f;
        y[j] = (uint8_t)(v.bits + zero);
    }
}

#ifdef __AVX512BW__
/* 16 bytes as floats. */
static inline __attribute__((always_inline)) __m512 reals_at(const uint8_t *x, bool is_signed)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
    return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/* As quick_loop where both are rows, for whole 64 bytes: the same operations; compilers narrow words to bytes one vector at a time. The number that is done. */
static inline __attribute__((always_inline)) size_t quick_rows(const struct int_quick *q, bool adds, bool is_signed,
                                                               const uint8_t *a, const uint8_t *b, uint8_t *y, size_t n)
{
    const __m512 f1 = _mm512_set1_ps(q->factor[0]), f2 = _mm512_set1_ps(q->factor[1]);
    const __m512 offset = _mm512_set1_ps(q->offset), rounder = _mm512_set1_ps(ROUNDER);
    const __m512 z1 = _mm512_set1_ps(q->zero[0]), z2 = _mm512_set1_ps(q->zero[1]);
    const __m512 low = _mm512_set1_ps(q->low + ROUNDER), high = _mm512_set1_ps(q->high + ROUNDER);
    const __m512i zero = _mm512_set1_epi32(q->y_zero), byte = _mm512_set1_epi32(255);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i w[4];
        for (size_t k = 0; k < 4; k++) {
            const __m512 v1 = reals_at(a + i + 16 * k, is_signed), v2 = reals_at(b + i + 16 * k, is_signed);
            __m512 v = adds ? _mm512_add_ps(_mm512_fmadd_ps(v1, f1, _mm512_fmadd_ps(v2, f2, offset)), rounder)
                            : _mm512_fmadd_ps(_mm512_mul_ps(_mm512_sub_ps(v1, z1), _mm512_sub_ps(v2, z2)), f1, rounder);
            v = _mm512_min_ps(high, _mm512_max_ps(low, v));
            w[k] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(v), zero), byte);
        }
        const __m512i pairs = _mm512_packus_epi16(_mm512_packus_epi32(w[0], w[1]), _mm512_packus_epi32(w[2], w[3]));
        _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(order, pairs));
    }
    return i;
}
#else
static inline __attribute__((always_inline)) size_t quick_rows(const struct int_quick *q, bool adds, bool is_signed,
                                                               const uint8_t *a, const uint8_t *b, uint8_t *y, size_t n)
{
    (void)q, (void)adds, (void)is_signed, (void)a, (void)b, (void)y, (void)n;
    return 0;
}
#endif

static inline __attribute__((always_inline)) void quick_steps(const struct int_quick *q, bool adds, bool is_signed,
                                                              struct operand a, struct operand b, uint8_t *y, size_t n)
{
    if (a.step == 1 && b.step == 1) {
        const size_t done = quick_rows(q, adds, is_signed, a.x, b.x, y, n);
        quick_loop(q, adds, is_signed, (struct operand){a.x + done, 1}, (struct operand){b.x + done, 1}, y + done,
                   n - done);
    } else if (b.step == 0) {
        quick_loop(q, adds, is_signed, a, (struct operand){b.x, 0}, y, n);
    } else {
        quick_loop(q, adds, is_signed, (struct operand){a.x, 0}, (struct operand){b.x, 1}, y, n);
    }
}

static void quick(const struct int_quick *q, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2,
                  uint8_t *y, size_t n)
{
    struct operand a = {x1, step1}, b = {x2, step2};
    if (q->adds) {
        q->is_signed ? quick_steps(q, true, true, a, b, y, n) : quick_steps(q, true, false, a, b, y, n);
    } else {
        q->is_signed ? quick_steps(q, false, true, a, b, y, n) : quick_steps(q, false, false, a, b, y, n);
    }
}

/* Signed bytes are moved up by 128, which the weights carry through exactly. */
static void bilinear(const uint8_t *const corners[4], int32_t right, int32_t bottom, uint8_t flip, uint8_t *y, size_t n)
{
    const uint8_t *tl = corners[0], *tr = corners[1], *bl = corners[2], *br = corners[3];
    SIMD for (size_t j = 0; j < n; j++)
    {
        int32_t p = (uint8_t)(tl[j] ^ flip), q = (uint8_t)(tr[j] ^ flip);
        int32_t r = (uint8_t)(bl[j] ^ flip), s = (uint8_t)(br[j] ^ flip);
        int32_t top = p * 2048 + (q - p) * right, low = r * 2048 + (s - r) * right;
        y[j] = (uint8_t)(((top * 2048 + (low - top) * bottom + (1 << 21)) >> 22) ^ flip);
    }
}

static void clamp(const uint8_t *x, uint8_t low, uint8_t high, uint8_t flip, uint8_t *y, size_t n)
{
    SIMD for (size_t j = 0; j < n; j++)
    {
        uint8_t v = x[j] ^ flip;
        v = v < low ? low : v;
        v = v > high ? high : v;
        y[j] = v ^ flip;
    }
}

const struct own_int OWN(own_int) = {.product = {.bytes = 2, .nr = 2 * OWN_LANES, .run = product},
                                     .requantise = requantise,
                                     .add = add,
                                     .floats = floats,
                                     .depthwise = depthwise,
                                     .pool_max = pool_max,
                                     .sum_rows = sum_rows,
                                     .widen = widen,
                                     .quantise = quantise,
                                     .quantise16 = quantise16,
                                     .fixed_add = fixed_add,
                                     .pair = pair,
                                     .quick = quick,
                                     .scaled = scaled,
                                     .largest = largest,
                                     .distance = distance,
                                     .weave = weave,
                                     .bilinear = bilinear,
                                     .interleave = interleave,
                                     .clamp = clamp,
                                     .dequantise = dequantise,
                                     .dequantise16 = dequantise16,
                                     .codes = OWN(own_codes),
                                     .lstm = OWN_KEPT_LSTM_INTEGER ? OWN(own_lstm) : NULL};
