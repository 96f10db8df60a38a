/*
 * fourier.h - discrete Fourier transforms of any length, in double: a length is taken apart into its prime factors.
 *
 * Threads: any; a plan is only read.
 */
#ifndef XNNPACK_FOURIER_H
#define XNNPACK_FOURIER_H

#include <stdbool.h>
#include <stddef.h>

#define FOURIER_MAX     ((size_t)1 << 24) /* points */
#define FOURIER_FACTORS 24                /* of such a length at most */

struct fourier {
    size_t n;
    size_t factors[FOURIER_FACTORS], count;
    double *turn; /* [n] pairs: e^(-2 pi i t / n) */
};

/* Doubles that fourier_init needs for a length, and those that one run needs as scratch. */
#define FOURIER_TABLE(n)   (2 * (n))
#define FOURIER_SCRATCH(n) (4 * (n))

/* 1 <= n <= FOURIER_MAX; table: FOURIER_TABLE(n) doubles that live as long as the plan. */
void fourier_init(struct fourier *f, size_t n, double *table);
/* data: n pairs at the start of FOURIER_SCRATCH(n) doubles. Gives where the n pairs of the result lie in them. Inverse: divided by n. */
const double *fourier_run(const struct fourier *f, double *data, bool inverse);

#endif
