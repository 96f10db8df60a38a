#include "import/build/window.h"

#include <math.h>

struct tf_window tf_window_init(uint32_t count)
{
    struct tf_window w = {.count = count, .padding = TF_VALID};
    for (uint32_t i = 0; i < 3; i++)
        w.kernel[i] = w.stride[i] = w.dilation[i] = 1;
    return w;
}

void tf_window_check(struct build *b, const struct tf_window *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1 || w->stride[i] > INT32_MAX ||
            w->dilation[i] > INT32_MAX || w->kernel[i] > INT32_MAX)
            build_stop(b, PEN_ERR_INVALID, "kernel %lld, stride %lld, dilation %lld: each must be positive",
                       (long long)w->kernel[i], (long long)w->stride[i], (long long)w->dilation[i]);
    }
}

void tf_window_attrs(struct build *b, const struct tf_window *w, bool kernel)
{
    tf_window_check(b, w);
    if (!w->channels_first)
        build_int(b, ATTR_layout, LAYOUT_NHWC);
    if (kernel)
        build_ints(b, ATTR_kernel_shape, w->kernel, w->count);
    build_ints(b, ATTR_strides, w->stride, w->count);
    build_ints(b, ATTR_dilations, w->dilation, w->count);
    if (w->padding == TF_EXPLICIT)
        build_ints(b, ATTR_pads, w->pads, 2 * w->count);
    else
        build_text(b, ATTR_auto_pad, w->padding == TF_SAME ? "SAME_UPPER" : "VALID");
}

static void clamp_attrs(struct build *b, float low, float high)
{
    build_int(b, ATTR_act, ACT_CLAMP);
    build_float(b, ATTR_act_min, low);
    build_float(b, ATTR_act_max, high);
}

static uint32_t clip(struct build *b, uint32_t x, double low, double high)
{
    enum pen_dtype dtype = build_dtype(b, x) == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : build_dtype(b, x);
    return build_3(b, OP_Clip, x, build_scalar(b, dtype, low), build_scalar(b, dtype, high));
}

uint32_t tf_activate(struct build *b, uint32_t x, enum tf_activation act, float alpha)
{
    uint32_t y = x;
    switch (act) {
    case TF_ACT_NONE:
        break;
    case TF_ACT_RELU:
        return build_1(b, OP_Relu, x);
    case TF_ACT_RELU_N1:
        return clip(b, x, -1, 1);
    case TF_ACT_RELU6:
        return clip(b, x, 0, 6);
    case TF_ACT_RELU_01:
        return clip(b, x, 0, 1);
    case TF_ACT_TANH:
        return build_1(b, OP_Tanh, x);
    case TF_ACT_SIGMOID:
        return build_1(b, OP_Sigmoid, x);
    case TF_ACT_HARDSWISH:
        return build_1(b, OP_HardSwish, x);
    case TF_ACT_ELU:
        return build_1(b, OP_Elu, x);
    case TF_ACT_LEAKY:
        y = build_1(b, OP_LeakyRelu, x);
        build_float(b, ATTR_alpha, alpha);
        break;
    }
    return y;
}

uint32_t tf_fuse(struct build *b, uint32_t y, enum tf_activation act, float alpha)
{
    switch (act) {
    case TF_ACT_NONE:
        return y;
    case TF_ACT_RELU:
        clamp_attrs(b, 0.0f, INFINITY);
        return y;
    case TF_ACT_RELU_N1:
        clamp_attrs(b, -1.0f, 1.0f);
        return y;
    case TF_ACT_RELU6:
        clamp_attrs(b, 0.0f, 6.0f);
        return y;
    case TF_ACT_RELU_01:
        clamp_attrs(b, 0.0f, 1.0f);
        return y;
    default:
        return tf_activate(b, y, act, alpha);
    }
}

uint32_t tf_conv(struct build *b, uint32_t x, uint32_t weights, uint32_t bias, const struct tf_window *w,
                 enum weight_layout layout, int64_t groups)
{
    if (w->count == 3 && layout == WEIGHT_HWIO) { /* backends take weights of three spatial dims in one layout */
        weights = build_transpose(b, weights, (int64_t[]){4, 3, 0, 1, 2}, 5);
        layout = WEIGHT_OIHW;
    }
    uint32_t y = build_3(b, OP_Conv, x, weights, bias);
    tf_window_attrs(b, w, false);
    build_int(b, ATTR_weight_layout, layout);
    if (groups != 1)
        build_int(b, ATTR_group, groups);
    return tf_fuse(b, y, w->act, w->alpha);
}

/* VALID: the given size has rows behind what stride and kernel reach. */
static bool longer(struct build *b, uint32_t x, uint32_t weights, const struct tf_window *w, const int64_t *size)
{
    bool any = false;
    for (uint32_t i = 0; i < w->count && w->padding == TF_VALID; i++) {
        int64_t have = build_dim(b, x, (w->channels_first ? 2 : 1) + i), kernel = build_dim(b, weights, 2 + i);
        any |= have < 0 || kernel < 0 || size[i] != (have - 1) * w->stride[i] + (kernel - 1) * w->dilation[i] + 1;
    }
    return any;
}

uint32_t tf_conv_transpose(struct build *b, uint32_t x, uint32_t weights, uint32_t bias, const struct tf_window *w,
                           const int64_t *size)
{
    uint32_t y = build_3(b, OP_ConvTranspose, x, weights, bias);
    tf_window_attrs(b, w, false);
    if (size && (w->padding == TF_SAME || longer(b, x, weights, w, size)))
        build_ints(b, ATTR_output_shape, size, w->count);
    return tf_fuse(b, y, w->act, w->alpha);
}

uint32_t tf_pool(struct build *b, enum op op, uint32_t x, const struct tf_window *w)
{
    uint32_t y = build_1(b, op, x);
    tf_window_attrs(b, w, true);
    if (op == OP_LpPool)
        build_int(b, ATTR_p, 2);
    return tf_fuse(b, y, w->act, w->alpha);
}
