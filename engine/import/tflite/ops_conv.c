/* Convolutions, pools and matrix products. Data N, H, W, C; weights of CONV_2D are OHWI, of DEPTHWISE_CONV_2D [1, kh, kw, c * m] = HWIM with the same bytes. */
#include <math.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"
#include "words.h"

enum { CONV_PADDING = 0, CONV_STRIDE_W = 1, CONV_STRIDE_H = 2, CONV_ACT = 3, CONV_DILATION_W = 4, CONV_DILATION_H = 5 };
enum { DEPTHWISE_MULTIPLIER = 3, DEPTHWISE_ACT = 4, DEPTHWISE_DILATION_W = 5, DEPTHWISE_DILATION_H = 6 };
enum { POOL_FILTER_W = 3, POOL_FILTER_H = 4, POOL_ACT = 5 };

/* A weight tensor seen with other dimensions over the same bytes: constants get a view, anything else a Reshape. */
static uint32_t reshaped(struct call *c, uint32_t index, const struct shape *shape, bool real)
{
    const struct tensor *t = lite_tensor(c, index);
    uint32_t x = real ? lite_real(c, index) : lite_in(c, index);
    const struct value *v = build_value(c->b, x);
    if (!t || !v)
        return VALUE_NONE;
    if (v->data && shape_equal(&v->shape, shape))
        return x;
    if (v->data)
        return build_const(c->b, v->dtype, shape, v->data, v->bytes, false);
    return build_reshape(c->b, x, shape->dim, (uint32_t)shape->rank);
}

/*
 * Scales of the weights with which 16-bit data are requantised as TFLite does where biases have 64 bits: x_scale w_scale / y_scale there is a number of 16 bits
 * times a power of two. Source: MultiplyByQuantizedMultiplier of an int64_t.
 */
static void reduce_scales(struct call *c, uint32_t *scale)
{
    const struct tensor *xt = lite_tensor(c, 0), *wt = lite_tensor(c, 1), *yt = lite_result(c, 0),
                        *bias = lite_tensor(c, 2);
    uint32_t n = wt->quant.count;
    int64_t dim = n;
    struct shape shape = n > 1 ? shape_of(1, &dim) : shape_scalar();
    if (xt->dtype != PEN_DTYPE_I16 || (bias && bias->dtype != PEN_DTYPE_I64))
        return;
    float *to = graph_alloc(c->b->g, n * sizeof *to + 64);
    double outer = (double)xt->quant.scale[0] / (double)yt->quant.scale[0];
    for (uint32_t i = 0; to && i < n; i++) {
        int exponent = 0;
        double m = frexp(outer * (double)wt->quant.scale[i], &exponent), fixed = round(m * 0x1p31);
        double reduced = fixed >= 0x7fff0000 ? 0x7fff : floor((fixed + 0x8000) / 0x10000);
        to[i] = (float)(ldexp(reduced, exponent - 15) / outer);
    }
    if (to)
        *scale = build_const(c->b, PEN_DTYPE_F32, &shape, to, n * sizeof *to, false);
}

/* x, weights, bias in one node: QLinearConv when all is quantised, else floats. `weights`: dimensions to see them with. */
static uint32_t convolve(struct call *c, uint32_t x, const struct shape *weights, const struct tf_window *w,
                         enum weight_layout layout, int64_t groups)
{
    struct build *b = c->b;
    const struct tensor *xt = lite_tensor(c, 0), *wt = lite_tensor(c, 1), *yt = lite_result(c, 0);
    if (!lite_quantised(c, 0) || !lite_quantised(c, 1) || !lite_result_quantised(c, 0))
        return tf_conv(b, x, reshaped(c, 1, weights, true), lite_bias(c, 2, 0, 1), w, layout, groups);
    uint32_t in[9] = {x,          VALUE_NONE, VALUE_NONE,   reshaped(c, 1, weights, false), VALUE_NONE, VALUE_NONE,
                      VALUE_NONE, VALUE_NONE, lite_in(c, 2)};
    lite_affine(c, xt, &in[1], &in[2]);
    lite_affine(c, wt, &in[4], &in[5]);
    lite_affine(c, yt, &in[6], &in[7]);
    reduce_scales(c, &in[4]);
    uint32_t y = build_op(b, OP_QLinearConv, in, 9);
    tf_window_attrs(b, w, false);
    build_int(b, ATTR_weight_layout, layout);
    if (groups != 1)
        build_int(b, ATTR_group, groups);
    return lite_clamp(c, y, w->act);
}

static bool ranks_are(struct call *c, int32_t x, int32_t weights)
{
    const struct tensor *xt = lite_tensor(c, 0), *wt = lite_tensor(c, 1);
    if (xt && wt && xt->shape.rank == x && wt->shape.rank == weights && shape_known(&wt->shape))
        return true;
    build_stop(c->b, PEN_ERR_CORRUPT, "its input needs %d dimensions and its weights %d", x, weights);
    return false;
}

static bool whole_quantised(struct call *c)
{
    return lite_quantised(c, 0) && lite_quantised(c, 1) && lite_result_quantised(c, 0);
}

/* The data as the node wants it: as stored for integer arithmetic, else as floats; an image is a row of a hybrid product. `channels`: of the result. */
static uint32_t data_in(struct call *c, int64_t channels)
{
    bool each = lite_tensor(c, 1)->quant.count == (uint64_t)channels;
    return whole_quantised(c) ? lite_in(c, 0) : lite_product_data(c, 0, 1, 1, each);
}

static void give(struct call *c, uint32_t y)
{
    if (whole_quantised(c))
        lite_give(c, 0, y);
    else
        lite_give_real(c, 0, y);
}

static void window_2d(struct call *c, struct tf_window *w, const struct shape *weights, unsigned act,
                      unsigned dilation_w, unsigned dilation_h)
{
    w->padding = lite_padding(c, CONV_PADDING);
    w->stride[0] = lite_option(c, CONV_STRIDE_H, 0);
    w->stride[1] = lite_option(c, CONV_STRIDE_W, 0);
    w->dilation[0] = lite_option(c, dilation_h, 1);
    w->dilation[1] = lite_option(c, dilation_w, 1);
    w->kernel[0] = weights->dim[1];
    w->kernel[1] = weights->dim[2];
    w->act = lite_activation(c, act);
}

void lower_conv_2d(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    if (!ranks_are(c, 4, 4))
        return;
    const struct shape *weights = &lite_tensor(c, 1)->shape;
    int64_t channels = lite_tensor(c, 0)->shape.dim[3], per_group = weights->dim[3];
    window_2d(c, &w, weights, CONV_ACT, CONV_DILATION_W, CONV_DILATION_H);
    channels = channels < 0 ? per_group : channels; /* not known: one group, as nearly all are */
    if (per_group < 1 || channels % per_group != 0 || channels < per_group) {
        build_stop(c->b, PEN_ERR_CORRUPT, "%lld %s not suit weights for %lld", (long long)channels,
                   words_plural((uint64_t)channels, "channel does", "channels do"), (long long)per_group);
        return;
    }
    give(c, convolve(c, data_in(c, weights->dim[0]), weights, &w, WEIGHT_OHWI, channels / per_group));
}

void lower_depthwise(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    if (!ranks_are(c, 4, 4))
        return;
    const struct shape *weights = &lite_tensor(c, 1)->shape;
    int64_t channels = lite_tensor(c, 0)->shape.dim[3], out = weights->dim[3];
    int64_t multiplier = lite_option(c, DEPTHWISE_MULTIPLIER, 0);
    window_2d(c, &w, weights, DEPTHWISE_ACT, DEPTHWISE_DILATION_W, DEPTHWISE_DILATION_H);
    if (channels < 0 && multiplier > 0)
        channels = out / multiplier;
    if (channels < 1 || out % channels != 0 || weights->dim[0] != 1) {
        build_stop(c->b, PEN_ERR_CORRUPT, "%lld %s not suit depthwise weights for %lld", (long long)channels,
                   words_plural((uint64_t)channels, "channel does", "channels do"), (long long)out);
        return;
    }
    struct shape hwim = shape_of(4, (int64_t[]){weights->dim[1], weights->dim[2], channels, out / channels});
    give(c, convolve(c, data_in(c, out), &hwim, &w, WEIGHT_HWIM, channels));
}

/* Weights are DHWIO. */
static void window_3d(struct call *c, struct tf_window *w, const struct shape *weights)
{
    w->padding = lite_padding(c, 0);
    w->stride[0] = lite_option(c, 1, 0);
    w->stride[1] = lite_option(c, 3, 0);
    w->stride[2] = lite_option(c, 2, 0);
    w->act = lite_activation(c, 4);
    w->dilation[0] = lite_option(c, 5, 1);
    w->dilation[1] = lite_option(c, 7, 1);
    w->dilation[2] = lite_option(c, 6, 1);
    for (int i = 0; i < 3; i++)
        w->kernel[i] = weights->dim[i];
}

void lower_conv_3d(struct call *c)
{
    struct tf_window w = tf_window_init(3);
    if (!ranks_are(c, 5, 5))
        return;
    const struct shape *weights = &lite_tensor(c, 1)->shape;
    int64_t channels = lite_tensor(c, 0)->shape.dim[4], per_group = weights->dim[3];
    window_3d(c, &w, weights);
    channels = channels < 0 ? per_group : channels;
    if (per_group < 1 || channels % per_group != 0) {
        build_stop(c->b, PEN_ERR_CORRUPT, "%lld channels do not suit weights for %lld", (long long)channels,
                   (long long)per_group);
        return;
    }
    lite_give_real(
        c, 0,
        tf_conv(c->b, lite_real(c, 0), lite_real(c, 1), lite_bias(c, 2, 0, 1), &w, WEIGHT_HWIO, channels / per_group));
}

/* The data of a transposed convolution. */
static uint32_t data_turned(struct call *c)
{
    return lite_product_data(c, 2, 1, 1, lite_tensor(c, 1)->quant.count > 1);
}

/* Spatial axes of `dims`, a list over all of them. */
static uint32_t spatial(struct call *c, uint32_t dims, uint32_t count)
{
    return build_slice(c->b, dims, 0, 1, 1 + (int64_t)count, 1);
}

/* begin, end: spatial axes; the others stay whole. */
static uint32_t cut(struct call *c, uint32_t x, uint32_t begin, uint32_t end, uint32_t count)
{
    int64_t axes[3] = {1, 2, 3};
    return build_op(c->b, OP_Slice, (uint32_t[]){x, begin, end, build_i64(c->b, axes, count)}, 4);
}

static uint32_t lengthened(struct call *c, uint32_t x, uint32_t by, uint32_t count)
{
    uint32_t none = build_i64(c->b, (int64_t[]){0}, 1), front = build_i64(c->b, (int64_t[PEN_MAX_RANK]){0}, count + 3);
    return build_2(c->b, OP_Pad, x, build_axis_op(c->b, OP_Concat, (uint32_t[]){front, by, none}, 3, 0));
}

/*
 * The size of the result (input 0) is known when it runs: all that the products reach is computed, and the part asked for is cut out of it. SAME takes what is
 * too much from both sides, the odd row from the end.
 */
static uint32_t transpose_conv_open(struct call *c, uint32_t weights, struct tf_window w)
{
    struct build *b = c->b;
    enum tf_activation act = w.act;
    bool same = w.padding == TF_SAME;
    uint32_t zero = build_i64_scalar(b, 0), two = build_i64_scalar(b, 2);
    w.act = TF_ACT_NONE;
    w.padding = TF_VALID;
    uint32_t all = tf_conv_transpose(b, data_turned(c), weights, VALUE_NONE, &w, NULL);
    uint32_t size = spatial(c, lite_i64(c, 0), w.count), have = spatial(c, build_1(b, OP_Shape, all), w.count);
    uint32_t more = build_2(b, OP_Sub, have, size);
    uint32_t over = build_2(b, OP_Max, more, zero), lack = build_2(b, OP_Max, build_2(b, OP_Sub, size, have), zero);
    uint32_t begin = same ? build_2(b, OP_Div, over, two) : build_2(b, OP_Sub, over, over);
    uint32_t y = cut(c, lengthened(c, all, lack, w.count), begin, build_2(b, OP_Add, begin, size), w.count);
    uint32_t bias = lite_bias(c, 3, 2, 1);
    return tf_activate(b, bias == VALUE_NONE ? y : build_2(b, OP_Add, y, bias), act, 0.0f);
}

/* output_shape, weights, x, bias */
static void transpose_conv(struct call *c, struct tf_window *w, const int64_t *perm, uint32_t rank)
{
    const struct tensor *xt = lite_tensor(c, 2), *wt = lite_tensor(c, 1), *yt = lite_result(c, 0);
    int64_t size[3], dims[PEN_MAX_RANK];
    uint32_t count = 0;
    if (!xt || !wt || xt->shape.rank != (int32_t)rank || wt->shape.rank != (int32_t)rank) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its input and weights need %u dimensions", rank);
        return;
    }
    bool known = build_ints_of(c->b, lite_in(c, 0), dims, PEN_MAX_RANK, &count) && count == rank, open = false;
    for (uint32_t i = 0; i < w->count; i++) {
        size[i] = known ? dims[1 + i] : yt->shape.rank == (int32_t)rank ? yt->shape.dim[1 + i] : -1;
        open |= size[i] < 0;
    }
    uint32_t weights = build_transpose(c->b, lite_real_weights(c, 1, 2), perm, rank);
    if (open)
        lite_give_real(c, 0, transpose_conv_open(c, weights, *w));
    else
        lite_give_real(c, 0, tf_conv_transpose(c->b, data_turned(c), weights, lite_bias(c, 3, 2, 1), w, size));
}

void lower_transpose_conv(struct call *c)
{
    static const int64_t perm[] = {3, 0, 1, 2}; /* OHWI -> IOHW */
    struct tf_window w = tf_window_init(2);
    w.padding = lite_padding(c, 0);
    w.stride[0] = lite_option(c, 2, 0);
    w.stride[1] = lite_option(c, 1, 0);
    w.act = lite_activation(c, 3);
    transpose_conv(c, &w, perm, 4);
}

void lower_conv_3d_transpose(struct call *c)
{
    static const int64_t perm[] = {4, 3, 0, 1, 2}; /* DHWOI -> IODHW */
    struct tf_window w = tf_window_init(3);
    const struct tensor *wt = lite_tensor(c, 1);
    if (!wt || wt->shape.rank != 5) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its weights need 5 dimensions");
        return;
    }
    window_3d(c, &w, &wt->shape);
    transpose_conv(c, &w, perm, 5);
}

/* ---- pools ------------------------------------------------------------------------------------------------------------- */

static bool covers_all(const struct tensor *x, const struct tensor *y, const struct tf_window *w)
{
    return x->shape.dim[1] == w->kernel[0] && x->shape.dim[2] == w->kernel[1] && y->shape.rank == 4 &&
           y->shape.dim[1] == 1 && y->shape.dim[2] == 1;
}

/* The mean of each channel, requantised: x, x_scale, x_zero, y_scale, y_zero. */
static uint32_t quantised_mean(struct call *c, enum op op, const struct tf_window *w)
{
    uint32_t in[5] = {lite_in(c, 0)};
    lite_affine(c, lite_tensor(c, 0), &in[1], &in[2]);
    lite_affine(c, lite_result(c, 0), &in[3], &in[4]);
    uint32_t y = build_op(c->b, op, in, 5);
    if (op == OP_QLinearAveragePool)
        tf_window_attrs(c->b, w, true);
    else
        build_int(c->b, ATTR_layout, LAYOUT_NHWC);
    return lite_clamp(c, y, w->act);
}

void lower_pool(struct call *c)
{
    enum op op = (enum op)tflite_row_find(c->code)->op;
    struct tf_window w = tf_window_init(2);
    const struct tensor *x = lite_tensor(c, 0), *y = lite_result(c, 0);
    w.padding = lite_padding(c, 0);
    w.stride[0] = lite_option(c, CONV_STRIDE_H, 0);
    w.stride[1] = lite_option(c, CONV_STRIDE_W, 0);
    w.kernel[0] = lite_option(c, POOL_FILTER_H, 0);
    w.kernel[1] = lite_option(c, POOL_FILTER_W, 0);
    w.act = lite_activation(c, POOL_ACT);
    tf_window_check(c->b, &w);
    if (x->shape.rank != 4 || c->b->status != PEN_OK) {
        build_stop(c->b, PEN_ERR_CORRUPT, "a pool needs 4 dimensions");
        return;
    }
    bool integers = lite_quantised(c, 0) && lite_result_quantised(c, 0);
    if (integers && op == OP_MaxPool) {
        enum tf_activation act = w.act;
        w.act = TF_ACT_NONE;
        lite_give(c, 0, lite_clamp(c, tf_pool(c->b, op, lite_in(c, 0), &w), act));
    } else if (integers && op == OP_AveragePool && covers_all(x, y, &w)) {
        lite_give(c, 0, quantised_mean(c, OP_QLinearGlobalAveragePool, &w));
    } else if (op == OP_LpPool) { /* the root of the mean of squares */
        enum tf_activation act = w.act;
        uint32_t in = lite_real(c, 0);
        w.act = TF_ACT_NONE;
        uint32_t mean = tf_pool(c->b, OP_AveragePool, build_2(c->b, OP_Mul, in, in), &w);
        lite_give_real(c, 0, tf_activate(c->b, build_1(c->b, OP_Sqrt, mean), act, 0.0f));
    } else {
        lite_give_real(c, 0, tf_pool(c->b, op, lite_real(c, 0), &w));
    }
}

/* ---- matrices ------------------------------------------------------------------------------------------------------------ */

enum { DENSE_FORMAT = 1, DENSE_KEEP = 2, DENSE_ASYMMETRIC = 3 };

/* [rows, units] with the dimensions of the data in front of the last one, where the operator keeps them. */
static uint32_t like_data(struct call *c, uint32_t y, int64_t units)
{
    int32_t rank = lite_tensor(c, 0)->shape.rank, given = lite_result(c, 0)->shape.rank;
    bool keep = fb_bool(&c->options, DENSE_KEEP, false) || (given == rank && rank > 2);
    if (keep && rank != 2)
        return lite_tail(c, y, 0, &units, 1);
    return !keep && given == 1 ? build_reshape(c->b, y, (int64_t[]){-1}, 1) : y;
}

/* As a 1x1 convolution, so that one integer kernel serves both. */
static void dense_quantised(struct call *c, int64_t depth, int64_t units, enum tf_activation act)
{
    struct tf_window w = tf_window_init(2);
    struct shape ohwi = shape_of(4, (int64_t[]){units, 1, 1, depth});
    uint32_t x = build_reshape(c->b, lite_in(c, 0), (int64_t[]){-1, 1, 1, depth}, 4);
    w.act = act;
    uint32_t y = build_reshape(c->b, convolve(c, x, &ohwi, &w, WEIGHT_OHWI, 1), (int64_t[]){-1, units}, 2);
    lite_give(c, 0, like_data(c, y, units));
}

void lower_fully_connected(struct call *c)
{
    const struct tensor *x = lite_tensor(c, 0), *w = lite_tensor(c, 1);
    enum tf_activation act = lite_activation(c, 0);
    if (!w || w->shape.rank != 2 || !shape_known(&w->shape) || fb_int(&c->options, DENSE_FORMAT, 1, 0) != 0) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "its weights need 2 known dimensions and the default format");
        return;
    }
    int64_t units = w->shape.dim[0], depth = w->shape.dim[1], elements = shape_elements(&x->shape);
    if (depth < 1 || units < 1 || (elements >= 0 && elements % depth != 0)) {
        build_stop(c->b, PEN_ERR_CORRUPT, "weights of %lld do not suit its input", (long long)depth);
        return;
    }
    if (whole_quantised(c)) {
        dense_quantised(c, depth, units, act);
        return;
    }
    uint32_t rows = lite_real(c, 0);
    if (x->shape.rank != 2 || x->shape.dim[1] != depth)
        rows = build_reshape(c->b, rows, (int64_t[]){-1, depth}, 2);
    if (lite_hybrid(c, 0, 1))
        rows = lite_rounded(c, rows, 1, fb_bool(&c->options, DENSE_ASYMMETRIC, false));
    uint32_t y = build_3(c->b, OP_Gemm, rows, lite_real(c, 1), lite_bias(c, 2, 0, 1));
    build_int(c->b, ATTR_transB, 1);
    lite_give_real(c, 0, like_data(c, tf_fuse(c->b, y, act, 0.0f), units));
}

static uint32_t swap_last(struct call *c, uint32_t x, int32_t rank)
{
    int64_t perm[PEN_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return build_transpose(c->b, x, perm, (uint32_t)rank);
}

void lower_batch_matmul(struct call *c)
{
    const struct tensor *x = lite_tensor(c, 0), *y = lite_tensor(c, 1);
    if (!y) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks its second factor");
        return;
    }
    bool turned = fb_bool(&c->options, 0, false);
    uint32_t rows = lite_real(c, 0);
    if (lite_hybrid(c, 0, 1) && x->shape.rank >= 2) {
        rows = turned ? swap_last(c, rows, x->shape.rank) : rows;
        rows = lite_rounded(c, rows, -1, fb_bool(&c->options, 2, false));
        turned = false;
    }
    lite_give_real(
        c, 0,
        tf_matmul(c->b, rows, lite_real(c, 1), turned, fb_bool(&c->options, 1, false), x->shape.rank, y->shape.rank));
}

/* ids, table */
void lower_embedding(struct call *c)
{
    uint32_t in[] = {lite_real(c, 1), lite_in(c, 0)};
    lite_give_real(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}
