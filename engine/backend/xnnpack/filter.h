/*
 * filter.h - the weights of a convolution, whatever their layout in the graph: read, turned to [out, height, width, in], packed for dense.h.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_FILTER_H
#define XNNPACK_FILTER_H

#include "backend/xnnpack/dense.h"

struct filter {
    size_t groups, out, in; /* out: of all groups; in: of one group */
    size_t kernel_h, kernel_w;
    size_t out_step, in_step, h_step, w_step; /* floats between neighbours in the graph's layout */
    int64_t kernel[2];                        /* spatial sizes as window_read wants them */
};

bool filter_read(const struct node *n, const struct shape *shape, struct filter *ret_filter);
size_t filter_floats(const struct filter *f);
void filter_to_ohwi(const struct filter *f, const float *w, float *ohwi);
bool filter_is_ohwi(const struct filter *f); /* nothing to turn: weights can be used as they are */
size_t filter_packed_bytes(const struct filter *f);
void filter_pack(const struct filter *f, const float *ohwi, const float *bias,
                 uint8_t *packed); /* [groups] of dense_weights */
/* The same from weights in the graph's layout; scratch: filter_turn_floats. */
void filter_pack_turned(const struct filter *f, const float *w, const float *bias, float *scratch, uint8_t *packed);
size_t filter_turn_floats(const struct filter *f);
const struct dense_weights *filter_group(const struct filter *f, const uint8_t *packed, size_t group);

#endif
