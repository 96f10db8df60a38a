/*
 * window.h - convolutions and pools as TensorFlow means them: channels last, SAME puts the odd pixel bottom-right, a bias and an activation fused.
 *
 * Threads: one-at-a-time.
 */
#ifndef BUILD_WINDOW_H
#define BUILD_WINDOW_H

#include "import/build/build.h"

enum tf_padding { TF_SAME, TF_VALID, TF_EXPLICIT };

enum tf_activation {
    TF_ACT_NONE,
    TF_ACT_RELU,
    TF_ACT_RELU_N1,
    TF_ACT_RELU6,
    TF_ACT_TANH,
    TF_ACT_SIGMOID,
    TF_ACT_LEAKY,
    TF_ACT_HARDSWISH,
    TF_ACT_ELU,
    TF_ACT_RELU_01
};

struct tf_window {
    uint32_t count; /* spatial axes, 1..3 */
    int64_t kernel[3], stride[3], dilation[3];
    enum tf_padding padding;
    int64_t pads[6];     /* EXPLICIT: begins, then ends */
    bool channels_first; /* NCHW data */
    enum tf_activation act;
    float alpha; /* of LEAKY */
};

struct tf_window tf_window_init(uint32_t count);                  /* strides and dilations of 1, VALID */
void tf_window_check(struct build *b, const struct tf_window *w); /* positive and sane */

/* weights in `layout`; groups of the input channels. bias may be VALUE_NONE. */
uint32_t tf_conv(struct build *b, uint32_t x, uint32_t weights, uint32_t bias, const struct tf_window *w,
                 enum weight_layout layout, int64_t groups);
/* weights already [in, out, k...]. size: spatial sizes of the output, NULL = what stride and padding give. */
uint32_t tf_conv_transpose(struct build *b, uint32_t x, uint32_t weights, uint32_t bias, const struct tf_window *w,
                           const int64_t *size);
uint32_t tf_pool(struct build *b, enum op op, uint32_t x, const struct tf_window *w);

/* The window's attributes on the node emitted last. */
void tf_window_attrs(struct build *b, const struct tf_window *w, bool kernel);
/* Fuses the activation into the node emitted last (an operator marked A) when it can, else appends it. Gives the result. */
uint32_t tf_fuse(struct build *b, uint32_t y, enum tf_activation act, float alpha);
/* The activation as a node of its own. */
uint32_t tf_activate(struct build *b, uint32_t x, enum tf_activation act, float alpha);

#endif
