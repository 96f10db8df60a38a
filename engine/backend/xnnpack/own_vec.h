/*
 * own_vec.h - the pieces of one table of own kernels; every file that includes it is compiled once per instruction set.
 *
 * OWN_ISA is the suffix (plain, avx2, avx512), OWN_LANES the floats of a vector.
 * Threads: any.
 */
#ifndef XNNPACK_OWN_VEC_H
#define XNNPACK_OWN_VEC_H

#include "backend/xnnpack/own.h"
#include "backend/xnnpack/own_int.h"

#ifndef OWN_ISA
#define OWN_ISA   plain
#define OWN_LANES 4
#endif
#ifndef OWN_WIDE
#define OWN_WIDE 0
#endif
#define OWN_PASTE2(a, b) a##_##b
#define OWN_PASTE(a, b)  OWN_PASTE2(a, b)
#define OWN(name)        OWN_PASTE(name, OWN_ISA)
#define OWN_TEXT2(a)     #a
#define OWN_TEXT(a)      OWN_TEXT2(a)

typedef float vf
    __attribute__((vector_size(OWN_LANES * 4), aligned(4), may_alias)); /* loads and stores need no alignment */

/* The loop may be turned into vectors though its pointers may be equal (in place); they never overlap otherwise. */
#define SIMD _Pragma("omp simd")

/* own_unary.c */
void OWN(own_unary)(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b);
/* own_binary.c */
void OWN(own_binary)(enum binary_fn fn, const float *a, size_t a_step, const float *b, size_t b_step, float *y,
                     size_t n);
/* own_fold.c */
float OWN(own_fold)(enum fold_fn fn, const float *x, size_t n);
void OWN(own_fold_rows)(enum fold_fn fn, const float *x, size_t stride, size_t rows, float *y, size_t n);
float OWN(own_exp_sum)(const float *x, float *y, size_t n, float shift);
float OWN(own_square_sum)(const float *x, size_t n, float mean);
float OWN(own_dot)(const float *x, const float *y, size_t n);
/* own_rows.c */
void OWN(own_affine)(const float *x, float *y, size_t n, float mean, float scale, const float *gain, const float *bias);
void OWN(own_axpy)(float *y, const float *x, size_t n, float a);
void OWN(own_pool_max)(const float *const *taps, size_t count, float *y, size_t n);
void OWN(own_dots)(const struct dots *d);
void OWN(own_pool_sum)(const float *const *taps, size_t count, float *y, size_t n, float scale);
void OWN(own_transpose)(const uint32_t *x, size_t x_stride, uint32_t *y, size_t y_stride, size_t rows, size_t cols);
/* own_depthwise.c */
void OWN(own_depthwise)(const struct depthwise_row *d);
/* own_winograd.c */
void OWN(own_winograd_in)(const struct winograd_in *t);
void OWN(own_winograd_out)(const struct winograd_out *t);
void OWN(own_winograd_filters)(const struct winograd_filters *t);
/* own_codes.c */
void OWN(own_codes)(const uint8_t *codes, size_t bits, float scale, float shift, float *y, size_t n);
/* own_lstm.c */
void OWN(own_lstm)(const struct lstm_fixed *l, const int32_t *x, const int32_t *h, int16_t *cell, int8_t *y,
                   int16_t *scratch);
/* own_steps.c */
void OWN(own_range)(const float *x, size_t n, float *ret_min, float *ret_max);
void OWN(own_steps)(const struct row_steps *s, const float *x, float *y, size_t n);
bool OWN(own_step_bytes)(const struct row_steps *s, const float *x, uint8_t *y, size_t n);
/* own_gemm.c */
void OWN(own_gemm)(const struct gemm_tile *t);
void OWN(own_gemm_row)(const struct gemm_row *t);
void OWN(own_gemm_half)(const struct gemm_tile *t, enum gemm_form form);

#endif
