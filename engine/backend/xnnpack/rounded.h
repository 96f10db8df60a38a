/*
 * rounded.h - rows that are rounded to 8-bit steps over their own range (../row_rounding.h): which row is cut how, and the range of each.
 *
 * Threads: constant once made; ranges belong to one run.
 */
#ifndef XNNPACK_ROUNDED_H
#define XNNPACK_ROUNDED_H

#include "backend/row_rounding.h"
#include "backend/xnnpack/emit.h"

/* A unit is a part of one row; the range of a row is that of all its parts. */
struct rounded_rows {
    size_t row, parts, units, rows; /* row: its elements; parts: of one; units: of all */
    bool symmetric;
};

struct part_range {
    float min, max;
    bool spoiled; /* for who looks for NaN: there was one */
};

/* From a RowRounding whose input has this shape. */
struct rounded_rows rounded_of(const struct node *n, const struct shape *x);
/* ranges: [units]. */
void rounded_ranges(const struct rounded_rows *q, const float *x, struct part_range *ranges, struct run *r);
struct row_steps rounded_steps(const struct rounded_rows *q, const struct part_range *ranges, size_t row);
/* The elements of a unit, from the first on. */
size_t rounded_span(const struct rounded_rows *q, size_t unit, size_t *ret_first);

#endif
