/*
 * agreement.h - how far the answers of two versions of a model are apart: numbers, classes, and the time that they took.
 *
 * The relative error of an element is |a - b| / R, where R is the range of that output in the first version's answer
 * (proto/PROTOCOL.md, "Precision"): a model's own measured errors are told in the same measure. Two answers agree on the
 * first class when each row of an output with two or more numbers a row has its largest number in the same place.
 * Threads: one-at-a-time.
 */
#ifndef AGREEMENT_H
#define AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/client.h"

/* Of all answers so far. */
struct agreement {
    uint64_t pairs;      /* both versions answered */
    uint64_t failed[2];  /* jobs that a version did not answer */
    uint64_t shapes;     /* pairs whose outputs have other names, types or dims: they count as an infinite error */
    uint64_t rows, same; /* rows with classes; those with the same first class */
    uint64_t elements;   /* that were compared */
    double largest, sum; /* relative errors of elements; infinite ones are not in `sum` */
    uint64_t infinite;   /* elements whose error is infinite */
    uint64_t *us[2];     /* [pairs]: round trips */
    size_t room;
};

/* What one pair gave, for a line of its own. */
struct agreement_pair {
    bool comparable;
    double largest, mean;
    uint64_t rows, same;
};

void agreement_fini(struct agreement *sums);

/* Compares two answers and adds them to the sums. Either may be a failure. False without memory. */
bool agreement_add(struct agreement *sums, const pen_result *first, const pen_result *second,
                   struct agreement_pair *ret_pair);

/* The mean relative error; infinity when an element's is. */
double agreement_mean(const struct agreement *sums);
/* The share of rows with the same first class; 1 when there are none. */
double agreement_top(const struct agreement *sums);
/* A quantile of the round trips, microseconds; 0 without pairs. which: 0 or 1. Sorts the times. */
uint64_t agreement_quantile(struct agreement *sums, unsigned which, double quantile);

#endif
