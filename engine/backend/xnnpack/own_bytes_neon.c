/*
 * Products of bytes on aarch64: four at once by the instruction that the file is compiled for. With i8mm it takes unsigned and signed bytes; without, signed ones
 * alone: then data is moved down by 128, and the sums of the weights put that right. Compiled once for each.
 */
#include "backend/xnnpack/own_int.h"

#include <arm_neon.h>
#include <string.h>

#define NR 8
#define MR 8

#ifdef __ARM_FEATURE_MATMUL_INT8
#define NAMED(name) name##_i8mm
#define MIXED       1
#else
#define NAMED(name) name##_dot
#define MIXED       0
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE uint8x16_t data(uint8x16_t x)
{
    return MIXED ? x : veorq_u8(x, vdupq_n_u8(0x80));
}

INLINE int32x4_t dot(int32x4_t sum, uint8x16_t x, int8x16_t w)
{
#if MIXED
    return vusdotq_s32(sum, x, w);
#else
    return vdotq_s32(sum, vreinterpretq_s8_u8(x), w);
#endif
}

/* What `data` has taken away: 128 times the weights. */
INLINE int32x4_t restored(int32x4_t sum, int32x4_t weights)
{
    return MIXED ? sum : vaddq_s32(sum, vshlq_n_s32(weights, 7));
}

INLINE int32x4_t weights_add(int32x4_t sum, int8x16_t w)
{
    return MIXED ? sum : vdotq_s32(sum, vdupq_n_s8(1), w);
}

INLINE uint8x16_t spread(const uint8_t *x)
{
    uint32_t v;
    memcpy(&v, x, sizeof v);
    return vreinterpretq_u8_u32(vdupq_n_u32(v));
}

/* Adds the products of one run of words of `rows` rows with 8 columns, and the sums of the weights. */
INLINE void run_add(const uint8_t *x, size_t x_stride, const uint32_t *w, size_t words, int32x4_t sum[MR][2],
                    int32x4_t weights[2], const size_t rows)
{
    for (size_t k = 0; k < words; k++) {
        const int8x16_t w0 = vreinterpretq_s8_u32(vld1q_u32(w + k * NR));
        const int8x16_t w1 = vreinterpretq_s8_u32(vld1q_u32(w + k * NR + 4));
        weights[0] = weights_add(weights[0], w0);
        weights[1] = weights_add(weights[1], w1);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const uint8x16_t v = data(spread(x + r * x_stride + 4 * k));
            sum[r][0] = dot(sum[r][0], v, w0);
            sum[r][1] = dot(sum[r][1], v, w1);
        }
    }
}

/* Sums of `rows` rows with 8 columns; a row is `runs` runs of words that lie at `offsets`. */
INLINE void sums(const uint8_t *x, size_t x_stride, const uint32_t *offsets, size_t runs, const uint32_t *w,
                 size_t words, int32x4_t sum[MR][2], const size_t rows)
{
    int32x4_t weights[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = vdupq_n_s32(0);
    }
    for (size_t run = 0; run < runs; run++, w += words * NR) {
        run_add(x + offsets[run], x_stride, w, words, sum, weights, rows);
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        sum[r][0] = restored(sum[r][0], weights[0]);
        sum[r][1] = restored(sum[r][1], weights[1]);
    }
}

void NAMED(own_int_product)(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y)
{
    static const uint32_t one_run[1] = {0};
    int32x4_t sum[MR][2];
    for (size_t r = 0; r < m; r++) {
        sums((const uint8_t *)(x + r * x_stride), 0, one_run, 1, w, words, sum, 1);
        vst1q_s32(y + r * NR, sum[0][0]);
        vst1q_s32(y + r * NR + 4, sum[0][1]);
    }
}

/* Four sums, their addend included, to bytes in 16 bits each. */
INLINE uint16x4_t requantised(int32x4_t v, const float *scale, float low, float high, int32_t zero)
{
    float32x4_t f = vmulq_f32(vcvtq_f32_s32(v), vld1q_f32(scale));
    f = vminq_f32(vmaxq_f32(f, vdupq_n_f32(low)), vdupq_n_f32(high));
    v = vaddq_s32(vcvtnq_s32_f32(f), vdupq_n_s32(zero));
    return vmovn_u32(vreinterpretq_u32_s32(v));
}

INLINE void row_out(const struct int_tile *t, const int32x4_t sum[2], size_t r)
{
    uint16x4_t part[2];
    uint8_t *y = t->y + r * t->y_stride;
    for (size_t c = 0; c < 2; c++) {
        int32x4_t v = vaddq_s32(sum[c], vld1q_s32(t->add + 4 * c));
        if (t->w_zero != NULL) {
            v = vmlsq_s32(v, vld1q_s32(t->w_zero + 4 * c), vdupq_n_s32(t->row_sum[r]));
        }
        part[c] = requantised(v, t->scale + 4 * c, t->low, t->high, t->zero);
    }
    const uint8x8_t bytes = vmovn_u16(vcombine_u16(part[0], part[1]));
    if (t->n >= NR) {
        vst1_u8(y, bytes);
    } else {
        memcpy(y, &bytes, t->n);
    }
}

/* Sums that somebody takes as they are. */
INLINE void sums_out(const struct int_tile *t, int32x4_t sum[MR][2], size_t r0, const size_t rows)
{
    int32_t room[MR * NR];
    for (size_t r = 0; r < rows; r++) {
        vst1q_s32(room + r * NR, vaddq_s32(sum[r][0], vld1q_s32(t->add)));
        vst1q_s32(room + r * NR + 4, vaddq_s32(sum[r][1], vld1q_s32(t->add + 4)));
    }
    t->take(t->taker, room, r0, rows);
}

INLINE void rows_run(const struct int_tile *t, size_t r0, const size_t rows)
{
    int32x4_t sum[MR][2];
    sums(t->x + r0 * t->x_stride, t->x_stride, t->offsets, t->runs, t->w, t->run_words, sum, rows);
    if (t->take != NULL) {
        sums_out(t, sum, r0, rows);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        row_out(t, sum[r], r0 + r);
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

/* ---- depthwise: a quarter of a block of 64 at a time ---- */

/* 16 bytes from x on; quarter: which 16 of the block. */
INLINE uint8x16_t quarter_run(const struct int_depthwise *d, const uint8_t *x, size_t k, size_t quarter)
{
    int32x4_t sum[4], weights[4];
    uint32x4_t ones[4];
    const size_t at = k * 64 + 4 * quarter;
    for (size_t q = 0; q < 4; q++) {
        sum[q] = weights[q] = vdupq_n_s32(0);
        ones[q] = vdupq_n_u32(0);
    }
    for (size_t g = 0; g < d->groups; g++) {
        const uint32_t *to = d->taps + 4 * g;
        const uint8_t *w = d->w + (k * d->groups + g) * 256 + 16 * quarter;
        const uint8x16_t one = vreinterpretq_u8_u32(vdupq_n_u32(d->ones[g]));
        const uint8x16_t a = vld1q_u8(x + to[0]), b = vld1q_u8(x + to[1]);
        const uint8x16_t c = vld1q_u8(x + to[2]), e = vld1q_u8(x + to[3]);
        const uint16x8_t ab = vreinterpretq_u16_u8(vzip1q_u8(a, b)), ce = vreinterpretq_u16_u8(vzip1q_u8(c, e));
        const uint16x8_t ab2 = vreinterpretq_u16_u8(vzip2q_u8(a, b)), ce2 = vreinterpretq_u16_u8(vzip2q_u8(c, e));
        const uint8x16_t v[4] = {vreinterpretq_u8_u16(vzip1q_u16(ab, ce)), vreinterpretq_u8_u16(vzip2q_u16(ab, ce)),
                                 vreinterpretq_u8_u16(vzip1q_u16(ab2, ce2)),
                                 vreinterpretq_u8_u16(vzip2q_u16(ab2, ce2))};
        for (size_t q = 0; q < 4; q++) {
            const int8x16_t wv = vreinterpretq_s8_u8(vld1q_u8(w + 64 * q));
            sum[q] = dot(sum[q], data(v[q]), wv);
            weights[q] = weights_add(weights[q], wv);
            ones[q] = d->w_zero != NULL ? vdotq_u32(ones[q], v[q], one) : ones[q];
        }
    }
    uint16x4_t part[4];
    for (size_t q = 0; q < 4; q++) {
        sum[q] = vaddq_s32(restored(sum[q], weights[q]), vld1q_s32(d->add + at + 16 * q));
        if (d->w_zero != NULL) {
            sum[q] = vmlsq_s32(sum[q], vreinterpretq_s32_u32(ones[q]), vld1q_s32(d->w_zero + at + 16 * q));
        }
        part[q] = requantised(sum[q], d->scale + at + 16 * q, d->low, d->high, d->zero);
    }
    return vcombine_u8(vmovn_u16(vcombine_u16(part[0], part[1])), vmovn_u16(vcombine_u16(part[2], part[3])));
}

static void depthwise(const struct int_depthwise *d, const uint8_t *x, uint8_t *y, size_t n)
{
    size_t k = 0, quarter = 0;
    for (size_t i = 0; i < n; i += 16) {
        const uint8x16_t v = quarter_run(d, x + i, k, quarter);
        if (n - i >= 16) {
            vst1q_u8(y + i, v);
        } else {
            memcpy(y + i, &v, n - i);
        }
        quarter = (quarter + 1) % 4;
        k = quarter != 0 ? k : k + 1 == d->blocks ? 0 : k + 1;
    }
}

/* ---- rows ---- */

static int32_t sum_bytes(const uint8_t *x, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return (int32_t)sum;
}

static void copy_runs(uint8_t *to, const uint8_t *x, size_t n, size_t runs, size_t step, uint8_t flip)
{
    for (size_t r = 0; r < runs; r++, x += step, to += n) {
        for (size_t i = 0; i < n; i++) {
            to[i] = x[i] ^ flip;
        }
    }
}

const struct own_bytes NAMED(own_bytes) = {
    .tile = tile_bytes, .depthwise = depthwise, .sum = sum_bytes, .copy = copy_runs};
