/*
 * qdense.h - products of quantised bytes: y = requantise(sum of (x - x_zero) * (w - w_zero) + bias), where rows of x may be patches of an image.
 *
 * Sums are exact, so the result is the same for every kernel and any number of threads.
 * Threads: packed weights are shared by any; a qdense_run belongs to one exec.
 */
#ifndef XNNPACK_QDENSE_H
#define XNNPACK_QDENSE_H

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/filter.h"
#include "backend/xnnpack/own_int.h"
#include "penstock/dtype.h"

#define QDENSE_K_MAX 32768 /* terms of a sum that 32 bits surely hold */

/* What is known beside the data; pointers may be NULL where a zero point or a bias is missing. */
struct qparams {
    enum pen_dtype x_dtype, w_dtype,
        y_dtype; /* U8 or I8; y: also I32, sums as they are, and F32, whose qdense has floats; no scale but w_scale counts */
    const void *w, *x_scale, *x_zero, *w_scale, *w_zero, *y_scale, *y_zero;
    size_t w_scales, w_zeros; /* 1 or one for each output channel */
    const int32_t *bias;
    size_t merged;     /* groups of the convolution that are one here: weights from one to the other are zero. 0 = 1 */
    bool x_zero_later; /* x_zero is not known when weights are packed: qdense_addends before each run */
};

/* filter_merge for such products. */
size_t qdense_merge(struct filter *f);

/* Weights of one group. */
struct qweights {
    size_t words; /* of a row */
    bool w_zero_any;
    bool narrow; /* sums with their addend surely fit 32 bits: add32 may be used */
    const uint32_t *panels;
    const double *add;
    const int32_t *add32;
    const float *scale;
    const int32_t *w_zero;
    const int32_t *sums; /* of each column's weights */
};

/* Of a row of the product: terms; runs, one for each row of a window, whose bytes begin with a word; words of a run. */
size_t qdense_terms(const struct filter *f);
size_t qdense_runs(const struct filter *f);
size_t qdense_run_words(const struct filter *f);

/* ---- qpack.c ---- */

size_t qdense_packed_bytes(const struct filter *f); /* of all groups; a multiple of 64 */
void qdense_pack(const struct filter *f, const struct qparams *p, uint8_t *packed);
struct qweights qdense_group(const struct filter *f, const uint8_t *packed, size_t group);

/* The groups that a run multiplies: `one`, or all of what was packed. */
struct qgroups {
    const struct qweights *one; /* NULL: those of f */
    const struct filter *f;
    const uint8_t *packed;
    size_t count;
};
struct qweights qgroups_weights(const struct qgroups *q, size_t group);

/* Columns of a group, in whole panels. */
size_t qdense_columns(const struct filter *f);
/* What zero points and bias add to each column, for the x_zero of now: w uses these from then on. add, add32: [qdense_columns]. One group. */
void qdense_addends(struct qweights *w, const struct filter *f, const struct qparams *p, double *add, int32_t *add32);

#define QBAND_RUNS 32 /* rows of a window that is read in place; of a dilated one, pixels */

/* Windows that are read where they lie, in rows of the image that are copied with their padding: a band of them at a time (qband.h). */
struct qband {
    size_t rows;                  /* of the output; 0: windows are copied one by one */
    size_t pitch, cols_block;     /* bytes of a copied row; panels of one unit of work */
    size_t runs, run_words;       /* of a window: a run for each row, or for each pixel of whole words */
    uint32_t offsets[QBAND_RUNS]; /* of the runs */
};

/* How sums become floats (own_int.h). Rows of x are u8. Weights have no zero point. */
struct qfloats {
    const float *x_scale;
    const int32_t *x_zero; /* 0 where rows are differences from it already: of padded windows in words of 16 bits */
    bool per_row;          /* each row has both of its own; else all have the first */
    const float *bias;     /* [n], or a row of bias_stride for each row of y, where it is not 0; it may be y */
    size_t bias_stride;
    float min, max;
};

struct qdense {
    struct dense_image image; /* channels, pixel_stride: bytes */
    size_t m, k, n, words, y_stride;
    size_t runs, run_words; /* of a row: one for each row of the window, in whole words; words = runs * run_words */
    size_t rows_block, panels_block; /* of one unit of work */
    bool plain;                      /* 1 x 1, nothing skipped or padded: a row is a pixel */
    bool dense;                      /* and pixels lie side by side, in whole words */
    bool direct;                     /* rows are used where they lie */
    struct qband band;
    bool tiles;             /* products in AMX tiles; of a band, where its rows are long enough */
    uint8_t flip;           /* 0x80 for signed x */
    int32_t x_zero, y_zero; /* x_zero as stored bytes have it, before flip */
    enum pen_dtype y_dtype;
    const struct qfloats *floats; /* y is F32; set before a run */
};

void qdense_init(struct qdense *d, const struct dense_image *image, const struct filter *f, size_t threads);
void qdense_zeros(struct qdense *d, const struct qparams *p); /* before a run, when zero points may have changed */
size_t qdense_scratch_bytes(const struct qdense *d, size_t threads);
void qdense_run(const struct qdense *d, const struct qweights *w, const uint8_t *x, void *y, void *scratch,
                struct run *r);
/* All groups of a convolution: d is of one of them. */
void qdense_run_groups(const struct qdense *d, const struct filter *f, const uint8_t *packed, const uint8_t *x, void *y,
                       void *scratch, struct run *r);

/* Whether so many rows of so many runs are multiplied in AMX tiles: enough of them to fill tiles, with work enough to set tiles up for. */
bool qdense_tiles(size_t rows, size_t runs, size_t run_words, size_t macs);
/* A thread that multiplies so holds tiles meanwhile. */
void qdense_tiles_hold(bool tiles);
void qdense_tiles_leave(bool tiles);
void qdense_tile_run(bool tiles, const struct int_tile *t);
/* What a tile of panel `panel` needs beside its rows. */
struct int_tile qdense_tile(const struct qdense *d, const struct qweights *w, size_t panel);
int32_t qdense_zero(const void *zero, enum pen_dtype dtype); /* 0 for NULL */
struct requantise qdense_limits(enum pen_dtype y_dtype, int32_t y_zero);
/* add, scale and w_zero of output channel o of all; a depthwise kernel that has no other place for them asks for it too. */
float qdense_scale(const struct qparams *p, size_t o);
int32_t qdense_w_zero(const struct qparams *p, size_t o);

#endif
