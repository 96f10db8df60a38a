/*
 * qlinear.h - what operators from bytes to bytes share: x, x_scale, x_zero, y_scale, y_zero.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_QLINEAR_H
#define XNNPACK_QLINEAR_H

#include <math.h>

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/qdense.h"

/* Both ends: real = (code - zero) * scale. */
struct qends {
    enum pen_dtype dtype;
    double x_scale, y_scale, low, high;
    int32_t x_zero, y_zero;
};

/* in: by input of the node; NULL = omitted. */
struct qends qends_of(enum pen_dtype dtype, const void *const in[5]);
/* Bytes of one type, with one scale and at most one zero point on both sides. */
bool qends_fit(const struct graph *g, const struct node *n, const char **ret_reason);

/* In double, operation by operation as the reference has it: ties fall the same way. */
static inline uint8_t qends_byte(const struct qends *e, double real)
{
    double v = nearbyint(real / e->y_scale) + (double)e->y_zero;
    v = v >= e->low ? v : e->low;
    return (uint8_t)(int32_t)(v > e->high ? e->high : v);
}

#endif
