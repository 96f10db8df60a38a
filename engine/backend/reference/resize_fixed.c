/*
 * Bytes: weights of 11 bits, rounding half up. Source: XNNPACK's s8 and u8 ibilinear, which TFLite runs; positions in single precision as there.
 * Integers of 16 bits: positions and weights of 10 bits, rounding half away from zero. Source: TFLite's ResizeBilinearInteger.
 */
#include "backend/reference/resize_fixed.h"

#include "backend/reference/element_io.h"

#include <math.h>

struct neighbours {
    int64_t low, high;
    int64_t weight; /* of high, of 2048 or 1024 */
};

static struct neighbours neighbours_wide(const struct node *n, int64_t in, int64_t out, int64_t i)
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    bool corners = node_text_is(n, key, "align_corners", false), half = node_text_is(n, key, "half_pixel", false);
    int64_t less = corners && out > 1 ? 1 : 0;
    int64_t scale = (1024 * (in - less) + (out - less) / 2) / (out - less);
    int64_t at = i * scale + (half ? scale / 2 - 512 : 0), high = (at + 1023) / 1024;
    struct neighbours r = {.low = at > 0 ? at / 1024 : 0, .high = high < in ? high : in - 1};
    r.weight = at - 1024 * r.low;
    return r;
}

static struct neighbours neighbours_of(const struct node *n, int64_t in, int64_t out, int64_t i)
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    bool corners = node_text_is(n, key, "align_corners", false), half = node_text_is(n, key, "half_pixel", false);
    int64_t less = corners && out != 1 ? 1 : 0;
    float scale = (float)(in - less) / (float)(out - less), at = (float)i * scale;
    if (half) {
        at = at + (0.5f * scale - 0.5f);
    }
    at = fminf(fmaxf(at, 0.0f), (float)(in - 1));
    struct neighbours r = {.low = (int64_t)at};
    r.high = r.low + 1 < in ? r.low + 1 : in - 1;
    r.weight = lrintf((at - (float)r.low) * 2048.0f);
    return r;
}

/* From 22 or 20 bits behind the point. */
static double rounded(int64_t sum, bool wide)
{
    int64_t half = INT64_C(1) << 19;
    if (wide) {
        return (double)((sum + (sum > 0 ? half : -half)) / (2 * half));
    }
    return (double)((sum + (INT64_C(1) << 21)) >> 22);
}

enum pen_status resize_fixed(struct kernel_call *k, const struct shape *out)
{
    const struct rt_value *x = &k->in[0];
    if (out->rank != 4 || out->dim[0] != x->shape.dim[0] || out->dim[3] != x->shape.dim[3]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "fixed-point resizing needs [batch, height, width, channels]");
    }
    int64_t h = x->shape.dim[1], w = x->shape.dim[2], c = x->shape.dim[3];
    bool wide = x->dtype == PEN_DTYPE_I16;
    int64_t one = wide ? 1024 : 2048;
    struct neighbours (*place)(const struct node *, int64_t, int64_t, int64_t) = wide ? neighbours_wide : neighbours_of;
    for (int64_t p = 0; p < out->dim[0] * out->dim[1] * out->dim[2]; p++) {
        int64_t image = p / (out->dim[1] * out->dim[2]);
        struct neighbours v = place(k->n, h, out->dim[1], p / out->dim[2] % out->dim[1]);
        struct neighbours u = place(k->n, w, out->dim[2], p % out->dim[2]);
        int64_t top = (image * h + v.low) * w, bottom = (image * h + v.high) * w;
        for (int64_t i = 0; i < c; i++) {
            int64_t tl = load_one_i64(x->data, x->dtype, (top + u.low) * c + i);
            int64_t tr = load_one_i64(x->data, x->dtype, (top + u.high) * c + i);
            int64_t bl = load_one_i64(x->data, x->dtype, (bottom + u.low) * c + i);
            int64_t br = load_one_i64(x->data, x->dtype, (bottom + u.high) * c + i);
            int64_t t = tl * one + (tr - tl) * u.weight, b = bl * one + (br - bl) * u.weight;
            double y = rounded(t * one + (b - t) * v.weight, wide);
            store_f64(k->out[0].data, k->out[0].dtype, p * c + i, 1, 1, &y);
        }
    }
    return PEN_OK;
}
