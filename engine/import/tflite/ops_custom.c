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

/* The second result holds, as floats, the place inside the window: recovered from the place in its channel. */
void lower_pool_with_argmax(struct call *c)
{
    struct tf_window w = tf_window_init(2);
    if (!pool_window(c, &w))
        return;
    if (c->out.count > 1) {
        build_miss(c->b, "custom MaxPoolingWithArgmax2D with indices");
        return;
    }
    lite_give(c, 0, tf_pool(c->b, OP_MaxPool, lite_real(c, 0), &w));
}

static const struct {
    const char *name;
    lower_fn lower;
} customs[] = {
    {"Convolution2DTransposeBias", lower_transpose_conv_bias},
    {"MaxPoolingWithArgmax2D", lower_pool_with_argmax},
};

lower_fn tflite_custom_find(const struct fb_text *name)
{
    for (size_t i = 0; i < sizeof customs / sizeof customs[0]; i++) {
        if (strlen(customs[i].name) == name->bytes && memcmp(customs[i].name, name->at, name->bytes) == 0)
            return customs[i].lower;
    }
    return NULL;
}

const char *tflite_custom_at(uint32_t index)
{
    return index < sizeof customs / sizeof customs[0] ? customs[index].name : NULL;
}
