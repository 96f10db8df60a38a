/* Resize: separable interpolation, axis by axis in double. Source: ONNX Resize (coordinate transformations, nearest, linear, cubic, antialias). */
#include "backend/reference/lanes.h"
#include "backend/reference/resize_fixed.h"
#include "backend/resize.h"

#include <math.h>
#include <string.h>

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };

struct resize {
    enum resize_mode mode;
    bool antialias, exclude_outside, crop; /* crop: tf_crop_and_resize */
    double cubic_a, extrapolation;
    double scale[PEN_MAX_RANK], roi_start[PEN_MAX_RANK], roi_end[PEN_MAX_RANK];
    bool is_axis[PEN_MAX_RANK];
    struct shape out;
};

/* The input elements that make one output element along an axis. */
struct taps {
    int64_t first, count; /* may reach outside: indices are clamped */
    double *weights;
    bool outside; /* of a crop: gets the extrapolation value */
};

/* x / scale; of the nearest element with the runtimes' floats, where 3 / 0.6f is 5. by_step: times in / out. */
static double place(const struct kernel_call *k, const struct resize *r, int32_t d, double x)
{
    if (r->mode != RESIZE_NEAREST) {
        return x / r->scale[d];
    }
    if (node_int(k->n, ATTR_by_step, 0) != 0) {
        return (double)((float)x * ((float)k->in[0].shape.dim[d] / (float)r->out.dim[d]));
    }
    return (double)((float)x / (float)r->scale[d]);
}

static double between_ends(const struct node *n, const struct resize *r, double in, double length, double x)
{
    float last = (float)(in - 1.0), ends = (float)(length - 1.0);
    if (r->mode != RESIZE_NEAREST) {
        return x * (in - 1.0) / (length - 1.0);
    }
    return (double)(node_int(n, ATTR_by_step, 0) != 0 ? (float)x * (last / ends) : (float)x * last / ends);
}

/* Both middles lie on each other, whatever `out` was cut to. */
static double between_middles(const struct resize *r, double in, double out, double scale, double x)
{
    if (r->mode != RESIZE_NEAREST) {
        return in / 2.0 * (1.0 - out / (scale * in)) + (x + 0.5) / scale - 0.5;
    }
    const float factor = (float)scale, adjustment = (float)out / (factor * (float)in);
    const float off = (float)in / 2.0f * (1.0f - adjustment);
    return (double)(float)((double)off + (x + 0.5) / (double)factor - 0.5);
}

/* Position in input coordinates of output index i. */
static double source_of(const struct kernel_call *k, const struct resize *r, int32_t d, int64_t i)
{
    double in = (double)k->in[0].shape.dim[d], out = (double)r->out.dim[d], x = (double)i, scale = r->scale[d];
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    if (node_text_is(k->n, key, "asymmetric", false)) {
        return place(k, r, d, x);
    }
    if (node_text_is(k->n, key, "align_corners", false)) {
        double length = resize_counts_whole(k->n) ? out : scale * in;
        return length == 1.0 ? 0.0 : between_ends(k->n, r, in, length, x);
    }
    if (node_text_is(k->n, key, "pytorch_half_pixel", false)) {
        return out == 1.0 ? 0.0 : place(k, r, d, x + 0.5) - 0.5;
    }
    if (node_text_is(k->n, key, "half_pixel_symmetric", false)) {
        return between_middles(r, in, out, scale, x);
    }
    if (node_text_is(k->n, key, "tf_half_pixel_for_nn", false)) {
        return place(k, r, d, x + 0.5);
    }
    if (r->crop) {
        double start = r->roi_start[d], end = r->roi_end[d];
        return out == 1.0 ? 0.5 * (start + end) * (in - 1.0)
                          : start * (in - 1.0) + x * (end - start) * (in - 1.0) / (out - 1.0);
    }
    return place(k, r, d, x + 0.5) - 0.5; /* half_pixel */
}

static int64_t nearest_of(const struct node *n, double x)
{
    double near = node_int(n, ATTR_by_step, 0) != 0 ? 0.0 : RESIZE_HALF;
    if (node_text_is(n, ATTR_nearest_mode, "floor", false)) {
        return (int64_t)floor(x);
    }
    if (node_text_is(n, ATTR_nearest_mode, "ceil", false)) {
        return (int64_t)ceil(x);
    }
    if (node_text_is(n, ATTR_nearest_mode, "round_prefer_ceil", false)) {
        return (int64_t)floor(x + 0.5 + near);
    }
    return (int64_t)ceil(x - 0.5 - near); /* round_prefer_floor */
}

/* Keys' cubic convolution kernel with parameter a. */
static double cubic_weight(double t, double a)
{
    t = fabs(t);
    if (t <= 1.0) {
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    }
    return t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a : 0.0;
}

/* Fills weights for the neighbours of x; antialiasing widens the kernel by 1 / scale. Normalised to 1. */
static void taps_weigh(const struct resize *r, double x, double scale, int64_t dim, struct taps *t)
{
    double stretch = r->antialias && scale < 1.0 ? scale : 1.0, sum = 0.0;
    double floor_x = floor(x), reach = (r->mode == RESIZE_CUBIC ? 2.0 : 1.0) / stretch;
    int64_t start = (int64_t)floor(-reach) + 1;
    t->first = (int64_t)floor_x + start;
    t->count = 2 - 2 * start;
    for (int64_t i = 0; i < t->count; i++) {
        double distance = ((double)(t->first + i) - x) * stretch;
        double w = r->mode == RESIZE_CUBIC ? cubic_weight(distance, r->cubic_a) : fmax(0.0, 1.0 - fabs(distance));
        bool outside = t->first + i < 0 || t->first + i >= dim;
        t->weights[i] = r->exclude_outside && outside ? 0.0 : w;
        sum += t->weights[i];
    }
    for (int64_t i = 0; i < t->count && sum != 0.0; i++) {
        t->weights[i] /= sum;
    }
}

/* One axis: y[outer, i, inner] = sum of weights * x. */
static enum pen_status resize_axis(struct kernel_call *k, const struct resize *r, int32_t d, const struct shape *now,
                                   const double *x, double *y)
{
    struct lanes l = lanes_of(now, d);
    double stretch = r->antialias && r->scale[d] < 1.0 ? r->scale[d] : 1.0;
    double reach = 2.0 * (2.0 / stretch + 2.0);
    struct taps t = {.weights = reach > 1e7 ? NULL : kernel_scratch(k, (size_t)reach * sizeof(double))};
    if (t.weights == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the weights of axis %d", d);
    }
    for (int64_t i = 0; i < r->out.dim[d]; i++) {
        double at = source_of(k, r, d, i);
        bool outside = r->crop && (at < 0.0 || at > (double)(l.count - 1));
        if (r->mode == RESIZE_NEAREST) {
            t = (struct taps){nearest_of(k->n, at), 1, t.weights, false};
            t.weights[0] = 1.0;
        } else {
            taps_weigh(r, at, r->scale[d], l.count, &t);
        }
        for (int64_t o = 0; o < l.outer; o++) {
            double *to = y + (o * r->out.dim[d] + i) * l.inner;
            for (int64_t j = 0; j < l.inner; j++) {
                to[j] = outside ? r->extrapolation : 0.0;
            }
            for (int64_t w = 0; w < t.count && !outside; w++) {
                int64_t from = t.first + w < 0 ? 0 : t.first + w >= l.count ? l.count - 1 : t.first + w;
                const double *source = x + (o * l.count + from) * l.inner;
                for (int64_t j = 0; j < l.inner && t.weights[w] != 0.0; j++) {
                    to[j] += t.weights[w] * source[j];
                }
            }
        }
    }
    return PEN_OK;
}

/* sizes with a policy: one scale for all axes that fits within or covers them. */
static void keep_aspect(const struct node *n, const struct shape *in, struct resize *r)
{
    bool larger = node_text_is(n, ATTR_keep_aspect_ratio_policy, "not_smaller", false);
    if (!larger && !node_text_is(n, ATTR_keep_aspect_ratio_policy, "not_larger", false)) {
        return;
    }
    double best = larger ? 0.0 : (double)INFINITY;
    for (int32_t d = 0; d < in->rank; d++) {
        if (r->is_axis[d]) {
            best = larger ? fmax(best, r->scale[d]) : fmin(best, r->scale[d]);
        }
    }
    for (int32_t d = 0; d < in->rank; d++) {
        if (r->is_axis[d]) {
            r->scale[d] = best;
            r->out.dim[d] = (int64_t)floor(best * (double)in->dim[d] + 0.5);
        }
    }
}

/* x, roi, scales, sizes */
static enum pen_status resize_sizes(struct kernel_call *k, const int32_t *axes, uint32_t count, struct resize *r)
{
    const struct shape *in = &k->in[0].shape;
    bool by_size = kernel_has(k, 3) && shape_elements(&k->in[3].shape) > 0;
    uint32_t from = by_size ? 3 : 2;
    if (!kernel_has(k, from) || shape_elements(&k->in[from].shape) != count) {
        return kernel_fail(k, PEN_ERR_INVALID, "needs %u scales or sizes", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t d = axes[i];
        double v = load_one_f64(k->in[from].data, k->in[from].dtype, i);
        double out =
            by_size ? v : (double)floorf((float)in->dim[d] * (float)v); /* as exporters and runtimes round it */
        if (!(v >= 0.0) || !(out <= 1e9) || (in->dim[d] == 0 && out > 0.0)) {
            return kernel_fail(k, PEN_ERR_INVALID, "scale or size %g of axis %d", v, d);
        }
        if (in->dim[d] == 0) { /* an empty batch stays one */
            continue;
        }
        r->out.dim[d] = (int64_t)out;
        r->scale[d] = by_size ? v / (double)in->dim[d] : v;
        r->is_axis[d] = true;
    }
    if (by_size) {
        keep_aspect(k->n, in, r);
    }
    return PEN_OK;
}

static enum pen_status resize_init(struct kernel_call *k, struct resize *r)
{
    const struct shape *in = &k->in[0].shape;
    uint32_t count = 0;
    const int64_t *given = node_ints(k->n, ATTR_axes, &count);
    int32_t axes[PEN_MAX_RANK];
    *r = (struct resize){.out = *in,
                         .mode = node_text_is(k->n, ATTR_mode, "linear", false)  ? RESIZE_LINEAR
                                 : node_text_is(k->n, ATTR_mode, "cubic", false) ? RESIZE_CUBIC
                                                                                 : RESIZE_NEAREST,
                         .antialias = node_int(k->n, ATTR_antialias, 0) != 0,
                         .exclude_outside = node_int(k->n, ATTR_exclude_outside, 0) != 0,
                         .crop = node_text_is(k->n, ATTR_coordinate_transformation_mode, "tf_crop_and_resize", false),
                         .cubic_a = (double)node_float(k->n, ATTR_cubic_coeff_a, -0.75f),
                         .extrapolation = (double)node_float(k->n, ATTR_extrapolation_value, 0.0f)};
    count = given != NULL ? count : (uint32_t)in->rank;
    if (count > PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_INVALID, "%u axes", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        enum pen_status status = kernel_axis(k, given != NULL ? given[i] : (int64_t)i, in->rank, &axes[i]);
        if (status != PEN_OK) {
            return status;
        }
    }
    bool roi = kernel_has(k, 1) && shape_elements(&k->in[1].shape) == 2 * (int64_t)count;
    for (uint32_t i = 0; i < count && r->crop; i++) {
        r->roi_start[axes[i]] = roi ? load_one_f64(k->in[1].data, k->in[1].dtype, i) : 0.0;
        r->roi_end[axes[i]] = roi ? load_one_f64(k->in[1].data, k->in[1].dtype, count + i) : 1.0;
    }
    return resize_sizes(k, axes, count, r);
}

/* An axis that nothing changes. */
static bool untouched(const struct resize *r, const struct shape *in, int32_t d)
{
    return !r->is_axis[d] || (r->out.dim[d] == in->dim[d] && r->scale[d] == 1.0 && !r->crop);
}

enum pen_status kernel_resize(struct kernel_call *k)
{
    struct resize r;
    struct shape now = k->in[0].shape;
    double *x = NULL;
    enum pen_status status = resize_init(k, &r);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &r.out);
    }
    if (status == PEN_OK && node_int(k->n, ATTR_fixed_point, 0) != 0) {
        return resize_fixed(k, &r.out);
    }
    if (status == PEN_OK) {
        status = kernel_doubles(k, 0, &x);
    }
    for (int32_t d = 0; d < now.rank && status == PEN_OK; d++) {
        if (untouched(&r, &k->in[0].shape, d)) {
            continue;
        }
        struct shape next = now;
        next.dim[d] = r.out.dim[d];
        double *y = kernel_scratch(k, (size_t)shape_elements(&next) * sizeof *y);
        if (y == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to resize axis %d", d);
        }
        status = resize_axis(k, &r, d, &now, x, y);
        x = y;
        now = next;
    }
    if (status == PEN_OK) {
        store_f64(k->out[0].data, k->out[0].dtype, 0, 1, shape_elements(&r.out), x);
    }
    return status;
}
