#include "backend/resize.h"

#include <math.h>

bool resize_counts_whole(const struct node *n)
{
    return node_attr(n, ATTR_nearest_mode) != NULL && !node_text_is(n, ATTR_mode, "nearest", true);
}

double resize_source(const struct node *n, double in, double out, double scale, double i)
{
    const enum attr_key key = ATTR_coordinate_transformation_mode;
    if (node_text_is(n, key, "asymmetric", false)) {
        return i / scale;
    }
    if (node_text_is(n, key, "align_corners", false)) {
        double length = resize_counts_whole(n) ? out : scale * in;
        return length == 1.0 ? 0.0 : i * (in - 1.0) / (length - 1.0);
    }
    if (node_text_is(n, key, "pytorch_half_pixel", false)) {
        return out == 1.0 ? 0.0 : (i + 0.5) / scale - 0.5;
    }
    if (node_text_is(n, key, "half_pixel_symmetric", false)) {
        return in / 2.0 * (1.0 - out / (scale * in)) + (i + 0.5) / scale - 0.5;
    }
    if (node_text_is(n, key, "tf_half_pixel_for_nn", false)) {
        return (i + 0.5) / scale; /* opset 11 alone; tf2onnx writes it for every opset */
    }
    return (i + 0.5) / scale - 0.5;
}

double resize_nearest(const struct node *n, double x)
{
    if (node_text_is(n, ATTR_nearest_mode, "floor", false)) {
        return floor(x);
    }
    if (node_text_is(n, ATTR_nearest_mode, "ceil", false)) {
        return ceil(x);
    }
    return node_text_is(n, ATTR_nearest_mode, "round_prefer_ceil", false) ? floor(x + 0.5) : ceil(x - 0.5);
}

double resize_cubic(double t, double a)
{
    t = fabs(t);
    if (t <= 1.0) {
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    }
    return t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a : 0.0;
}
