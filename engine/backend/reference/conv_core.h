/*
 * conv_core.h - the loop that Conv, ConvTranspose, ConvInteger and QLinearConv share: columns of input under the window, times weight rows, in double.
 *
 * Exact for integers up to 2^53. Blocks of positions are gathered once and used for all output channels of a group.
 * Threads: any.
 */
#ifndef CONV_CORE_H
#define CONV_CORE_H

#include "backend/reference/spatial.h"

struct conv_problem {
    struct spatial in, out;
    struct window window;
    int64_t groups;
    bool transposed;
    const struct rt_value *x;
    double x_zero;         /* subtracted from every input element; padding stays zero */
    const double *weights; /* [out.channels][in.channels / groups][taps] */
};

/* Receives sums of output channel `channel` of image `image` for positions first..first + count - 1. */
typedef void (*conv_emit)(void *context, int64_t image, int64_t channel, int64_t first, int64_t count, double *sums);

enum pen_status conv_run(struct kernel_call *k, const struct conv_problem *p, conv_emit emit, void *context);

/* Reads weights in any enum weight_layout into rows [out][in / groups][taps]; zero: subtracted, one per output channel or one, or NULL. Fills sizes. */
struct conv_weights {
    int64_t out, in; /* in per group */
    int64_t kernel[SPATIAL_MAX];
    double *rows;
};
enum pen_status conv_weights_sizes(struct kernel_call *k, const struct shape *w, struct conv_weights *ret);
enum pen_status conv_weights_load(struct kernel_call *k, const struct rt_value *w, const struct rt_value *zero,
                                  struct conv_weights *ret);

#endif
