/* Weights of 11 bits, rounding half up. Source: XNNPACK's s8 and u8 ibilinear, which TFLite runs; positions in single precision as there. */
#include "backend/reference/resize_fixed.h"

#include "backend/reference/element_io.h"

#include <math.h>

struct neighbours {
    int64_t low, high;
    int64_t weight; /* of high, of 2048 */
};

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

enum pen_status resize_fixed(struct kernel_call *k, const struct shape *out)
{
    const struct rt_value *x = &k->in[0];
    if (out->rank != 4 || out->dim[0] != x->shape.dim[0] || out->dim[3] != x->shape.dim[3]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "fixed-point resizing needs [batch, height, width, channels]");
    }
    int64_t h = x->shape.dim[1], w = x->shape.dim[2], c = x->shape.dim[3];
    for (int64_t p = 0; p < out->dim[0] * out->dim[1] * out->dim[2]; p++) {
        int64_t image = p / (out->dim[1] * out->dim[2]);
        struct neighbours v = neighbours_of(k->n, h, out->dim[1], p / out->dim[2] % out->dim[1]);
        struct neighbours u = neighbours_of(k->n, w, out->dim[2], p % out->dim[2]);
        int64_t top = (image * h + v.low) * w, bottom = (image * h + v.high) * w;
        for (int64_t i = 0; i < c; i++) {
            int64_t tl = load_one_i64(x->data, x->dtype, (top + u.low) * c + i);
            int64_t tr = load_one_i64(x->data, x->dtype, (top + u.high) * c + i);
            int64_t bl = load_one_i64(x->data, x->dtype, (bottom + u.low) * c + i);
            int64_t br = load_one_i64(x->data, x->dtype, (bottom + u.high) * c + i);
            int64_t t = tl * 2048 + (tr - tl) * u.weight, b = bl * 2048 + (br - bl) * u.weight;
            double y = (double)((t * 2048 + (b - t) * v.weight + (INT64_C(1) << 21)) >> 22);
            store_f64(k->out[0].data, k->out[0].dtype, p * c + i, 1, 1, &y);
        }
    }
    return PEN_OK;
}
