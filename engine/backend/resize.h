/*
 * resize.h - where an output position of Resize reads, and with which weight: ONNX's formulas, for the fast backends (the reference has its own).
 *
 * Threads: any (pure).
 */
#ifndef RESIZE_H
#define RESIZE_H

#include "graph/graph.h"

/*
 * align_corners divides by the length of the result. Where sizes come from scales (7.5 elements, cut to 7), the standard's own cases take 7.5; PyTorch and onnxruntime take 7.
 * PyTorch states nearest_mode for every mode: a node that does so counts whole elements, and so does "nearest", for which the standard has no such case.
 */
bool resize_counts_whole(const struct node *n);
/* Position i of `out` along an axis, as a place in `in`, by coordinate_transformation_mode (but for tf_crop_and_resize). scale = out / in, as it was asked for. */
double resize_source(const struct node *n, double in, double out, double scale, double i);
/* A place so near to the middle of two elements counts as the middle, as onnxruntime has it. */
#define RESIZE_HALF 1e-6
/* The position that "nearest" takes for the place x, by nearest_mode; it may lie outside. */
double resize_nearest(const struct node *n, double x);
/* Keys' cubic convolution kernel at the distance t; a: its coefficient. */
double resize_cubic(double t, double a);

#endif
