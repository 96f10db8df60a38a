/* Custom operators of MediaPipe's models. Their options are plain structs of 32-bit fields, read through the same accessor. */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static int64_t field(const struct call *c, unsigned index)
{
    return fb_list_int(&(struct fb_list){.f = c->custom_options.f,
                                         .at = c->custom_options.at,
                                         .count = c->custom_options.count / 4,
                                         .item_bytes = 4},
                       index);
}

/* padding (1 = SAME, 2 = VALID), stride width, stride height */
void lower_transpose_conv_bias(struct call *c)
{
    static const int64_t perm[] = {3, 0, 1, 2};
    struct tf_window w = tf_window_init(2);
    const struct tensor *x = lite_tensor(c, 0), *weights = lite_tensor(c, 1);
    if (c->custom_options.count < 12 || !weights || weights->shape.rank != 4 || x->shape.rank != 4) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its options are too short, or it lacks weights");
        return;
    }
    w.padding = field(c, 0) == 1 ? TF_SAME : TF_VALID;
    w.stride[1] = field(c, 1);
    w.stride[0] = field(c, 2);
    uint32_t turned = build_transpose(c->b, lite_real(c, 1), perm, 4);
    lite_give_real(c, 0, tf_conv_transpose(c->b, lite_real(c, 0), turned, lite_real(c, 2), &w, NULL));
}

/* TfLitePoolParams: padding, stride width, stride height, filter width, filter height */
static bool pool_window(struct call *c, struct tf_window *w)
{
    if (c->custom_options.count < 20) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its options are too short");
        return false;
    }
    w->padding = field(c, 0) == 1 ? TF_SAME : TF_VALID;
    w->stride[1] = field(c, 1);
    w->stride[0] = field(c, 2);
    w->kernel[1] = field(c, 3);
    w->kernel[0] = field(c, 4);
    tf_window_check(c->b, w);
    return c->b->status == PEN_OK;
}

/* Where SAME padding puts the window: how many rows or columns lie before the first. */
static int64_t pad_before(const struct tf_window *w, int axis, int64_t in, int64_t out)
{
    int64_t all = (out - 1) * w->stride[axis] + w->kernel[axis] - in;
    return w->padding == TF_SAME && all > 0 ? all / 2 : 0;
}

/* The first row or column of each window: stride * place - padding, as [1, n, 1, 1] or [1, 1, n, 1]. */
static uint32_t window_starts(struct build *b, const struct tf_window *w, int axis, int64_t in, int64_t out)
{
    uint32_t at = build_3(b, OP_Range, build_i64_scalar(b, 0), build_i64_scalar(b, out), build_i64_scalar(b, 1));
    at = build_2(b, OP_Mul, at, build_i64_scalar(b, w->stride[axis]));
    at = build_2(b, OP_Sub, at, build_i64_scalar(b, pad_before(w, axis, in, out)));
    return build_reshape(b, at, axis == 0 ? (int64_t[]){1, -1, 1, 1} : (int64_t[]){1, 1, -1, 1}, 4);
}

static bool images(struct call *c, const struct tensor *x, const struct tensor *y)
{
    if (x && y && x->shape.rank == 4 && y->shape.rank == 4 && x->shape.dim[3] > 0)
        return true;
    build_stop(c->b, PEN_ERR_CORRUPT, "it needs images of 4 dimensions");
    return false;
}

/* The second result tells, as a float, the place inside the window, row * width + column + 0.1. Ours counts in its channel: ((n C + c) H + h) W + w. */
void lower_pool_with_argmax(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    struct build *b = c->b;
    const struct tensor *x = lite_tensor(c, 0), *y = lite_result(c, 0);
    if (!pool_window(c, &w) || !images(c, x, y))
        return;
    uint32_t in = lite_real(c, 0), out[2];
    if (c->out.count < 2) {
        lite_give(c, 0, tf_pool(b, OP_MaxPool, in, &w));
        return;
    }
    int64_t h = x->shape.dim[1], wide = x->shape.dim[2];
    build_many(b, OP_MaxPool, &in, 1, out, 2);
    tf_window_attrs(b, &w, true);
    uint32_t columns = build_i64_scalar(b, wide), column = build_2(b, OP_Mod, out[1], columns);
    uint32_t row = build_2(b, OP_Mod, build_2(b, OP_Div, out[1], columns), build_i64_scalar(b, h));
    row = build_2(b, OP_Sub, row, window_starts(b, &w, 0, h, y->shape.dim[1]));
    column = build_2(b, OP_Sub, column, window_starts(b, &w, 1, wide, y->shape.dim[2]));
    uint32_t place = build_2(b, OP_Add, build_2(b, OP_Mul, row, build_i64_scalar(b, w.kernel[1])), column);
    lite_give(c, 0, out[0]);
    lite_give(c, 1, build_2(b, OP_Add, build_cast(b, place, PEN_DTYPE_F32), build_f32_scalar(b, 0.1f)));
}

/*
 * x and places inside windows; the result is larger by the window's size, zeros but where the places lead. What leads outside goes to a row that is cut off.
 */
void lower_max_unpooling(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    struct build *b = c->b;
    const struct tensor *x = lite_tensor(c, 0), *y = lite_result(c, 0);
    if (!pool_window(c, &w) || !images(c, x, y) || !lite_tensor(c, 1))
        return;
    int64_t h = x->shape.dim[1] * w.kernel[0], wide = x->shape.dim[2] * w.kernel[1], channels = x->shape.dim[3];
    if (x->shape.dim[0] != 1 || h > INT32_MAX || wide > INT32_MAX || h * wide > INT32_MAX ||
        h * wide * channels > INT32_MAX) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "more than one image, or too large a one");
        return;
    }
    uint32_t place = build_cast(b, lite_real(c, 1), PEN_DTYPE_I64), columns = build_i64_scalar(b, w.kernel[1]),
             zero = build_i64_scalar(b, 0);
    w.padding = TF_SAME; /* as if the result had been pooled to x */
    uint32_t row = build_2(b, OP_Add, build_2(b, OP_Div, place, columns), window_starts(b, &w, 0, h, x->shape.dim[1]));
    uint32_t column =
        build_2(b, OP_Add, build_2(b, OP_Mod, place, columns), window_starts(b, &w, 1, wide, x->shape.dim[2]));
    uint32_t rows_out =
        build_2(b, OP_Or, build_2(b, OP_Less, row, zero), build_2(b, OP_GreaterOrEqual, row, build_i64_scalar(b, h)));
    uint32_t columns_out = build_2(b, OP_Or, build_2(b, OP_Less, column, zero),
                                   build_2(b, OP_GreaterOrEqual, column, build_i64_scalar(b, wide)));
    uint32_t channel = build_3(b, OP_Range, zero, build_i64_scalar(b, channels), build_i64_scalar(b, 1));
    uint32_t pixel = build_2(b, OP_Add, build_2(b, OP_Mul, row, build_i64_scalar(b, wide)), column);
    uint32_t at = build_2(b, OP_Add, build_2(b, OP_Mul, pixel, build_i64_scalar(b, channels)), channel);
    int64_t all = h * wide * channels;
    at = build_3(b, OP_Where, build_2(b, OP_Or, rows_out, columns_out), build_i64_scalar(b, all), at);
    uint32_t empty = build_2(b, OP_Expand, build_f32_scalar(b, 0.0f), build_i64(b, (int64_t[]){all + 1}, 1));
    uint32_t flat = build_3(b, OP_ScatterND, empty, build_reshape(b, at, (int64_t[]){-1, 1}, 2),
                            build_reshape(b, lite_real(c, 0), (int64_t[]){-1}, 1));
    lite_give(c, 0, build_reshape(b, build_slice(b, flat, 0, 0, all, 1), (int64_t[]){1, h, wide, channels}, 4));
}

#define CUSTOM(name, lower)                                                                                            \
    {                                                                                                                  \
#name, KEPT_IMPORT(tflite, name, lower)                                                                        \
    }
static const struct {
    const char *name;
    lower_fn lower;
} customs[] = {
    CUSTOM(Convolution2DTransposeBias, lower_transpose_conv_bias),
    CUSTOM(Landmarks2TransformMatrix, lower_landmarks_matrix),
    CUSTOM(MaxPoolingWithArgmax2D, lower_pool_with_argmax),
    CUSTOM(MaxUnpooling2D, lower_max_unpooling),
    CUSTOM(TFLite_Detection_PostProcess, lower_detection),
    CUSTOM(TransformLandmarks, lower_transform_landmarks),
    CUSTOM(TransformTensorBilinear, lower_transform_tensor),
};

lower_fn tflite_custom_find(const struct fb_text *name)
{
    for (size_t i = 0; i < sizeof customs / sizeof customs[0]; i++) {
        if (strlen(customs[i].name) == name->bytes && memcmp(customs[i].name, name->at, name->bytes) == 0)
            return customs[i].lower;
    }
    return lite_list_find(name);
}

const char *tflite_custom_at(uint32_t index)
{
    return index < sizeof customs / sizeof customs[0] ? customs[index].name : NULL;
}
