/*
 * conv.h - what the files of Conv share: the state of its step, and which kernel a convolution has.
 *
 * Threads: as emit.h says.
 */
#ifndef XNNPACK_CONV_H
#define XNNPACK_CONV_H

#include "backend/xnnpack/depthwise.h"
#include "backend/xnnpack/groups.h"
#include "backend/xnnpack/narrow.h"
#include "backend/xnnpack/winograd.h"

struct xc_op;

/* Ways to compute the same from the same packed weights. */
enum conv_form { CONV_PRODUCT = 0, CONV_TILES_LARGE, CONV_TILES_SMALL, CONV_FORMS };

struct conv {
    struct window w;
    struct act act;
    struct filter f;
    bool repack;        /* weights are computed: pack on every run */
    float *ohwi;        /* scratch of repack */
    uint8_t *packed;    /* dense: [groups] of dense_weights; shared unless repack */
    struct dense dense; /* of group 0 */
    struct depthwise depthwise;
    struct narrow narrow;
    struct groups groups;
    struct winograd tiles[2];        /* of 4 x 4 and 2 x 2 results */
    enum conv_form form;             /* which of these runs */
    void (*product)(struct step *s); /* makes the step run the product, and tell so */
    struct epilogue after;           /* nodes behind it, as far as the kernel does not do them itself */
    uint32_t sum;                    /* input that the product adds; UINT32_MAX = none */
    float *framed;                   /* a copy of the input within its padding, for few channels; NULL = none */
    struct xc_op *ops;               /* XNNPACK: one per slice */
    size_t slices, slice;            /* slice: output channels of one, or groups when there are groups */
    bool
        by_rows; /* slices are bands of output rows instead: depthwise, so that a thread reads the rows it wrote before */
    float *x_padded; /* a constant input, copied: XNNPACK reads past the end */
};

/* ---- conv_pack.c ---- */

/* Our matrix product is the best way: weights are packed once per plan, and groups are wide enough for the vectors. */
bool conv_is_dense(const struct filter *f);
/* As emitter.pack. */
enum pen_status conv_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                          struct pen_error *reterr);

/* The same for an engine of precision bf16: weights of products are rounded to it, but for windows that another kernel takes (conv_pack.c). */
enum pen_status conv_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                               struct pen_error *reterr);

/* ---- emit_deconv.c ---- */

/* The same for transposed convolutions. */
enum pen_status deconv_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                 struct pen_error *reterr);

/* ---- conv_forms.c ---- */

/*
 * A step that is built as the product gets tiles beside it, where its window has them: which of them runs is measured (choose.h), or follows from winograd_cost.
 * PEN_ERR_NO_MEMORY.
 */
enum pen_status conv_forms_build(struct build *b, struct conv *c);

/* ---- conv_xnn.c ---- */

/* XNNPACK's kernels; bias may be NULL. */
enum pen_status conv_build_xnn(struct build *b, struct conv *c, const struct fact *bias);

#endif
