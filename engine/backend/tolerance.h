/*
 * tolerance.h - how far an answer may be from the expected one: the one table that `penstock-engine verify`, the tests of operators and trials of f16 use.
 *
 * Threads: any (constant tables).
 */
#ifndef TOLERANCE_H
#define TOLERANCE_H

#include <stdbool.h>

#include "penstock/engine.h"

/* by_range: |d| <= rtol x range of the expected output (atol where all of it is 0), else |d| <= atol + rtol |expected|. Integers: |d| <= lsb; floats that stand for them: |d| <= lsb steps + rtol |expected|. NaN fits only NaN. */
struct tolerance {
    bool by_range;
    double rtol, atol;
    double nmse; /* by_range: bound of the normalised mean square error; 0 = not checked */
    double lsb;  /* steps of quantised outputs, as integers or (with output_step) as floats; 0 = exact */
    bool top1;   /* the largest element must be at the same place */
};

/* An official case, by its name (a path): the suite's own bounds, wider where the table below it names the case. */
struct tolerance tolerance_suite(const char *case_name, enum pen_precision precision);
/* A whole model with golden outputs. quantised: every output is 8-bit or stands behind a DequantizeLinear. */
struct tolerance tolerance_golden(enum pen_precision precision, bool quantised, bool classifier);
/* One operator of a backend against the reference. quantised: 8-bit outputs of an operator that rounds. */
struct tolerance tolerance_operator(enum pen_precision precision, bool quantised);

#endif
