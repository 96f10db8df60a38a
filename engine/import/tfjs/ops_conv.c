/* Convolutions and pools. Weights of Conv2D are HWIO, depthwise ones HWIM. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

/* strides, dilations and the like: one number per axis of the data. Gives the spatial ones. */
static void spatial_list(struct call *c, const struct tf_window *w, const char *name, int64_t *ret)
{
    int64_t items[8];
    int count = js_attr_ints(c, name, items, 8), first = w->channels_first ? 2 : 1;
    if (count < 0 || count == 0)
        return; /* absent: the defaults stay */
    if (count == (int)w->count)
        first = 0;
    else if (count != (int)w->count + 2)
        build_stop(c->b, PEN_ERR_INVALID, "attribute %s has %d numbers for %u axes", name, count, w->count);
    for (uint32_t i = 0; i < w->count && c->b->status == PEN_OK; i++)
        ret[i] = items[first + (int)i];
}

static void padding_read(struct call *c, struct tf_window *w)
{
    char text[16];
    int64_t pads[2 * 8];
    (void)js_attr_text(c, "padding", text, sizeof text);
    w->padding = strcmp(text, "SAME") == 0 ? TF_SAME : TF_VALID;
    if (strcmp(text, "EXPLICIT") != 0)
        return;
    int count = js_attr_ints(c, "explicit_paddings", pads, 16), first = w->channels_first ? 2 : 1;
    w->padding = TF_EXPLICIT;
    if (count != 2 * ((int)w->count + 2)) {
        build_stop(c->b, PEN_ERR_INVALID, "explicit paddings of %d numbers for %u axes", count, w->count);
        return;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        w->pads[i] = pads[2 * (first + (int)i)];
        w->pads[w->count + i] = pads[2 * (first + (int)i) + 1];
    }
}

static struct tf_window window_read(struct call *c, uint32_t count)
{
    char format[8];
    struct tf_window w = tf_window_init(count);
    (void)js_attr_text(c, "data_format", format, sizeof format);
    w.channels_first = strcmp(format, "NCHW") == 0 || strcmp(format, "NCDHW") == 0;
    spatial_list(c, &w, "strides", w.stride);
    spatial_list(c, &w, "dilations", w.dilation);
    if (count == 1) { /* Conv1D: numbers instead of lists */
        w.stride[0] = js_attr_int(c, "stride", w.stride[0]);
        w.dilation[0] = js_attr_int(c, "dilation", w.dilation[0]);
    }
    padding_read(c, &w);
    return w;
}

static void give_fused(struct call *c, uint32_t y, const struct fused *f)
{
    if (f->prelu)
        y = build_2(c->b, OP_PRelu, y, js_in(c, 3));
    js_give(c, 0, y);
}

/* TensorFlow's weights tell how many channels a group reads; TF.js itself has no groups. */
static int64_t groups_of(struct call *c, const struct tf_window *w)
{
    const struct value *x = build_value(c->b, js_in(c, 0)), *weights = build_value(c->b, js_in(c, 1));
    int32_t rank = x ? x->shape.rank : -1;
    if (rank < 3 || !weights || weights->shape.rank != rank)
        return 1;
    int64_t channels = x->shape.dim[w->channels_first ? 1 : rank - 1], each = weights->shape.dim[rank - 2];
    return channels > 0 && each > 0 && channels % each == 0 ? channels / each : 1;
}

static void conv(struct call *c)
{
    struct tf_window w = window_read(c, (uint32_t)c->op);
    struct fused f = js_fused(c);
    w.act = f.prelu ? TF_ACT_NONE : f.act;
    w.alpha = f.alpha;
    uint32_t bias = f.bias ? js_in(c, 2) : VALUE_NONE;
    give_fused(c, tf_conv(c->b, js_in(c, 0), js_in(c, 1), bias, &w, WEIGHT_HWIO, groups_of(c, &w)), &f);
}

static void depthwise(struct call *c)
{
    struct tf_window w = window_read(c, 2);
    struct fused f = js_fused(c);
    const struct value *weights = build_value(c->b, js_in(c, 1));
    if (!weights || weights->shape.rank != 4 || weights->shape.dim[2] < 1) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "depthwise weights must be constant with 4 dimensions");
        return;
    }
    int64_t channels = weights->shape.dim[2];
    w.act = f.prelu ? TF_ACT_NONE : f.act;
    w.alpha = f.alpha;
    uint32_t bias = f.bias ? js_in(c, 2) : VALUE_NONE;
    give_fused(c, tf_conv(c->b, js_in(c, 0), js_in(c, 1), bias, &w, WEIGHT_HWIM, channels), &f);
}

/* output shape, weights [k..., out, in], x */
static void conv_backprop(struct call *c)
{
    static const int64_t perm_2d[] = {3, 2, 0, 1}, perm_3d[] = {4, 3, 0, 1, 2};
    uint32_t spatial = (uint32_t)c->op, count = 0;
    struct tf_window w = window_read(c, spatial);
    int64_t shape[5];
    bool known = build_ints_of(c->b, js_in(c, 0), shape, 5, &count) && count == spatial + 2;
    uint32_t weights = build_transpose(c->b, js_in(c, 1), spatial == 2 ? perm_2d : perm_3d, spatial + 2);
    js_give(c, 0,
            tf_conv_transpose(c->b, js_in(c, 2), weights, VALUE_NONE, &w,
                              known ? shape + (w.channels_first ? 2 : 1) : NULL));
}

static void pool(struct call *c, enum op op, uint32_t spatial)
{
    struct tf_window w = window_read(c, spatial);
    spatial_list(c, &w, "ksize", w.kernel);
    js_give(c, 0, tf_pool(c->b, op, js_in(c, 0), &w));
}

static void pool_2d(struct call *c)
{
    pool(c, (enum op)c->op, 2);
}

static void pool_3d(struct call *c)
{
    pool(c, (enum op)c->op, 3);
}

static void bias_add(struct call *c)
{
    char format[8];
    uint32_t bias = js_in(c, 1);
    if (strcmp(js_attr_text(c, "data_format", format, sizeof format), "NCHW") == 0)
        bias = build_reshape(c->b, bias, (int64_t[]){-1, 1, 1}, 3);
    js_give(c, 0, build_2(c->b, OP_Add, js_in(c, 0), bias));
}

/* ---- images ------------------------------------------------------------------------------------------------------------ */

static void resize(struct call *c)
{
    bool corners = js_attr_bool(c, "align_corners", false), half = js_attr_bool(c, "half_pixel_centers", false);
    uint32_t x = js_in(c, 0);
    if (c->op == 0 && js_integers(c))
        x = build_cast(c->b, x, PEN_DTYPE_F32); /* bilinear gives floats */
    js_give(c, 0, tf_resize(c->b, x, js_in(c, 1), c->op == 1, corners, half));
}

/* boxes, scores, most, overlap, score, sigma */
static void nms(struct call *c)
{
    struct build *b = c->b;
    uint32_t scores = VALUE_NONE;
    struct tf_nms n = {.boxes = js_in(c, 0),
                       .scores = js_in(c, 1),
                       .most = js_in(c, 2),
                       .overlap =
                           c->op == 1 ? build_f32_scalar(b, js_attr_float(c, "iou_threshold", 0.5f)) : js_in(c, 3),
                       .score = c->op >= 3 ? js_in(c, 4) : VALUE_NONE};
    if (c->op == 5 && !build_f32_of(b, js_in(c, 5), &n.sigma)) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "its sigma must be constant");
        return;
    }
    uint32_t kept = tf_non_max_suppression(b, &n, c->op == 5 ? &scores : NULL), count = build_1(b, OP_Shape, kept);
    if (c->op == 4 && js_attr_bool(c, "pad_to_max_output_size", false)) {
        uint32_t most = build_reshape(b, build_cast(b, js_in(c, 2), PEN_DTYPE_I64), (int64_t[]){1}, 1);
        uint32_t pads[] = {build_i64(b, (int64_t[]){0}, 1), build_2(b, OP_Sub, most, count)};
        kept = build_2(b, OP_Pad, kept, build_axis_op(b, OP_Concat, pads, 2, 0));
    }
    js_give(c, 0, kept);
    uint32_t number = build_squeeze(b, build_cast(b, count, PEN_DTYPE_I32), 0);
    if (c->op == 4)
        js_give(c, 1, number);
    if (c->op == 5) {
        js_give(c, 1, scores);
        js_give(c, 2, number);
    }
}

const struct tfjs_row js_rows_conv[] = {
    JS_ROW(Conv1D, conv, 1),
    JS_ROW(Conv2D, conv, 2),
    JS_ROW(_FusedConv2D, conv, 2),
    JS_ROW(Conv3D, conv, 3),
    JS_ROW(Conv2DBackpropInput, conv_backprop, 2),
    JS_ROW(Conv3DBackpropInputV2, conv_backprop, 3),
    JS_ROW(DepthwiseConv2d, depthwise, 0),
    JS_ROW(DepthwiseConv2dNative, depthwise, 0),
    JS_ROW(FusedDepthwiseConv2dNative, depthwise, 0),
    JS_ROW(AvgPool, pool_2d, OP_AveragePool),
    JS_ROW(MaxPool, pool_2d, OP_MaxPool),
    JS_ROW(AvgPool3D, pool_3d, OP_AveragePool),
    JS_ROW(MaxPool3D, pool_3d, OP_MaxPool),
    JS_ROW(BiasAdd, bias_add, 0),
    JS_ROW(ResizeBilinear, resize, 0),
    JS_ROW(ResizeNearestNeighbor, resize, 1),
    JS_ROW(NonMaxSuppression, nms, 1),
    JS_ROW(NonMaxSuppressionV2, nms, 2),
    JS_ROW(NonMaxSuppressionV3, nms, 3),
    JS_ROW(NonMaxSuppressionV4, nms, 4),
    JS_ROW(NonMaxSuppressionV5, nms, 5),
    {NULL, NULL, 0},
};
