/* Images read at computed places, pools that tell places, and dilation. */
#include <math.h>
#include <string.h>

#include "import/build/sample.h"
#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

/* image, boxes, which image, size */
static void crop_and_resize(struct call *c)
{
    char method[16];
    bool nearest = strcmp(js_attr_text(c, "method", method, sizeof method), "nearest") == 0;
    js_give(c, 0,
            tf_crop_and_resize(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), js_in(c, 3), nearest,
                               js_attr_float(c, "extrapolation_value", 0.0f)));
}

/* images, transforms, size, fill */
static void project(struct call *c)
{
    char method[16], mode[16];
    struct tf_sampling how = {.nearest =
                                  strcmp(js_attr_text(c, "interpolation", method, sizeof method), "NEAREST") == 0,
                              .fill = c->in_count > 3 ? js_in(c, 3) : build_f32_scalar(c->b, 0.0f)};
    (void)js_attr_text(c, "fill_mode", mode, sizeof mode);
    how.outside = strcmp(mode, "NEAREST") == 0 ? TF_OUTSIDE_CLAMP : TF_OUTSIDE_CORNER;
    if (strcmp(mode, "REFLECT") == 0 || strcmp(mode, "WRAP") == 0) {
        build_miss(c->b, "ImageProjectiveTransformV3 with REFLECT or WRAP");
        return;
    }
    js_give(c, 0, tf_project(c->b, js_in(c, 0), js_in(c, 1), js_in(c, 2), &how));
}

/* Ours counts channel after channel, ((n C + c) H + h) W + w; TensorFlow's is ((n H + h) W + w) C + c, with or without n. */
static uint32_t argmax_turned(struct build *b, uint32_t x, uint32_t at, bool with_batch)
{
    uint32_t h = tf_size_of(b, x, 1), w = tf_size_of(b, x, 2), channels = tf_size_of(b, x, 3);
    uint32_t column = build_2(b, OP_Mod, at, w), rest = build_2(b, OP_Div, at, w);
    uint32_t row = build_2(b, OP_Mod, rest, h), plane = build_2(b, OP_Div, rest, h);
    uint32_t channel = build_2(b, OP_Mod, plane, channels);
    if (with_batch)
        row = build_2(b, OP_Add, build_2(b, OP_Mul, build_2(b, OP_Div, plane, channels), h), row);
    uint32_t pixel = build_2(b, OP_Add, build_2(b, OP_Mul, row, w), column);
    return build_cast(b, build_2(b, OP_Add, build_2(b, OP_Mul, pixel, channels), channel), PEN_DTYPE_I32);
}

static bool window_of(struct call *c, const char *kernel, const char *dilations, struct tf_window *w)
{
    static const char *const names[] = JS_ROW(strides, NULL, NULL);
    const char *lists[3] = {names[0], kernel, dilations};
    int64_t *to[3] = {w->stride, w->kernel, w->dilation}, items[4];
    char padding[16];
    for (int i = 0; i < 3; i++) {
        int count = lists[i] ? js_attr_ints(c, lists[i], items, 4) : -1;
        if (count == 4) {
            to[i][0] = items[1];
            to[i][1] = items[2];
        }
    }
    w->padding = strcmp(js_attr_text(c, "padding", padding, sizeof padding), "SAME") == 0 ? TF_SAME : TF_VALID;
    tf_window_check(c->b, w);
    return c->b->status == PEN_OK;
}

static void pool_with_argmax(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    uint32_t x = js_in(c, 0), out[2];
    if (!window_of(c, "ksize", NULL, &w))
        return;
    build_many(c->b, OP_MaxPool, &x, 1, out, 2);
    tf_window_attrs(c->b, &w, true);
    js_give(c, 0, out[0]);
    js_give(c, 1, argmax_turned(c->b, x, out[1], js_attr_bool(c, "include_batch_in_index", false)));
}

/* Pads so that ceil(size / stride) windows fit, the odd one at the end: [rank, 2]. */
static uint32_t same_pads(struct build *b, uint32_t x, const struct tf_window *w)
{
    uint32_t zeros = build_i64(b, (int64_t[]){0, 0}, 2), parts[4] = {zeros, zeros, zeros, zeros};
    for (int64_t i = 0; i < 2; i++) {
        int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1, s = w->stride[i];
        uint32_t size = build_reshape(b, tf_size_of(b, x, 1 + i), (int64_t[]){1}, 1), step = build_i64(b, &s, 1);
        uint32_t before = build_2(b, OP_Div, build_2(b, OP_Sub, size, build_i64(b, (int64_t[]){1}, 1)), step);
        uint32_t reach = build_2(b, OP_Add, build_2(b, OP_Mul, before, step), build_i64(b, &span, 1));
        uint32_t all = build_2(b, OP_Max, build_2(b, OP_Sub, reach, size), build_i64(b, (int64_t[]){0}, 1));
        uint32_t begin = build_2(b, OP_Div, all, build_i64(b, (int64_t[]){2}, 1));
        uint32_t pair[] = {begin, build_2(b, OP_Sub, all, begin)};
        parts[1 + i] = build_axis_op(b, OP_Concat, pair, 2, 0);
    }
    return build_reshape(b, build_axis_op(b, OP_Concat, parts, 4, 0), (int64_t[]){4, 2}, 2);
}

/* The part of x that kernel place (i, k) meets: every stride-th row and column, as many as there are results. */
static uint32_t met_by(struct build *b, uint32_t x, const struct tf_window *w, int64_t i, int64_t k)
{
    int64_t at[2] = {i * w->dilation[0], k * w->dilation[1]};
    for (int64_t axis = 0; axis < 2; axis++) {
        int64_t left = (w->kernel[axis] - 1) * w->dilation[axis] - at[axis];
        x = build_slice(b, x, 1 + axis, at[axis], left == 0 ? INT64_MAX : -left, w->stride[axis]);
    }
    return x;
}

/* y = max over the window of x + filter. Filter [h, w, channels]. */
static void dilation(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    struct build *b = c->b;
    uint32_t x = js_in(c, 0), filter = js_in(c, 1), y = VALUE_NONE;
    w.kernel[0] = build_dim(b, filter, 0);
    w.kernel[1] = build_dim(b, filter, 1);
    if (!window_of(c, NULL, "rates", &w))
        return;
    if (w.kernel[0] * w.kernel[1] > 1024) {
        build_stop(b, PEN_ERR_TOO_LARGE, "a dilation of %lld x %lld", (long long)w.kernel[0], (long long)w.kernel[1]);
        return;
    }
    if (w.padding == TF_SAME)
        x = tf_pad(b, x, same_pads(b, x, &w), "constant", build_f32_scalar(b, -INFINITY));
    for (int64_t i = 0; i < w.kernel[0]; i++) {
        for (int64_t k = 0; k < w.kernel[1]; k++) {
            uint32_t row = build_slice(b, filter, 0, i, i + 1, 1), term = build_slice(b, row, 1, k, k + 1, 1);
            uint32_t sum = build_2(b, OP_Add, met_by(b, x, &w, i, k), term);
            y = y == VALUE_NONE ? sum : build_2(b, OP_Max, y, sum);
        }
    }
    js_give(c, 0, y);
}

const struct tfjs_row js_rows_image[] = {
    JS_ROW(CropAndResize, crop_and_resize, 0),
    JS_ROW(Dilation2D, dilation, 0),
    JS_ROW(ImageProjectiveTransformV3, project, 0),
    JS_ROW(MaxPoolWithArgmax, pool_with_argmax, 0),
    {NULL, NULL, 0},
};
