/*
 * resize.h - where an output position of Resize reads, and with which weight: ONNX's formulas, for the fast backends (the reference has its own).
 *
 * Threads: any (pure).
 */
#ifndef RESIZE_H
#define RESIZE_H

#include "graph/graph.h"

/* Position i of `out` along an axis, as a place in `in`, by coordinate_transformation_mode (but for tf_crop_and_resize). scale = out / in, as it was asked for. */
double resize_source(const struct node *n, double in, double out, double scale, double i);
/* The position that "nearest" takes for the place x, by nearest_mode; it may lie outside. */
double resize_nearest(const struct node *n, double x);
/* Keys' cubic convolution kernel at the distance t; a: its coefficient. */
double resize_cubic(double t, double a);

#endif
