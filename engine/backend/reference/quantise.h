/*
 * quantise.h - the one rounding of all integer quantisation: to nearest, halves to even, then saturate.
 *
 * Threads: any.
 */
#ifndef QUANTISE_H
#define QUANTISE_H

#include <math.h>

#include "penstock/dtype.h"

void quantise_range(enum pen_dtype dtype, double *ret_low, double *ret_high); /* of an integer dtype */

/*
 * The product that is rounded: (float)accumulator x (float)scale, in single precision as integer engines have it (ONNX Runtime, XNNPACK), so that ties and
 * near-ties fall the same way.
 */
static inline double requantise_product(double accumulator, double scale)
{
    return (double)((float)accumulator * (float)scale);
}

/* saturate(round(scaled) + zero) */
static inline double quantise_value(double scaled, double zero, double low, double high)
{
    double q = nearbyint(scaled) + zero;
    return q < low ? low : q > high ? high : q;
}

#endif
