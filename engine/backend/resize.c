#include "backend/resize.h"

#include <math.h>

bool resize_counts_whole(const struct node *n)
{
    return node_text_is(n, ATTR_mode, "nearest", true) || node_attr(n, ATTR_nearest_mode) != NULL;
}

/* i / scale. Places of "nearest" are those of floats, as the runtimes compute them: 3 / 0.6f is 5, though 0.6f is more than 0.6. */
static double divided(const struct node *n, double in, double out, double scale, double i)
{
    if (!node_text_is(n, ATTR_mode, "nearest", true)) {
        return i / scale;
    }
    return (double)(node_int(n, ATTR_by_step, 0) != 0 ? (float)i * ((float)in / (float)out) : (float)i / (float)scale);
}

/* The ends of both lie on each other. */
static double between_ends(const struct node *n, double in, double length, double i)
{
    if (!node_text_is(n, ATTR_mode, "nearest", true)) {
        return i * (in - 1.0) / (length - 1.0);
    }
    float last = (float)(in - 1.0), ends = (float)(length - 1.0);
    return (double)(node_int(n, ATTR_by_step, 0) != 0 ? (float)i * (last / ends) : (float)i * last / ends);
}

/* Both middles lie on each other, whatever `out` was cut to. */
static double between_middles(const struct node *n, double in, double out, double scale, double i)
{
    if (!node_text_is(n, ATTR_mode, "nearest", true)) {
        return in / 2.0 * (1.0 - out / (scale * in)) + (i + 0.5) / scale - 0.5;
    }
    const float whole = (float)scale * (float)in, off = (float)in / 2.0f * (1.0f - (float)out / whole);
    return (double)(float)((double)off + (i + 0.5) / (double)(float)scale - 0.5);
}

double resize_source(const struct node *n, double in, double out, double scale, double i)
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    if (node_text_is(n, key, "asymmetric", false)) {
        return divided(n, in, out, scale, i);
    }
    if (node_text_is(n, key, "align_corners", false)) {
        double length = resize_counts_whole(n) ? out : scale * in;
        return length == 1.0 ? 0.0 : between_ends(n, in, length, i);
    }
    if (node_text_is(n, key, "pytorch_half_pixel", false)) {
        return out == 1.0 ? 0.0 : divided(n, in, out, scale, i + 0.5) - 0.5;
    }
    if (node_text_is(n, key, "half_pixel_symmetric", false)) {
        return between_middles(n, in, out, scale, i);
    }
    if (node_text_is(n, key, "tf_half_pixel_for_nn", false)) {
        return divided(n, in, out, scale, i + 0.5); /* opset 11 alone; tf2onnx writes it for every opset */
    }
    return divided(n, in, out, scale, i + 0.5) - 0.5;
}

double resize_nearest(const struct node *n, double x)
{
    const double near = node_int(n, ATTR_by_step, 0) != 0 ? 0.0 : RESIZE_HALF;
    if (node_text_is(n, ATTR_nearest_mode, "floor", false)) {
        return floor(x);
    }
    if (node_text_is(n, ATTR_nearest_mode, "ceil", false)) {
        return ceil(x);
    }
    return node_text_is(n, ATTR_nearest_mode, "round_prefer_ceil", false) ? floor(x + 0.5 + near)
                                                                          : ceil(x - 0.5 - near);
}

double resize_cubic(double t, double a)
{
    t = fabs(t);
    if (t <= 1.0) {
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    }
    return t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a : 0.0;
}
