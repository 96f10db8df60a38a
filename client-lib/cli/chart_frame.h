/*
 * chart_frame.h - the axes of a chart: what they span, and where a value lies on them.
 *
 * Threads: any.
 */
#ifndef CHART_FRAME_H
#define CHART_FRAME_H

#include <stdbool.h>

#include "chart.h"

#define CHART_TICKS_MAX 12u

struct chart_axis {
    double low, high;
    bool logarithmic;
    double ticks[CHART_TICKS_MAX]; /* round numbers within low..high */
    unsigned ticks_count;
};

struct chart_frame {
    struct chart_axis x, y;
};

bool chart_shows(struct chart_point point);
/* False: there is no point to draw. */
bool chart_frame_make(const struct chart *chart, struct chart_frame *ret_frame);
/* 0 at the axis' low end, 1 at its high one. */
double chart_place(const struct chart_axis *axis, double value);

#endif
