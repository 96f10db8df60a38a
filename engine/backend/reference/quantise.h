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

/* saturate(round(scaled) + zero) */
static inline double quantise_value(double scaled, double zero, double low, double high)
{
    double q = nearbyint(scaled) + zero;
    return q < low ? low : q > high ? high : q;
}

#endif
