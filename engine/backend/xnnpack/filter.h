/*
 * xnnpack/filter.h - the weights of a convolution (backend/filter.h) turned to [out, height, width, in], packed for dense.h.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_FILTER_H
#define XNNPACK_FILTER_H

#include "backend/filter.h"
#include "backend/xnnpack/dense.h"

size_t filter_floats(const struct filter *f);
/* One channel in and one out of each of several groups. */
bool filter_is_depthwise(const struct filter *f);
/*
 * Narrow groups become fewer, wider ones: as many as fill `columns` with sums of at most `terms` terms. Weights from one to another are zero; the products are as
 * many, since columns would be empty, and what is done for each group besides is done for several at once. Gives how many became one.
 */
size_t filter_merge(struct filter *f, size_t columns, size_t terms);
void filter_to_ohwi(const struct filter *f, const float *w, float *ohwi);
bool filter_is_ohwi(const struct filter *f); /* nothing to turn: weights can be used as they are */
size_t filter_packed_bytes(const struct filter *f, enum gemm_form form);
void filter_pack(const struct filter *f, const float *ohwi, const float *bias,
                 uint8_t *packed); /* [groups] of dense_weights */
/* The same from weights in the graph's layout; scratch: filter_turn_floats. */
void filter_pack_turned(const struct filter *f, const float *w, const float *bias, float *scratch, uint8_t *packed);
size_t filter_turn_floats(const struct filter *f);
/* The same in any form, rounded; scratch: filter_floats. PEN_ERR_NO_MEMORY. */
enum pen_status filter_pack_form(const struct filter *f, enum gemm_form form, const float *w, const float *bias,
                                 float *scratch, uint8_t *packed);
/* Of whatever form they were packed in. */
const struct dense_weights *filter_group(const struct filter *f, const uint8_t *packed, size_t group);

#endif
