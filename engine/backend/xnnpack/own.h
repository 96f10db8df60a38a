/*
 * own.h - our vector kernels: the loops XNNPACK does not have, as one table per instruction set.
 *
 * own_vec.c and own_gemm.c hold plain C and compiler vectors and are compiled once per instruction set (CMakeLists.txt); isa.c picks a table at run time.
 * Inner loops only: no threads, no allocation, nothing read past the end.
 * Threads: any.
 */
#ifndef XNNPACK_OWN_H
#define XNNPACK_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y = f(x; a, b). What a and b mean stands beside each. */
enum unary_fn {
    UNARY_NONE = 0,
    UNARY_ABS,
    UNARY_NEG,
    UNARY_CEIL,
    UNARY_FLOOR,
    UNARY_ROUND,
    UNARY_SQRT,
    UNARY_RECIPROCAL,
    UNARY_SIGN,
    UNARY_RELU,
    UNARY_CLAMP, /* min, max */
    UNARY_LEAKY, /* slope */
    UNARY_ELU,   /* alpha */
    UNARY_SELU,  /* alpha, gamma */
    UNARY_CELU,  /* alpha */
    UNARY_EXP,
    UNARY_LOG,
    UNARY_SIGMOID,
    UNARY_TANH,
    UNARY_ERF,
    UNARY_GELU,
    UNARY_GELU_TANH,
    UNARY_SOFTPLUS,
    UNARY_SOFTSIGN,
    UNARY_HARDSIGMOID, /* alpha, beta */
    UNARY_HARDSWISH,
    UNARY_SWISH, /* alpha */
    UNARY_MISH,
    UNARY_SHRINK,    /* bias, lambda */
    UNARY_THRESHOLD, /* alpha */
    UNARY_SIN,
    UNARY_COS,
    UNARY_TAN,
    UNARY_ASIN,
    UNARY_ACOS,
    UNARY_ATAN,
    UNARY_SINH,
    UNARY_COSH,
    UNARY_ASINH,
    UNARY_ACOSH,
    UNARY_ATANH,
    UNARY_COUNT
};

enum binary_fn {
    BINARY_ADD = 0,
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_POW,
    BINARY_PRELU,
    BINARY_FMOD,
    BINARY_MOD, /* with the divisor's sign */
    BINARY_COUNT
};

enum fold_fn { FOLD_SUM = 0, FOLD_MAX, FOLD_MIN, FOLD_PROD, FOLD_ABS, FOLD_SQUARE, FOLD_COUNT };

/*
 * One tile of a matrix product: y[m, n] = x[m, k] * w[k, n], for one block of k. w is a packed panel [k][gemm_nr].
 *
 * Rows of x are equally far apart: those of a matrix, or of a block to which patches of an image were copied. All rows of a full or half tile are read, so
 * there must be that many: gemm_rows.
 */
#define GEMM_KC 256 /* k of one block: the x block and a w panel (32 KiB) stay in the first two caches */
#define GEMM_LDX                                                                                                       \
    (GEMM_KC + 16) /* floats between rows of the x block: not a power of two, or all rows meet in one cache set */
/* How the weights of a panel are kept. Offsets and strides count in floats, 4 bytes, whatever the form. */
enum gemm_form {
    GEMM_F32 = 0,
    GEMM_F16,  /* [k][gemm_nr] of 2 bytes: widened as they are read; no infinities */
    GEMM_BF16, /* the same, bf16 */
    GEMM_PAIRS /* [k / 2][gemm_nr][2] of bf16, and x is pairs of bf16, too: k counts pairs */
};

/* Rows that a tile of m rows reads and multiplies: 1, half a tile, or a whole one less 0, 2, 4 ... */
static inline size_t gemm_rows(size_t mr, size_t m)
{
    return m <= 1 ? m : m <= mr / 2 ? mr / 2 : m >= mr ? mr : mr - (mr - m) / 2 * 2;
}

/* Rows of the next tile where `left` are to be multiplied: the last two tiles share theirs where the last one alone would have few. */
static inline size_t gemm_rows_next(size_t mr, size_t left)
{
    const size_t half = mr / 2;
    if (left <= mr || left >= mr + half || half < 3) {
        return left < mr ? left : mr;
    }
    return left - half - (left - half) % 2;
}

struct gemm_tile {
    const float *x; /* [gemm_rows(mr, m)][x_stride] */
    const float *w; /* [k][gemm_nr] */
    const float *
        next; /* fetched ahead, a cache line for each k: what the caller needs soon. Not by tiles of one vector of columns */
    size_t
        fetch; /* floats from one such line to the next; of own_gemm_tiles: so many lines for each OWN_TILES_K of k */
    const float *more; /* own_gemm_tiles: rows from `split` on, at most 16 before and behind it */
    size_t split;
    const float *bias; /* [gemm_nr], added by the first block; NULL = 0 */
    const float *sum;  /* [m][sum_stride], added by the last block before the clamp; NULL = nothing */
    float *y;          /* [m][y_stride] */
    size_t x_stride, y_stride, sum_stride;
    size_t m, n, k; /* m <= gemm_mr, n <= gemm_nr */
    size_t bands,
        band_stride;  /* k of each of `bands` bands; a band of a row lies that many floats behind the one before */
    bool first, last; /* block of k: the first starts from the bias, the others from y; the last adds and clamps */
    float min, max;
};

/*
 * One row: y[n] = clamp(start + x[k] * w + sum). Each sum is taken in the order in which gemm takes it, so the bits are those of any tile.
 */
struct gemm_row {
    const float *x, *w;       /* [k]; panels [k][gemm_nr] */
    const float *start, *sum; /* [n] each; NULL = 0. start and sum may be y */
    float *y;
    size_t panel; /* floats from one panel to the next */
    size_t k, n;
    float min, max;
};

/*
 * One output row of a depthwise convolution. Rows of the kernel that lie in the padding are left out by the caller; columns that do are skipped here. Weights
 * lie in blocks of `lanes` channels; the last block ends with the last channel, over channels of the one before it, unless there are fewer than `lanes` at all.
 */
struct depthwise_row {
    const float *x;          /* column 0 of the row under the first row of the kernel */
    const float *w, *bias;   /* of the first block: [kernel_h][kernel_w][lanes], [lanes] */
    float *y;                /* column 0 */
    size_t x_row;            /* floats between rows of x, times the dilation */
    size_t x_pixel, y_pixel; /* floats between pixels */
    size_t kernel_h, kernel_w, in_w, out_w, stride, dilation, pad; /* of columns; kernel_h: rows that count */
    size_t inside_from, inside_to;                                 /* outputs whose windows have all columns */
    size_t channels, block; /* block: floats from the weights of one block to those of the next */
    float min, max;
};

/*
 * One tile of winograd.h: (edge + 2)^2 pixels of the input, turned; so many products, turned to at most edge x edge pixels of the output; and nine weights of many
 * filters, turned. edge: 4 or 2.
 */
#define WINOGRAD_POINTS 36 /* the most numbers of a tile */
struct winograd_in {
    const float *pixels[WINOGRAD_POINTS]; /* [channels] each */
    float *v;                             /* channels of the first number */
    size_t step;                          /* floats from one number to the next */
    size_t edge, channels;
};
struct winograd_out {
    const float *m;          /* channels of the first product */
    float *y;                /* the first pixel */
    const float *sum, *bias; /* added before the clamp: a pixel for each of y; [channels]. NULL = nothing */
    size_t step, y_row, y_pixel, sum_row, sum_pixel, rows, cols, edge, channels;
    float min, max;
};
struct winograd_filters {
    const float *w;            /* of the first of 3 x 3 places: `count` floats, whole vectors */
    float *u;                  /* of the first number */
    size_t place, step, count; /* floats from one place to the next, from one number to the next */
    size_t edge;
};

#define DOTS_ROWS 4 /* so many rows are multiplied together, at most */
#define DOTS_COLS 4
/*
 * A product of few columns: y[m][n] = x * w + bias, where each row of x and each column of w is `bands` pieces of k floats.
 */
struct dots {
    const float *x, *w, *bias; /* [n] of w: w_stride floats apart; bands one behind the other */
    float *y;
    size_t x_stride, x_band, w_stride, y_stride; /* x_band: floats from one piece of a row to the next */
    size_t m, n, k, bands;                       /* n <= DOTS_COLS */
};

struct row_steps;

struct own {
    const char *name;
    size_t lanes; /* floats of a vector */
    bool wide;    /* it has convolutions of its own, too: the vectors are long enough, or there are many of them */
    void (*unary)(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b);
    /* Steps are 0 (one value for all) or 1. y may be a or b. */
    void (*binary)(enum binary_fn fn, const float *a, size_t a_step, const float *b, size_t b_step, float *y, size_t n);
    float (*fold)(enum fold_fn fn, const float *x, size_t n); /* n >= 1 */
    void (*fold_rows)(enum fold_fn fn, const float *x, size_t stride, size_t rows, float *y,
                      size_t n);                                       /* y[n] = fold over rows of x[rows, n] */
    float (*exp_sum)(const float *x, float *y, size_t n, float shift); /* y = exp(x - shift), 0 below 2^-125; the sum */
    float (*square_sum)(const float *x, size_t n, float mean);         /* sum of (x - mean)^2 */
    void (*affine)(const float *x, float *y, size_t n, float mean, float scale, const float *gain,
                   const float *bias);                         /* (x - mean) * scale * gain + bias */
    void (*axpy)(float *y, const float *x, size_t n, float a); /* y += a x */
    float (*dot)(const float *x, const float *y, size_t n);
    void (*range)(const float *x, size_t n, float *ret_min, float *ret_max);      /* of x and 0; NaN changes nothing */
    void (*steps)(const struct row_steps *s, const float *x, float *y, size_t n); /* row_step() of each */
    /* row_step() of each as a byte: its step + 128; of NaN any. True when there was NaN. */
    bool (*step_bytes)(const struct row_steps *s, const float *x, uint8_t *y, size_t n);
    void (*pool_max)(const float *const *taps, size_t count, float *y, size_t n);
    void (*pool_sum)(const float *const *taps, size_t count, float *y, size_t n, float scale);
    void (*transpose)(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows,
                      size_t cols); /* y[c][r] = x[r][c] */
    void (*depthwise)(const struct depthwise_row *d);
    void (*dots)(const struct dots *d);
    void (*winograd_in)(const struct winograd_in *t);
    void (*winograd_out)(const struct winograd_out *t);
    void (*winograd_filters)(const struct winograd_filters *t);
    size_t gemm_mr, gemm_nr;
    void (*gemm)(const struct gemm_tile *t);
    void (*gemm_row)(const struct gemm_row *t);
    void (*gemm_half)(const struct gemm_tile *t, enum gemm_form form); /* GEMM_F16 or GEMM_BF16 */
};

#if defined(OWN_X86) || defined(OWN_ARM)
#define OWN_PAIRS 1 /* there is a product of pairs of bf16 in the build */
#ifdef OWN_X86
#define OWN_PAIRS_MR 14
#define OWN_PAIRS_NR 32
#else
#define OWN_PAIRS_MR 12
#define OWN_PAIRS_NR 8
#endif
/* own_gemm_pairs.c, for processors with AVX512-BF16 or Arm's BF16 (isa_pairs): panels of own_avx512 or own_neon as pairs. */
void own_gemm_pairs(const struct gemm_tile *t);
void own_gemm_row_pairs(const struct gemm_row *t); /* x and k of pairs */
/* n floats to pairs of bf16, rounded to the nearest even; a last single one gets a 0 beside it. */
void own_pairs_make(const float *x, uint32_t *y, size_t n);
/* The same of two rows: y[i] is (even[i], odd[i]). odd NULL = zeros. */
void own_pairs_lay(const float *even, const float *odd, uint32_t *y, size_t n);
#endif

extern const struct own own_plain;
#ifdef OWN_X86
extern const struct own own_avx2;
extern const struct own own_avx512;
#endif
#ifdef OWN_ARM
extern const struct own own_neon;
#endif

#endif
