/*
 * vulkan/ops/window.h - kernel, strides, dilations and padding of one or two spatial dims, and the weights of a convolution in any layout of the graph.
 *
 * One spatial dim becomes the second of two (height 1). Data is NHWC: the layout pass has seen to it.
 * Threads: any (pure).
 */
#ifndef VULKAN_WINDOW_H
#define VULKAN_WINDOW_H

#include "backend/vulkan/op.h"

struct vk_window {
    size_t batch, channels; /* of the input */
    size_t in[2], out[2];   /* height, width */
    size_t kernel[2], stride[2], dilation[2], begin[2], end[2];
};

/* Rank 3 or 4, NHWC, attributes of the right length and range; weights NULL for pools. */
bool vk_window_supports(const struct graph *g, const struct node *n, const struct value *weights,
                        const char **ret_reason);
/* From concrete shapes; `kernel` [spatial] overrides the attribute. False when they do not fit each other. The output's size is believed. */
bool vk_window_read(const struct node *n, const struct shape *in, const struct shape *out, const int64_t *kernel,
                    struct vk_window *ret_window);
/* The output is what a convolution of these numbers has. */
bool vk_window_exact(const struct vk_window *w);

struct vk_filter {
    size_t groups, out, in; /* out: of all groups; in: of one */
    size_t kernel_h, kernel_w;
    size_t out_step, in_step, h_step, w_step; /* elements between neighbours in the graph's layout */
    int64_t kernel[2];                        /* spatial sizes as vk_window_read wants them */
};

bool vk_filter_read(const struct node *n, const struct shape *shape, struct vk_filter *ret_filter);
bool vk_filter_depthwise(const struct vk_filter *f); /* one channel in, one out per group */
/* Elements of the packed form [group][k][o padded to 4]; a depthwise filter is one group of one input channel. */
size_t vk_filter_packed(const struct vk_filter *f);
void vk_filter_pack(const struct vk_filter *f, const float *weights, float scale, float *packed);
/* The same on the device, for weights that are computed: gives the cell. */
uint32_t vk_filter_repack(struct vk_build *b, const struct vk_filter *f, uint32_t weights, float scale);

#endif
