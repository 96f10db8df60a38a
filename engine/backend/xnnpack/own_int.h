/*
 * own_int.h - our integer kernels: products of bytes with exact 32-bit sums, requantisation, loops of quantised element-wise operators.
 *
 * own_int.c is compiled once per instruction set, own_vnni.c for processors with dot products of bytes; isa.c picks a table at run time.
 * Signed bytes are read as x ^ 0x80 with 128 more in the zero point, so that one loop does for both.
 * Inner loops only: no threads, no allocation, nothing read past the end.
 * Threads: any.
 */
#ifndef XNNPACK_OWN_INT_H
#define XNNPACK_OWN_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/lstm_fixed.h"

/*
 * y[m][nr] = dot products of rows of x with the columns of a panel. Both hold words: `bytes` 4: four bytes, unsigned in x and signed in w; 2: two 16-bit
 * numbers. Sums wrap at 32 bits: the caller keeps them within.
 */
#define INT_NR_MAX 32 /* nr of the widest panel */

struct int_product {
    size_t bytes, nr;
    void (*run)(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
};

/* From sums to bytes: y = saturate(round((float)(sum + add - w_zero * row_sum) * scale) + zero). */
struct requantise {
    const double *add;
    const int32_t *add32; /* the same where every sum surely stays within 32 bits; NULL = it may not */
    const float *scale;
    const int32_t *w_zero; /* NULL = 0 */
    int32_t row_sum, zero;
    float low, high; /* of the rounded product: the type's limits less zero */
};

/*
 * Sums in TFLite's fixed point: y = saturate(((x1 ^ flip) * m1 + (x2 ^ flip) * m2 + bias >> shift) + zero). shift is 1 to 30 and the sum stays within 32 bits,
 * though its parts may wrap.
 */
struct fixed_add {
    int32_t m[2], bias, zero, low, high; /* low, high: of the result, as stored bytes have it before the flip back */
    int shift;
    uint8_t flip;
};

/*
 * Sums and products of quantised bytes: v = ((x1 ^ flip) - zero[0]) * factor[0] + ((x2 ^ flip) - zero[1]) * factor[1], or the product of the brackets times
 * factor[0]; y = round(limits of v) + y_zero. In single precision: where v lies nearer than `near_tie` to the middle between two integers, the element is
 * marked, and the caller computes it in double.
 */
struct int_pair {
    bool adds;
    uint8_t flip;
    int32_t zero[2], y_zero;
    float factor[2], low, high, near_tie;
};

/*
 * The same without marks, for factors that were tried: v = a * factor[0] + (b * factor[1] + offset), or (a - zero[0]) * (b - zero[1]) * factor[0], of a and b
 * as their type has them; y = round(v) within low and high, then + y_zero. |v| is at most 2^22, or low or high is what remains of it.
 */
struct int_quick {
    bool adds, is_signed;
    float zero[2], factor[2], offset, low, high;
    int32_t y_zero;
};

/* Rows of sums of bytes as floats: y = limits of (sum - x_zero * w_sums) * (w_scale * x_scale) + bias. What is taken off, and what remains, fits 32 bits. */
struct int_floats {
    const int32_t *sum;    /* [m][sum_stride] */
    const int32_t *w_sums; /* [n], of each column's weights */
    const float *w_scale;
    const float *bias;     /* [m][bias_stride], which may be 0; it may be y */
    const float *x_scale;  /* [m], or one where x_step is 0; NaN passes */
    const int32_t *x_zero; /* as many */
    float *y;              /* [m][y_stride] */
    size_t m, n, sum_stride, y_stride, bias_stride, x_step;
    float min, max;
};

/* y = round(x * factor, within low and high) + zero; marked where |v| * near_tie is more than v is away from the middle between two integers. */
struct int_scaled {
    float factor, low, high, near_tie;
    int32_t zero;
};

/* Takes the sums of some rows, [rows][nr]: of the row `row` of a tile and those behind it. Each row comes once. */
typedef void (*int_take_fn)(const void *taker, const int32_t *sums, size_t row, size_t rows);

/*
 * One panel of a product of bytes, requantised on the way out, or taken as sums. Sums with `add` stay within 32 bits. A row of x is some runs of whole words,
 * which lie where `offsets` say from the row's start: those of a convolution's window are rows of the image.
 */
struct int_tile {
    const uint8_t *x;        /* [m][x_stride] */
    const uint32_t *w;       /* [runs][run_words][nr] */
    const uint32_t *offsets; /* [runs], bytes */
    const int32_t *add;
    const float *scale;
    const int32_t *w_zero;                            /* NULL = 0 */
    const int32_t *row_sum;                           /* [m]; looked at with w_zero only */
    uint8_t *y;                                       /* [m][y_stride] */
    size_t x_stride, y_stride, runs, run_words, m, n; /* strides in bytes; n <= nr */
    int32_t zero;
    float low, high; /* the limits of y's type less zero */
    int_take_fn
        take; /* NULL: rows leave as bytes. Else it gets sums, `add` included, and what belongs to y does not count */
    const void *taker;
};

/*
 * Depthwise: byte i of y is requantise(sum over taps of x[i + tap] * w[i mod period]), over a row of pixels whose taps all lie equally far. Taps come in groups
 * of four; those that fill the last one have weight 0. Of each block of 64 bytes weights, add, scale and w_zero lie in the order in which four rows are woven
 * together: int_depthwise_place.
 */
struct int_depthwise {
    const uint32_t *taps; /* [groups * 4], offsets in bytes */
    const uint32_t *ones; /* [groups]: four bytes, 1 for a tap that counts */
    const uint8_t *w;     /* [blocks][groups][4][64] */
    const int32_t *add;   /* [blocks][64] */
    const float *scale;
    const int32_t *w_zero; /* NULL = 0 */
    size_t groups, blocks;
    int32_t zero;
    float low, high;
};

/* Place of byte `at` (0 to 63) of a block among its numbers of 32 bits. */
static inline size_t int_depthwise_place(size_t at)
{
    return at % 16 / 4 * 16 + at / 16 * 4 + at % 4;
}

/* What processors with vectors of bytes add; nothing is read past the end, but for depthwise up to 63 bytes behind x + taps + n. */
struct own_bytes {
    void (*tile)(const struct int_tile *t);
    void (*depthwise)(const struct int_depthwise *d, const uint8_t *x, uint8_t *y, size_t n);
    int32_t (*sum)(const uint8_t *x, size_t n);
    /* Copies `runs` runs of n bytes, `step` apart, one behind the other, each byte ^ flip. */
    void (*copy)(uint8_t *to, const uint8_t *x, size_t n, size_t runs, size_t step, uint8_t flip);
};

struct own_int {
    struct int_product product;
    void (*requantise)(const int32_t *sum, const struct requantise *q, uint8_t *y, size_t n);
    void (*add)(const int32_t *sum, const struct requantise *q, int32_t *y,
                size_t n); /* sum + add - w_zero * row_sum */
    void (*floats)(const struct int_floats *f);
    /* sum[n] = sum over taps of ((x ^ flip) - zero) * w; tap NULL = outside. w: [count][w_stride]. */
    void (*depthwise)(const uint8_t *const *taps, size_t count, const int16_t *w, size_t w_stride, uint8_t flip,
                      int32_t zero, int32_t *sum, size_t n);
    void (*pool_max)(const uint8_t *const *taps, size_t count, uint8_t flip, uint8_t *y, size_t n);
    /* sum[n] += over rows of (x[row * stride + i] ^ flip) */
    void (*sum_rows)(const uint8_t *x, size_t stride, size_t rows, uint8_t flip, int32_t *sum, size_t n);
    void (*widen)(const uint8_t *x, uint8_t flip, int32_t zero, int16_t *y, size_t n); /* (x ^ flip) - zero */
    void (*quantise)(const float *x, float scale, float low, float high, int32_t zero, uint8_t *y, size_t n);
    void (*quantise16)(const float *x, float scale, float low, float high, int32_t zero, uint16_t *y, size_t n);
    /* Steps are 0 or 1. y may be x1 or x2. */
    void (*fixed_add)(const struct fixed_add *f, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2,
                      uint8_t *y, size_t n);
    /* Steps are 0 or 1. marks[n]: not 0 where the caller computes. False when none is marked. */
    bool (*pair)(const struct int_pair *p, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2, uint8_t *y,
                 uint8_t *marks, size_t n);
    /* Steps are 0 or 1. The same numbers for the same bytes, whatever the steps. */
    void (*quick)(const struct int_quick *q, const uint8_t *x1, size_t step1, const uint8_t *x2, size_t step2,
                  uint8_t *y, size_t n);
    uint8_t (*largest)(const uint8_t *x, uint8_t flip, size_t n);                         /* of (x ^ flip); 0 of none */
    void (*distance)(const uint8_t *x, uint8_t flip, uint8_t from, uint8_t *y, size_t n); /* y = from - (x ^ flip) */
    /* Column j of four rows as word y[j], each byte ^ flip; sum[j] grows by the four as signed bytes. */
    void (*weave)(const uint8_t *const rows[4], uint8_t flip, uint32_t *y, int32_t *sum, size_t n);
    /* marks[n]: not 0 where the caller computes. False when none is marked. */
    bool (*scaled)(const struct int_scaled *s, const float *x, uint8_t *y, uint8_t *marks, size_t n);
    /* From top left, top right, bottom left, bottom right; weights of the right and the bottom, of 2048; rounds half up. */
    void (*bilinear)(const uint8_t *const corners[4], int32_t right, int32_t bottom, uint8_t flip, uint8_t *y,
                     size_t n);
    void (*interleave)(const uint8_t *x, size_t x_step, size_t parts, uint8_t *y, size_t n); /* y[n][parts] */
    /* y = limits of (x ^ flip), flipped back; low above high gives high. y may be x. */
    void (*clamp)(const uint8_t *x, uint8_t low, uint8_t high, uint8_t flip, uint8_t *y, size_t n);
    void (*dequantise)(const uint8_t *x, uint8_t flip, int32_t zero, float scale, float *y, size_t n);
    void (*dequantise16)(const uint16_t *x, uint16_t flip, int32_t zero, float scale, float *y, size_t n);
    /* y[i] = code i * scale + shift; codes of 2, 4 or 8 bits, n of them fill whole bytes (own_codes.c) */
    void (*codes)(const uint8_t *codes, size_t bits, float scale, float shift, float *y, size_t n);
    lstm_fixed_fn lstm; /* own_lstm.c */
};

/* y[i] = table[x[i]], a table of 256. y may be x. */
typedef void (*own_lookup_fn)(const uint8_t *table, const uint8_t *x, uint8_t *y, size_t n);
void own_int_lookup(const uint8_t *table, const uint8_t *x, uint8_t *y, size_t n);

extern const struct own_int own_int_plain;
#ifdef OWN_X86
extern const struct own_int own_int_avx2;
extern const struct own_int own_int_avx512;
void own_int_product_vnni(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
void own_int_depthwise_vnni(const struct int_depthwise *d, const uint8_t *x, uint8_t *y, size_t n);
extern const struct own_bytes own_bytes_vnni; /* panels of 32 columns */
void own_int_lookup_vbmi(const uint8_t *table, const uint8_t *x, uint8_t *y, size_t n);
void own_int_product_avx2(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
extern const struct own_bytes own_bytes_avx2; /* panels of 16 columns */
#ifdef OWN_AVXVNNI
void own_int_product_avxvnni(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
extern const struct own_bytes own_bytes_avxvnni; /* of 16, too */
#endif
#endif
#ifdef OWN_ARM
extern const struct own_int own_int_neon;
void own_int_product_dot(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
void own_int_product_i8mm(const uint32_t *x, size_t x_stride, const uint32_t *w, size_t words, size_t m, int32_t *y);
extern const struct own_bytes own_bytes_dot, own_bytes_i8mm; /* panels of 8 columns */
#endif

#endif
