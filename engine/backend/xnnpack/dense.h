/*
 * dense.h - our matrix product: y = clamp(x * w + bias + sum), where the rows of x may be the patches of an image (implicit im2col).
 *
 * Blocked for three caches: w streams through once per block of rows, x blocks of GEMM_KC stay in the first two levels. Results do not depend on the number
 * of threads: every output element is summed in the same order.
 * Threads: packed weights are shared by any; a dense_run belongs to one exec.
 */
#ifndef XNNPACK_DENSE_H
#define XNNPACK_DENSE_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/emit.h"
#include "backend/window.h"
#include "backend/xnnpack/own.h"
#include "backend/xnnpack/window.h"

/* [k, n] weights in panels of gemm_nr columns: [n / nr][k][nr], then bias [n]; zeros fill the last panel. */
struct dense_weights {
    enum gemm_form form; /* of the panels; GEMM_F32 but for dense_pack_form */
    size_t k, n, nr;
    bool has_bias;
    _Alignas(64) float data[];
};

/* Element (k, j) is w[k * k_stride + j * n_stride]. bias may be NULL. */
struct dense_matrix {
    const float *w, *bias;
    size_t k_stride, n_stride, k, n;
    float alpha;
};

size_t dense_weights_bytes(size_t k, size_t n); /* a multiple of 64 */
/* Fills memory of that size, 64-byte aligned. Element (k, j) of w is w[k * k_stride + j * n_stride]. bias may be NULL. */
void dense_pack(struct dense_weights *p, const float *w, size_t k_stride, size_t n_stride, const float *bias, size_t k,
                size_t n);
/*
 * The same in another form, each weight times `alpha` before it is rounded (to the nearest even). dense_form_bytes of memory.
 * PEN_ERR_NO_MEMORY: it needs some while it packs.
 */
size_t dense_form_bytes(enum gemm_form form, size_t k, size_t n);
enum pen_status dense_pack_form(struct dense_weights *p, enum gemm_form form, const struct dense_matrix *w);
/* The form of weights that are rounded to bf16, by what the processor can; GEMM_F32 in a build without them. */
enum gemm_form dense_form_bf16(void);
/* The form of two bytes that holds all of these weights without a difference: GEMM_F16, GEMM_BF16; GEMM_F32 when none does. */
enum gemm_form dense_form_exact(const float *w, size_t count);

/* Sizes and bias alone, for panels that dense_pack_into() fills. */
void dense_pack_bias(struct dense_weights *p, const float *bias, size_t k, size_t n);
/* The same for p->form. */
void dense_bias_put(struct dense_weights *p, const float *bias, size_t k, size_t n);
size_t dense_form_floats(enum gemm_form form, size_t k, size_t n); /* of the panels */
size_t dense_pairs(size_t k); /* of a column in panels of GEMM_PAIRS: those that fill a tile's rows are 0 */
const float *dense_bias(const struct dense_weights *p); /* NULL when there is none */
size_t dense_packed_floats(size_t k, size_t n);
/* The panels alone, into memory of dense_packed_floats. */
void dense_pack_into(float *panels, const float *w, size_t k_stride, size_t n_stride, size_t k, size_t n);
/* As pairs of bf16, into panels of dense_form_floats(GEMM_PAIRS, k, n); where isa_pairs(). */
void dense_pairs_into(float *panels, const float *x, size_t k_stride, size_t n_stride, size_t k, size_t n);

/* An image whose patches are the rows of x. A plain matrix [m, k] is one with width 1, 1 x 1 kernel. NHWC, one group. */
struct dense_image {
    size_t batch, in_h, in_w, channels; /* channels = elements of a pixel that take part */
    size_t pixel_stride;                /* floats between pixels */
    size_t out_h, out_w;
    size_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    size_t pad_top, pad_left;
};
/* Patches of output rows of this width are read in place; in shorter rows most tiles would be cut in pieces. */
bool dense_is_wide(size_t out_w);
/* A convolution's picture; channels: of one group. */
struct dense_image dense_image_of_window(const struct window *w, size_t channels);
/* A matrix [rows, k] with that many elements between rows: pixels of a picture one pixel wide. */
struct dense_image dense_image_of_rows(size_t rows, size_t k, size_t stride);

/* The image as pairs of bf16, within its padding: made once, before anything is multiplied (dense_paired.c). */
struct dense_paired {
    struct dense_image image; /* channels and pixel_stride in pairs */
    size_t words;             /* of all of it; 0 = there is none */
    bool in_place;            /* windows are read where they lie; else they are copied from there */
};

struct dense {
    struct dense_image image;
    enum gemm_form form;         /* of the weights: dense_form_set */
    size_t m, k, n, nr, mr;      /* mr, nr: of a tile; m = batch * out_h * out_w, k = kernel_h * kernel_w * channels */
    size_t y_stride, sum_stride; /* sum_stride: columns of the step's result, for whatever an epilogue reads */
    float min, max;
    size_t rows_block, cols_block; /* of one unit of work */
    bool direct;                   /* rows of x are used where they lie: no patches, no copy */
    bool
        apart; /* direct, but rows are copied all the same: so far apart that their lines meet in few sets of the first cache */
    bool banded; /* patches inside of the image are used where they lie: all weights of a panel fit the first cache */
    struct act act;               /* over the result, by whoever computes it, while it is in the cache */
    const struct epilogue *after; /* then this; NULL = nothing */
    size_t slack;                 /* floats behind the last image that may be read; they count for nothing */
    bool tiles;                   /* GEMM_PAIRS by own_gemm_tiles */
    size_t depth;                 /* k of one block */
    struct dense_paired paired;   /* of tiles */
    bool rows_outer;              /* weights stay in the second cache while rows go by; else panels do */
};

/* One tile by the kernel of this form; tiles: GEMM_PAIRS in AMX tiles. */
void dense_tile(enum gemm_form form, bool tiles, const struct gemm_tile *t);

void dense_init(struct dense *d, const struct dense_image *image, size_t k, size_t n, size_t threads);
/* x is a matrix [m, k] with row stride x_stride. */
void dense_init_matrix(struct dense *d, size_t m, size_t k, size_t n, size_t x_stride, size_t threads);
/* After dense_init: the weights have this form. */
void dense_form_set(struct dense *d, enum gemm_form form, size_t threads);
size_t dense_scratch_bytes(const struct dense *d, size_t threads);
/* Of that: the image of pairs, and behind it the part of each thread. */
size_t dense_paired_bytes(const struct dense *d);
size_t dense_thread_bytes(const struct dense *d);
/* Floats from the beginning of the panels to row k0 of the panel that begins with column c. */
size_t dense_panel_at(const struct dense *d, size_t c, size_t k0);
/* One product of several with the same shape. */
struct dense_item {
    const float *x, *panels, *bias, *sum; /* bias and sum may be NULL; without a bias sum may be y itself */
    float *y;
    void *const *in; /* of the step, for an epilogue */
    size_t y_at;     /* column of the step's result that y's first is */
};
/* scratch: dense_scratch_bytes for at least the pool's threads. */
void dense_run(const struct dense *d, const struct dense_item *items, size_t count, void *scratch, struct run *r);

#endif
