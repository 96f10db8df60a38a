/*
 * planes.h - windows over planes of any number of spatial dims in either layout: pools and convolutions that the NHWC forms leave out.
 *
 * A plane is one channel of one batch entry. Channels go by one after the other, so this is the slower way: 1 and 2 dims in NHWC belong to window.h.
 * Threads: any (pure).
 */
#ifndef XNNPACK_PLANES_H
#define XNNPACK_PLANES_H

#include "backend/xnnpack/emit.h"

#define PLANES_DIMS (PEN_MAX_RANK - 2)

struct planes {
    int32_t dims;
    size_t batch, in_channels, out_channels;
    int64_t in[PLANES_DIMS], out[PLANES_DIMS], kernel[PLANES_DIMS], stride[PLANES_DIMS], dilation[PLANES_DIMS];
    int64_t begin[PLANES_DIMS], end[PLANES_DIMS];
    int64_t in_step[PLANES_DIMS], out_step[PLANES_DIMS]; /* elements between neighbours along a dim */
    size_t in_size, out_size, taps;                      /* positions of a plane, elements of the window */
    bool last;                                           /* channels are the last dim */
};

/* kernel [dims], or NULL for ATTR_kernel_shape. transposed: padding by ATTR_pads alone. False when the numbers do not fit the shapes. */
bool planes_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                 bool transposed, struct planes *ret_planes);
/* First element of a plane, and the step between elements that follow each other along the last dim. */
size_t planes_in_at(const struct planes *p, size_t batch, size_t channel);
size_t planes_out_at(const struct planes *p, size_t batch, size_t channel);

/* Counts up an index over `size`, the last of `dims` fastest; false when it starts again. */
bool planes_next(int64_t *at, const int64_t *size, int32_t dims);

/* Emitters that take the NHWC form where it fits, and the planes' otherwise. */
struct plane_form {
    const struct emitter *fast;
    bool (*supports)(const struct graph *g, const struct node *n, const char **ret_reason);
    enum pen_status (*build)(struct build *b);
};
bool plane_form_supports(const struct plane_form *f, const struct graph *g, const struct node *n,
                         const char **ret_reason);
enum pen_status plane_form_pack(const struct plane_form *f, const struct graph *g, const struct node *n,
                                void **ret_packed, size_t *ret_bytes, struct pen_error *reterr);
enum pen_status plane_form_build(const struct plane_form *f, struct build *b);

#endif
