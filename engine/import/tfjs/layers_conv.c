/* Convolutions, pools, and layers that pad, crop or enlarge images. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tfjs/layers.h"

static void list_read(struct kcall *c, const char *field, uint32_t count, int64_t *ret)
{
    const cJSON *item = tfjs_json_get(c->l->config, field);
    if (item && tfjs_json_ints(item, ret, (int)count, (int)count) != (int)count)
        build_stop(c->b, PEN_ERR_CORRUPT, "its %s is no list of %u numbers", field, count);
}

static struct tf_window window_read(struct kcall *c, uint32_t count)
{
    struct tf_window w = tf_window_init(count);
    const char *padding = tfjs_json_text(c->l->config, "padding");
    w.channels_first = layer_channels_first(c);
    w.padding = padding && strcmp(padding, "same") == 0 ? TF_SAME : TF_VALID;
    list_read(c, "strides", count, w.stride);
    list_read(c, "dilation_rate", count, w.dilation);
    return w;
}

void layer_window(struct kcall *c, uint32_t count, struct tf_window *ret)
{
    *ret = window_read(c, count);
}

/* Shape of a weight of `rank` dimensions; NULL after a failure. */
static const struct shape *weight_shape(struct kcall *c, uint32_t weight, int32_t rank)
{
    const struct value *v = build_value(c->b, weight);
    if (v && v->shape.rank == rank)
        return &v->shape;
    build_stop(c->b, PEN_ERR_CORRUPT, "its weights need %d dimensions", rank);
    return NULL;
}

static uint32_t bias_of(struct kcall *c)
{
    return tfjs_json_bool(c->l->config, "use_bias", true) ? layer_weight_needed(c, "bias") : VALUE_NONE;
}

static void give_active(struct kcall *c, uint32_t y)
{
    layer_give(c, layer_activate(c, y, layer_activation(c, "activation")), c->in[0].rank);
}

static void conv(struct kcall *c)
{
    uint32_t count = (uint32_t)c->op, kernel = layer_weight_needed(c, "kernel");
    struct tf_window w = window_read(c, count);
    const char *padding = tfjs_json_text(c->l->config, "padding");
    const struct shape *shape = weight_shape(c, kernel, (int32_t)count + 2);
    int64_t groups = tfjs_json_int(c->l->config, "groups", 1);
    if (!shape)
        return;
    for (uint32_t i = 0; i < count; i++)
        w.kernel[i] = shape->dim[i];
    tf_window_check(c->b, &w);
    if (padding && strcmp(padding, "causal") == 0 && count == 1 && c->b->status == PEN_OK) {
        w.padding = TF_EXPLICIT;
        w.pads[0] = (w.kernel[0] - 1) * w.dilation[0];
    }
    give_active(c, tf_conv(c->b, c->in[0].value, kernel, bias_of(c), &w, WEIGHT_HWIO, groups));
}

static uint32_t depthwise_of(struct kcall *c, const char *name, struct tf_window *w, uint32_t bias)
{
    uint32_t kernel = layer_weight_needed(c, name);
    const struct shape *shape = weight_shape(c, kernel, (int32_t)w->count + 2);
    return shape ? tf_conv(c->b, c->in[0].value, kernel, bias, w, WEIGHT_HWIM, shape->dim[w->count]) : VALUE_NONE;
}

static void depthwise(struct kcall *c)
{
    struct tf_window w = window_read(c, (uint32_t)c->op);
    give_active(c, depthwise_of(c, "depthwise_kernel", &w, bias_of(c)));
}

static void separable(struct kcall *c)
{
    struct tf_window w = window_read(c, (uint32_t)c->op), point = tf_window_init((uint32_t)c->op);
    uint32_t deep = depthwise_of(c, "depthwise_kernel", &w, VALUE_NONE);
    point.channels_first = w.channels_first;
    give_active(c, tf_conv(c->b, deep, layer_weight_needed(c, "pointwise_kernel"), bias_of(c), &point, WEIGHT_HWIO, 1));
}

/* Weights [k..., out, in]. The output has in * stride positions, or what the kernel adds when nothing is cut. */
static void conv_transpose(struct kcall *c)
{
    static const int64_t perms[][5] = {{2, 1, 0}, {3, 2, 0, 1}, {4, 3, 0, 1, 2}};
    uint32_t count = (uint32_t)c->op, kernel = layer_weight_needed(c, "kernel");
    struct tf_window w = window_read(c, count);
    const struct shape *shape = weight_shape(c, kernel, (int32_t)count + 2);
    int64_t more[3] = {0};
    if (!shape)
        return;
    for (uint32_t i = 0; i < count; i++)
        more[i] = w.stride[i] > shape->dim[i] ? w.stride[i] - shape->dim[i] : 0;
    uint32_t turned = build_transpose(c->b, kernel, perms[count - 1], count + 2);
    uint32_t y = tf_conv_transpose(c->b, c->in[0].value, turned, bias_of(c), &w, NULL);
    if (more[0] || more[1] || more[2])
        build_ints(c->b, ATTR_output_padding, more, count);
    give_active(c, y);
}

/* ---- pools ------------------------------------------------------------------------------------------------------------------ */

/* op: spatial axes, + 8 for the maximum. */
static void pool(struct kcall *c)
{
    uint32_t count = (uint32_t)c->op & 7;
    struct tf_window w = window_read(c, count);
    for (uint32_t i = 0; i < count; i++)
        w.kernel[i] = 2;
    list_read(c, "pool_size", count, w.kernel);
    if (!tfjs_json_get(c->l->config, "strides"))
        memcpy(w.stride, w.kernel, sizeof w.stride);
    layer_give(c, tf_pool(c->b, c->op & 8 ? OP_MaxPool : OP_AveragePool, c->in[0].value, &w), c->in[0].rank);
}

static void global_pool(struct kcall *c)
{
    int64_t axes[3], count = c->op & 7, first = layer_channels_first(c) ? 2 : 1;
    bool keep = tfjs_json_bool(c->l->config, "keepdims", false);
    for (int64_t i = 0; i < count; i++)
        axes[i] = first + i;
    uint32_t list = build_i64(c->b, axes, (uint32_t)count);
    uint32_t y = build_reduce(c->b, c->op & 8 ? OP_ReduceMax : OP_ReduceMean, c->in[0].value, list, keep);
    layer_give(c, y, keep ? c->in[0].rank : 2);
}

/* ---- images -------------------------------------------------------------------------------------------------------------------- */

/* One number, one per axis, or two per axis, as begin and end of each axis. */
static bool sides_read(struct kcall *c, const char *field, uint32_t count, int64_t def, int64_t *begin, int64_t *end)
{
    const cJSON *item = tfjs_json_get(c->l->config, field), *part;
    int64_t pair[2];
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        begin[i] = end[i] = def;
    if (count == 1 && tfjs_json_ints(item, pair, 2, 2) == 2) {
        begin[0] = pair[0];
        end[0] = pair[1];
    } else if (tfjs_json_integer(item, &pair[0])) {
        for (uint32_t i = 0; i < count; i++)
            begin[i] = end[i] = pair[0];
    } else if (cJSON_IsArray(item)) {
        cJSON_ArrayForEach(part, item)
        {
            if (at >= count || tfjs_json_ints(part, pair, 2, 2) != 2)
                at = count + 1;
            else {
                begin[at] = pair[0];
                end[at++] = pair[1];
            }
        }
    }
    for (uint32_t i = 0; i < count && at <= count; i++) {
        if (begin[i] < 0 || end[i] < 0 || begin[i] > INT32_MAX || end[i] > INT32_MAX)
            at = count + 1;
    }
    if (at > count)
        build_stop(c->b, PEN_ERR_CORRUPT, "its %s makes no sense", field);
    return at <= count;
}

static void zero_padding(struct kcall *c)
{
    uint32_t count = (uint32_t)c->op, rank = count + 2, first = layer_channels_first(c) ? 2 : 1;
    int64_t begin[3], end[3], pads[2 * PEN_MAX_RANK] = {0};
    if (!sides_read(c, "padding", count, 1, begin, end))
        return;
    for (uint32_t i = 0; i < count; i++) {
        pads[first + i] = begin[i];
        pads[rank + first + i] = end[i];
    }
    layer_give(c, build_2(c->b, OP_Pad, c->in[0].value, build_i64(c->b, pads, 2 * rank)), c->in[0].rank);
}

static void cropping(struct kcall *c)
{
    uint32_t count = (uint32_t)c->op, first = layer_channels_first(c) ? 2 : 1, x = c->in[0].value;
    int64_t begin[3], end[3];
    if (!sides_read(c, "cropping", count, count == 1 ? 1 : 0, begin, end))
        return;
    for (uint32_t i = 0; i < count; i++)
        x = build_slice(c->b, x, first + i, begin[i], end[i] == 0 ? INT64_MAX : -end[i], 1);
    layer_give(c, x, c->in[0].rank);
}

static void up_sampling(struct kcall *c)
{
    uint32_t count = (uint32_t)c->op, first = layer_channels_first(c) ? 2 : 1;
    const char *how = tfjs_json_text(c->l->config, "interpolation");
    int64_t size[3] = {2, 2, 2};
    float scales[5] = {1, 1, 1, 1, 1};
    list_read(c, "size", count, size);
    for (uint32_t i = 0; i < count; i++) {
        if (size[i] < 1 || size[i] > 65536)
            build_stop(c->b, PEN_ERR_INVALID, "an enlargement by %lld", (long long)size[i]);
        scales[first + i] = (float)size[i];
    }
    uint32_t y = build_3(c->b, OP_Resize, c->in[0].value, VALUE_NONE, build_f32(c->b, scales, count + 2));
    build_text(c->b, ATTR_mode, how && strcmp(how, "bilinear") == 0 ? "linear" : "nearest");
    build_text(c->b, ATTR_coordinate_transformation_mode, "asymmetric");
    build_text(c->b, ATTR_nearest_mode, "floor");
    layer_give(c, y, c->in[0].rank);
}

/* TF.js aligns corners unless the aspect ratio is kept by cropping. */
static void resizing(struct kcall *c)
{
    const char *how = tfjs_json_text(c->l->config, "interpolation");
    int64_t size[] = {tfjs_json_int(c->l->config, "height", 0), tfjs_json_int(c->l->config, "width", 0)};
    if (size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX)
        build_stop(c->b, PEN_ERR_INVALID, "a size of %lld x %lld", (long long)size[0], (long long)size[1]);
    bool corners = !tfjs_json_bool(c->l->config, "crop_to_aspect_ratio", false);
    layer_give(
        c,
        tf_resize(c->b, c->in[0].value, build_i64(c->b, size, 2), how && strcmp(how, "nearest") == 0, corners, false),
        c->in[0].rank);
}

/* The middle, its odd row or column cut at the end; an image that is too small is enlarged. */
static void center_crop(struct kcall *c)
{
    struct build *b = c->b;
    uint32_t x = c->in[0].value, first = c->in[0].rank == 3 ? 0 : 1;
    int64_t size[] = {tfjs_json_int(c->l->config, "height", 0), tfjs_json_int(c->l->config, "width", 0)};
    int64_t have[] = {build_dim(b, x, first), build_dim(b, x, first + 1)};
    if (size[0] < 1 || size[1] < 1 || have[0] < 0 || have[1] < 0) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "the sizes of its image must be known");
        return;
    }
    if (have[0] < size[0] || have[1] < size[1]) {
        layer_give(c, tf_resize(b, x, build_i64(b, size, 2), false, false, false), c->in[0].rank);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        int64_t from = (have[i] - size[i]) / 2;
        x = build_slice(b, x, first + i, from, from + size[i], 1);
    }
    layer_give(c, x, c->in[0].rank);
}

const struct layer_row layers_conv[] = {
    LAYER_ROW(Conv1D, conv, 1),
    LAYER_ROW(Conv2D, conv, 2),
    LAYER_ROW(Conv3D, conv, 3),
    LAYER_ROW(Conv1DTranspose, conv_transpose, 1),
    LAYER_ROW(Conv2DTranspose, conv_transpose, 2),
    LAYER_ROW(Conv3DTranspose, conv_transpose, 3),
    LAYER_ROW(DepthwiseConv1D, depthwise, 1),
    LAYER_ROW(DepthwiseConv2D, depthwise, 2),
    LAYER_ROW(SeparableConv1D, separable, 1),
    LAYER_ROW(SeparableConv2D, separable, 2),
    LAYER_ROW(AveragePooling1D, pool, 1),
    LAYER_ROW(AveragePooling2D, pool, 2),
    LAYER_ROW(AveragePooling3D, pool, 3),
    LAYER_ROW(MaxPooling1D, pool, 9),
    LAYER_ROW(MaxPooling2D, pool, 10),
    LAYER_ROW(MaxPooling3D, pool, 11),
    LAYER_ROW(GlobalAveragePooling1D, global_pool, 1),
    LAYER_ROW(GlobalAveragePooling2D, global_pool, 2),
    LAYER_ROW(GlobalAveragePooling3D, global_pool, 3),
    LAYER_ROW(GlobalMaxPooling1D, global_pool, 9),
    LAYER_ROW(GlobalMaxPooling2D, global_pool, 10),
    LAYER_ROW(GlobalMaxPooling3D, global_pool, 11),
    LAYER_ROW(ZeroPadding1D, zero_padding, 1),
    LAYER_ROW(ZeroPadding2D, zero_padding, 2),
    LAYER_ROW(ZeroPadding3D, zero_padding, 3),
    LAYER_ROW(Cropping1D, cropping, 1),
    LAYER_ROW(Cropping2D, cropping, 2),
    LAYER_ROW(Cropping3D, cropping, 3),
    LAYER_ROW(UpSampling1D, up_sampling, 1),
    LAYER_ROW(UpSampling2D, up_sampling, 2),
    LAYER_ROW(UpSampling3D, up_sampling, 3),
    LAYER_ROW(CenterCrop, center_crop, 0),
    LAYER_ROW(Resizing, resizing, 0),
    {NULL, NULL, 0},
};
