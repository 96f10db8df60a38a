/*
 * tensorflow.h - what TensorFlow's operators mean, in terms of ours: shared by the TFLite and the TF.js reader.
 *
 * Sizes need not be known: what can be constant becomes constant, the rest is computed.
 * Threads: one-at-a-time.
 */
#ifndef BUILD_TENSORFLOW_H
#define BUILD_TENSORFLOW_H

#include "import/build/build.h"

struct tf_masks {
    int64_t begin, end, ellipsis, new_axis, shrink;
};
/* begin, end, strides: values of n integers each; n and strides must be constant. */
uint32_t tf_strided_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t end, uint32_t strides,
                          const struct tf_masks *masks);
/* x[begin : begin + size], size -1 = to the end. */
uint32_t tf_slice(struct build *b, uint32_t x, uint32_t begin, uint32_t size);
uint32_t tf_reverse(struct build *b, uint32_t x, int64_t axis);
/* size: value of two integers (height, width); data N, H, W, C. */
uint32_t tf_resize(struct build *b, uint32_t x, uint32_t size, bool nearest, bool align_corners, bool half_pixel);
/* block and paddings / crops ([n, 2]) must be constant; rank must be known. */
uint32_t tf_space_to_batch(struct build *b, uint32_t x, uint32_t block, uint32_t paddings, int32_t rank);
uint32_t tf_batch_to_space(struct build *b, uint32_t x, uint32_t block, uint32_t crops, int32_t rank);
/* paddings: [rank, 2]. mode: "constant", "reflect" or "symmetric"; value may be VALUE_NONE. */
uint32_t tf_pad(struct build *b, uint32_t x, uint32_t paddings, const char *mode, uint32_t value);
uint32_t tf_floor_div(struct build *b, uint32_t x, uint32_t y, bool integers);
uint32_t tf_floor_mod(struct build *b, uint32_t x, uint32_t y, bool integers);
uint32_t tf_gather(struct build *b, uint32_t x, uint32_t indices, int64_t axis, int64_t batch_dims);
/* Sizes of parts as int64; one of -1 is what the others leave. */
uint32_t tf_split_sizes(struct build *b, uint32_t x, uint32_t sizes, int64_t axis);
uint32_t tf_pack(struct build *b, const uint32_t *parts, uint32_t count, int64_t axis);
void tf_unpack(struct build *b, uint32_t x, int64_t axis, uint32_t *out, uint32_t count);
uint32_t tf_shape(struct build *b, uint32_t x, enum pen_dtype dtype);
uint32_t tf_fill(struct build *b, uint32_t dims, uint32_t value); /* value: a scalar, any dtype */
uint32_t tf_matmul(struct build *b, uint32_t x, uint32_t y, bool adjoint_x, bool adjoint_y, int32_t rank_x,
                   int32_t rank_y);
uint32_t tf_atan2(struct build *b, uint32_t y, uint32_t x);
uint32_t tf_squared_difference(struct build *b, uint32_t x, uint32_t y);
uint32_t tf_rsqrt(struct build *b, uint32_t x);
uint32_t tf_l2_normalise(struct build *b, uint32_t x, int64_t axis, float epsilon);
uint32_t tf_one_hot(struct build *b, uint32_t indices, uint32_t depth, uint32_t on, uint32_t off, int64_t axis);
/* The k largest of the last axis and their places (int32). */
void tf_top_k(struct build *b, uint32_t x, uint32_t k, uint32_t *ret_values, uint32_t *ret_indices);
struct tf_nms {
    uint32_t boxes, scores, most, overlap, score; /* score: VALUE_NONE = no threshold */
    float sigma;                                  /* above 0: overlapped boxes lose score instead of being dropped */
};
/* Places (int32) of the kept boxes and their scores (ret_scores may be NULL). */
uint32_t tf_non_max_suppression(struct build *b, const struct tf_nms *n, uint32_t *ret_scores);

#endif
