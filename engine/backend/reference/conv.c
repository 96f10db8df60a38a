/* Convolutions: y[n, o, p] = act(b[o] + sum over i, t of w[o, i, t] * x[n, i, p * stride - pad + t * dilation] (+ residual)). Source: ONNX Conv, ConvTranspose. */
#include "backend/reference/activation.h"
#include "backend/reference/conv_core.h"
#include "backend/reference/quantise.h"
#include "words.h"

#include <string.h>

/* Where the sums of a floating-point convolution go. */
struct conv_store {
    const struct spatial *out;
    struct rt_value *y;
    const double *bias;              /* [out channels] or NULL */
    const struct rt_value *residual; /* same shape as y, or NULL */
    struct activation_fused act;
};

static void store_emit(void *context, int64_t image, int64_t channel, int64_t first, int64_t count, double *sums)
{
    struct conv_store *c = context;
    int64_t step = c->out->stride_position;
    int64_t at = image * c->out->stride_batch + channel * c->out->stride_channel + first * step;
    for (int64_t i = 0; i < count && c->bias != NULL; i++) {
        sums[i] += c->bias[channel];
    }
    for (int64_t i = 0; i < count && c->residual != NULL; i++) {
        sums[i] += load_one_f64(c->residual->data, c->residual->dtype, at + i * step);
    }
    activation_apply(&c->act, sums, count);
    store_f64(c->y->data, c->y->dtype, at, step, count, sums);
}

static enum pen_status groups_check(struct kernel_call *k, const struct conv_problem *p, int64_t weight_in)
{
    if (p->groups < 1 || p->in.channels % p->groups != 0 || p->out.channels % p->groups != 0 ||
        p->in.channels / p->groups != weight_in) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld %s in %lld %s not fit weights for %lld inputs and %lld outputs",
                           (long long)p->in.channels, words_plural((uint64_t)p->in.channels, "channel", "channels"),
                           (long long)p->groups, words_plural((uint64_t)p->groups, "group do", "groups do"),
                           (long long)weight_in, (long long)p->out.channels);
    }
    return PEN_OK;
}

/* Geometry and weights of a convolution whose data is input x and weights input w (with their zero points). */
static enum pen_status problem_init(struct kernel_call *k, uint32_t x, uint32_t w, const struct rt_value *w_zero,
                                    struct conv_problem *p)
{
    struct conv_weights weights;
    *p = (struct conv_problem){.x = &k->in[x], .groups = node_int(k->n, ATTR_group, 1)};
    enum pen_status status = spatial_of(k, &k->in[x].shape, &p->in);
    if (status == PEN_OK && k->in[w].shape.rank != k->in[x].shape.rank) {
        status =
            kernel_fail(k, PEN_ERR_SHAPE, "data has rank %d, weights %d", k->in[x].shape.rank, k->in[w].shape.rank);
    }
    if (status == PEN_OK) {
        status = conv_weights_sizes(k, &k->in[w].shape, &weights);
    }
    if (status == PEN_OK) {
        status = window_init(k, &p->in, weights.kernel, false, &p->window);
    }
    if (status == PEN_OK) {
        status = conv_weights_load(k, &k->in[w], w_zero, &weights);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t size[SPATIAL_MAX];
    for (int32_t d = 0; d < p->in.dims; d++) {
        size[d] = window_out(&p->window, d, p->in.size[d], false);
    }
    spatial_make(p->in.batch, weights.out, p->in.dims, size, p->in.nhwc, &p->out);
    p->weights = weights.rows;
    return groups_check(k, p, weights.in);
}

static enum pen_status bias_load(struct kernel_call *k, uint32_t index, int64_t channels, double **ret)
{
    *ret = NULL;
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    if (shape_elements(&k->in[index].shape) != channels) {
        return kernel_fail(
            k, PEN_ERR_SHAPE, "bias has %lld %s for %lld channels", (long long)shape_elements(&k->in[index].shape),
            words_plural((uint64_t)shape_elements(&k->in[index].shape), "element", "elements"), (long long)channels);
    }
    return kernel_doubles(k, index, ret);
}

/* Declares the output and runs: shared by Conv and ConvTranspose. */
static enum pen_status float_run(struct kernel_call *k, const struct conv_problem *p)
{
    double *bias = NULL;
    struct shape shape = spatial_shape(&p->out);
    enum pen_status status = kernel_output(k, 0, p->x->dtype, &shape);
    if (status == PEN_OK) {
        status = bias_load(k, 2, p->out.channels, &bias);
    }
    if (status == PEN_OK && kernel_has(k, 3) && !shape_equal(&k->in[3].shape, &shape)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "the residual's shape differs from the output's");
    }
    if (status != PEN_OK) {
        return status;
    }
    struct conv_store store = {.out = &p->out,
                               .y = &k->out[0],
                               .bias = bias,
                               .residual = kernel_has(k, 3) ? &k->in[3] : NULL,
                               .act = activation_of(k->n)};
    return conv_run(k, p, store_emit, &store);
}

enum pen_status kernel_conv(struct kernel_call *k)
{
    struct conv_problem p;
    enum pen_status status = problem_init(k, 0, 1, NULL, &p);
    return status == PEN_OK ? float_run(k, &p) : status;
}

/* ConvInteger: sums of (x - x_zero) * (w - w_zero), INT32. */
enum pen_status kernel_conv_integer(struct kernel_call *k)
{
    struct conv_problem p;
    enum pen_status status = problem_init(k, 0, 1, kernel_has(k, 3) ? &k->in[3] : NULL, &p);
    if (status != PEN_OK) {
        return status;
    }
    p.x_zero = kernel_scalar(k, 2, 0.0);
    struct shape shape = spatial_shape(&p.out);
    status = kernel_output(k, 0, PEN_DTYPE_I32, &shape);
    struct conv_store store = {.out = &p.out, .y = &k->out[0], .act = {.kind = ACT_NONE}};
    return status == PEN_OK ? conv_run(k, &p, store_emit, &store) : status;
}

/* Where the sums of a quantised convolution go. */
struct requantise {
    const struct spatial *out;
    struct rt_value *y;
    const double *bias;  /* INT32 values */
    const double *scale; /* [out channels] x_scale * w_scale / y_scale */
    double zero, low, high;
};

/* y = saturate(round(sum * scale) + y_zero), rounding halves to even. */
static void requantise_emit(void *context, int64_t image, int64_t channel, int64_t first, int64_t count, double *sums)
{
    struct requantise *c = context;
    int64_t step = c->out->stride_position;
    int64_t at = image * c->out->stride_batch + channel * c->out->stride_channel + first * step;
    for (int64_t i = 0; i < count; i++) {
        double sum = sums[i] + (c->bias != NULL ? c->bias[channel] : 0.0);
        sums[i] = quantise_value(requantise_product(sum, c->scale[channel]), c->zero, c->low, c->high);
    }
    store_f64(c->y->data, c->y->dtype, at, step, count, sums);
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias */
enum pen_status kernel_qlinear_conv(struct kernel_call *k)
{
    struct conv_problem p;
    double *bias = NULL;
    enum pen_status status = problem_init(k, 0, 3, &k->in[5], &p);
    if (status == PEN_OK) {
        status = bias_load(k, 8, p.out.channels, &bias);
    }
    if (status != PEN_OK) {
        return status;
    }
    p.x_zero = kernel_scalar(k, 2, 0.0);
    double *scale = kernel_scratch(k, (size_t)p.out.channels * sizeof *scale);
    int64_t scales = shape_elements(&k->in[4].shape);
    if (scale == NULL || (scales != 1 && scales != p.out.channels)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld weight scales for %lld channels", (long long)scales,
                           (long long)p.out.channels);
    }
    float x_scale = (float)kernel_scalar(k, 1, 1.0), y_scale = (float)kernel_scalar(k, 6, 1.0);
    for (int64_t o = 0; o < p.out.channels; o++) {
        float w_scale = (float)load_one_f64(k->in[4].data, k->in[4].dtype, scales > 1 ? o : 0);
        scale[o] = (double)(x_scale * w_scale / y_scale);
    }
    struct shape shape = spatial_shape(&p.out);
    status = kernel_output(k, 0, k->in[7].dtype, &shape);
    struct requantise r = {
        .out = &p.out, .y = &k->out[0], .bias = bias, .scale = scale, .zero = kernel_scalar(k, 7, 0.0)};
    quantise_range(k->in[7].dtype, &r.low, &r.high);
    return status == PEN_OK ? conv_run(k, &p, requantise_emit, &r) : status;
}

/* Pads and output size of ConvTranspose: out = stride * (in - 1) + output_padding + span - pads, or output_shape decides the pads. */
static enum pen_status transpose_sizes(struct kernel_call *k, struct conv_problem *p, int64_t *size)
{
    struct window *w = &p->window;
    uint32_t padding_count = 0, shape_count = 0;
    const int64_t *padding = node_ints(k->n, ATTR_output_padding, &padding_count);
    const int64_t *wanted = node_ints(k->n, ATTR_output_shape, &shape_count);
    bool upper = node_text_is(k->n, ATTR_auto_pad, "SAME_UPPER", false);
    bool same = upper || node_text_is(k->n, ATTR_auto_pad, "SAME_LOWER", false);
    uint32_t skip =
        shape_count > (uint32_t)w->dims ? shape_count - (uint32_t)w->dims : 0; /* some files give N and C too */
    for (int32_t d = 0; d < w->dims; d++) {
        int64_t extra = padding != NULL && (uint32_t)d < padding_count ? padding[d] : 0;
        int64_t full = w->stride[d] * (p->in.size[d] - 1) + extra + (w->kernel[d] - 1) * w->dilation[d] + 1;
        bool given = wanted != NULL && skip + (uint32_t)d < shape_count;
        size[d] = given  ? wanted[skip + (uint32_t)d]
                  : same ? p->in.size[d] * w->stride[d]
                         : full - w->pad_begin[d] - w->pad_end[d];
        if (size[d] < 0) {
            return kernel_fail(k, PEN_ERR_SHAPE, "output dimension %d would be %lld", d, (long long)size[d]);
        }
        if (given || same) {
            int64_t total = full - size[d];
            total = total < 0 ? 0 : total;
            w->pad_begin[d] = upper ? total / 2 : total - total / 2;
            w->pad_end[d] = total - w->pad_begin[d];
        }
    }
    return PEN_OK;
}

/* [in][out / groups][taps] to [out][in / groups][taps] */
static double *transpose_weights(struct kernel_call *k, const double *w, int64_t in, int64_t out_per_group,
                                 int64_t groups, int64_t taps)
{
    int64_t in_per_group = in / groups;
    double *rows = kernel_scratch(k, (size_t)(in * out_per_group * taps) * sizeof *rows);
    for (int64_t i = 0; i < in && rows != NULL; i++) {
        int64_t group = i / in_per_group;
        for (int64_t o = 0; o < out_per_group; o++) {
            double *to = rows + ((group * out_per_group + o) * in_per_group + i % in_per_group) * taps;
            memcpy(to, w + (i * out_per_group + o) * taps, (size_t)taps * sizeof *to);
        }
    }
    return rows;
}

enum pen_status kernel_conv_transpose(struct kernel_call *k)
{
    const struct shape *w = &k->in[1].shape; /* [in, out / groups, k...] */
    struct conv_problem p = {.x = &k->in[0], .groups = node_int(k->n, ATTR_group, 1), .transposed = true};
    int64_t size[SPATIAL_MAX];
    double *rows = NULL;
    enum pen_status status = spatial_of(k, &k->in[0].shape, &p.in);
    if (status == PEN_OK &&
        (w->rank != p.in.dims + 2 || w->dim[0] != p.in.channels || p.groups < 1 || w->dim[0] % p.groups != 0)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "weights do not fit %lld channels", (long long)p.in.channels);
    }
    if (status == PEN_OK) {
        status = window_init(k, &p.in, w->dim + 2, true, &p.window);
    }
    if (status == PEN_OK) {
        status = transpose_sizes(k, &p, size);
    }
    if (status == PEN_OK) {
        status = kernel_doubles(k, 1, &rows);
    }
    if (status != PEN_OK) {
        return status;
    }
    spatial_make(p.in.batch, w->dim[1] * p.groups, p.in.dims, size, p.in.nhwc, &p.out);
    p.weights = transpose_weights(k, rows, p.in.channels, w->dim[1], p.groups, p.window.taps);
    if (p.weights == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the weights");
    }
    return float_run(k, &p);
}
