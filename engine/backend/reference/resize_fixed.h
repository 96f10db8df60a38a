/*
 * resize_fixed.h - linear interpolation of bytes or 16-bit integers [batch, height, width, channels] in TFLite's fixed point.
 *
 * Threads: any.
 */
#ifndef RESIZE_FIXED_H
#define RESIZE_FIXED_H

#include "backend/reference/kernel.h"

/* y of the shape `out`, which differs from x in height and width only. */
enum pen_status resize_fixed(struct kernel_call *k, const struct shape *out);

#endif
