/*
 * filter.h - the weights of a convolution as every backend reads them, whatever their layout in the graph.
 *
 * Threads: any (pure).
 */
#ifndef FILTER_H
#define FILTER_H

#include "backend/backend.h"

struct filter {
    size_t groups, out, in; /* out: of all groups; in: of one */
    size_t kernel_h, kernel_w;
    size_t out_step, in_step, h_step, w_step; /* elements between neighbours in the graph's layout */
    int64_t kernel[2];                        /* spatial sizes as window_read wants them */
};

/* From the node's weight_layout and group. False when the shape does not fit them. */
bool filter_read(const struct node *n, const struct shape *shape, struct filter *ret_filter);

#endif
