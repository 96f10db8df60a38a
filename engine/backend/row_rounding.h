/*
 * row_rounding.h - RowRounding: the 8-bit steps over the range of a row, for both CPU backends.
 *
 * Rows are those of TFLite's hybrid products. Source: AsymmetricQuantizeFloats and SymmetricQuantizeFloats of TFLite.
 * Threads: any.
 */
#ifndef ROW_ROUNDING_H
#define ROW_ROUNDING_H

#include <math.h>
#include <stdbool.h>

struct row_steps {
    float scale, inverse; /* of one step */
    float zero, low;      /* the step of 0.0, the lowest step; the highest is 127 */
};

/* min <= 0 <= max. The zero point comes from the end whose error is smaller. */
static inline struct row_steps row_steps_of(float min, float max, bool symmetric)
{
    if (min == 0.0f && max == 0.0f) {
        return (struct row_steps){1.0f, 1.0f, 0.0f, -128.0f};
    }
    if (symmetric) {
        float range = -min > max ? -min : max;
        return (struct row_steps){range / 127.0f, 127.0f / range, 0.0f, -127.0f};
    }
    double scale = ((double)max - (double)min) / 255.0, below = (double)min / scale, above = (double)max / scale;
    double zero = 128.0 + fabs(below) < 127.0 + fabs(above) ? -128.0 - below : 127.0 - above;
    zero = zero <= -128.0 ? -128.0 : zero >= 127.0 ? 127.0 : round(zero);
    return (struct row_steps){(float)scale, 1.0f / (float)scale, (float)zero, -128.0f};
}

/* x as a step and back. Halves go away from zero; NaN stays. */
static inline float row_step(const struct row_steps *s, float x)
{
    float t = x * s->inverse + s->zero;
    t = t > 127.0f ? 127.0f : t > s->low ? t : s->low;
    t = (float)(int)(t + (t < 0.0f ? -0x1.fffffep-2f : 0x1.fffffep-2f));
    return x != x ? x : (t - s->zero) * s->scale;
}

#endif
