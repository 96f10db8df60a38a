/*
 * spatial.h - geometry of convolutions and pools: a data tensor in either layout, and a window with strides, dilations and pads.
 *
 * Threads: any.
 */
#ifndef SPATIAL_H
#define SPATIAL_H

#include "backend/reference/kernels.h"

#define SPATIAL_MAX (PEN_MAX_RANK - 2)

/* A tensor [batch, channels, spatial...] or [batch, spatial..., channels]; strides in elements. */
struct spatial {
    int32_t dims;
    bool nhwc;
    int64_t batch, channels, positions; /* positions = product of size */
    int64_t size[SPATIAL_MAX];
    int64_t stride_batch, stride_channel, stride[SPATIAL_MAX];
    int64_t stride_position; /* between neighbours when positions are counted in row-major order */
};

enum pen_status spatial_of(struct kernel_call *k, const struct shape *shape,
                           struct spatial *ret); /* reads ATTR_layout */
void spatial_make(int64_t batch, int64_t channels, int32_t dims, const int64_t *size, bool nhwc, struct spatial *ret);
struct shape spatial_shape(const struct spatial *s);

struct window {
    int32_t dims;
    int64_t kernel[SPATIAL_MAX], stride[SPATIAL_MAX], dilation[SPATIAL_MAX];
    int64_t pad_begin[SPATIAL_MAX], pad_end[SPATIAL_MAX];
    int64_t taps; /* product of kernel */
};

/* strides, dilations, pads and auto_pad of a node (ConvTranspose resolves pads itself: transposed). */
enum pen_status window_init(struct kernel_call *k, const struct spatial *in, const int64_t *kernel, bool transposed,
                            struct window *ret);
/* Size of output dim d. */
int64_t window_out(const struct window *w, int32_t d, int64_t in_size, bool ceil_mode);
/* Splits a row-major index into coordinates. */
void spatial_index(const int64_t *size, int32_t dims, int64_t index, int64_t *ret_at);

#endif
