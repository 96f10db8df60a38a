/*
 * chart.h - curves of y over x, drawn with characters for a terminal or as SVG for a page.
 *
 * The y axis is logarithmic when the largest value is more than 20 times the smallest. Values that are not above 0 or not finite are left out.
 * Threads: one-at-a-time.
 */
#ifndef CHART_H
#define CHART_H

#include <stddef.h>
#include <stdio.h>

#include "penstock/status.h"

#define CHART_SERIES_MAX 4u

struct chart_point {
    double x, y;
};

struct chart_series {
    const char *name;
    const struct chart_point *points; /* borrowed, in the order in which they are joined */
    size_t count;
};

struct chart {
    const char *title, *x_label, *y_label;
    struct chart_series series[CHART_SERIES_MAX];
    size_t series_count;
    double limit; /* a horizontal line at this y; 0 = none */
    const char *limit_name;
};

/* In characters, each series with a sign of its own; at least 40 x 8, at most 200 x 60. Nothing when there is no point. */
void chart_print(const struct chart *chart, FILE *out, unsigned columns, unsigned rows);
/* As an SVG picture of 720 x 420. */
void chart_svg(const struct chart *chart, FILE *out);
/* Writes the picture into the file. IO: the sentence says why. */
enum pen_status chart_save(const struct chart *chart, const char *file, struct pen_error *reterr);
/* As many columns as the terminal of stdout has, 80 when it is none. */
unsigned chart_columns(void);

#endif
