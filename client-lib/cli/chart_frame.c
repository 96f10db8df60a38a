#include "chart_frame.h"

#include <math.h>

#define LOGARITHMIC_FROM 20.0
#define TICKS_WANTED     5.0

bool chart_shows(struct chart_point point)
{
    return isfinite(point.x) && isfinite(point.y) && point.x >= 0.0 && point.y > 0.0;
}

static void take(struct chart_frame *frame, double x, double y, bool first)
{
    frame->x.high = first || x > frame->x.high ? x : frame->x.high;
    frame->y.low = first || y < frame->y.low ? y : frame->y.low;
    frame->y.high = first || y > frame->y.high ? y : frame->y.high;
}

/* 1, 2 or 5 times a power of ten, at least `least`. */
static double round_step(double least)
{
    double power = pow(10.0, floor(log10(least))), rest = least / power;
    return power * (rest <= 1.0 ? 1.0 : rest <= 2.0 ? 2.0 : rest <= 5.0 ? 5.0 : 10.0);
}

static void add_tick(struct chart_axis *axis, double value)
{
    if (axis->ticks_count < CHART_TICKS_MAX && value >= axis->low * 0.999999 && value <= axis->high * 1.000001) {
        axis->ticks[axis->ticks_count++] = value;
    }
}

static void ticks_even(struct chart_axis *axis)
{
    double step = round_step((axis->high - axis->low) / TICKS_WANTED);
    axis->high = ceil(axis->high / step) * step;
    for (double value = ceil(axis->low / step) * step; value <= axis->high * 1.000001; value += step) {
        add_tick(axis, value);
        if (axis->ticks_count == CHART_TICKS_MAX) {
            return;
        }
    }
}

/* Within six powers of ten: 1, 2 and 5 of each; beyond, the powers alone. */
static void ticks_logarithmic(struct chart_axis *axis)
{
    double span = log10(axis->high / axis->low);
    for (double power = floor(log10(axis->low)); power <= log10(axis->high) + 1e-9; power += ceil(span / 10.0)) {
        double one = pow(10.0, power);
        add_tick(axis, one);
        if (span < 3.0) {
            add_tick(axis, 2.0 * one);
            add_tick(axis, 5.0 * one);
        }
    }
}

static void axes_settle(struct chart_frame *frame)
{
    frame->x.low = 0.0;
    frame->x.high = frame->x.high > 0.0 ? frame->x.high : 1.0;
    frame->y.logarithmic = frame->y.high > LOGARITHMIC_FROM * frame->y.low;
    ticks_even(&frame->x);
    if (frame->y.logarithmic) {
        frame->y.low /= 1.2;
        frame->y.high *= 1.2;
        ticks_logarithmic(&frame->y);
    } else {
        frame->y.low = 0.0;
        ticks_even(&frame->y);
    }
}

bool chart_frame_make(const struct chart *chart, struct chart_frame *ret_frame)
{
    bool first = true;
    *ret_frame = (struct chart_frame){.x = {.low = 0.0}};
    for (size_t s = 0; s < chart->series_count; s++) {
        for (size_t i = 0; i < chart->series[s].count; i++) {
            struct chart_point point = chart->series[s].points[i];
            if (chart_shows(point)) {
                take(ret_frame, point.x, point.y, first);
                first = false;
            }
        }
    }
    if (first) {
        return false;
    }
    if (chart->limit > 0.0 && isfinite(chart->limit)) {
        take(ret_frame, 0.0, chart->limit, false);
    }
    axes_settle(ret_frame);
    return true;
}

double chart_place(const struct chart_axis *axis, double value)
{
    double place = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                     : (value - axis->low) / (axis->high - axis->low);
    return place < 0.0 ? 0.0 : place > 1.0 ? 1.0 : place;
}
