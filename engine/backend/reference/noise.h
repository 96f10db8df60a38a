/*
 * noise.h - what another correct runtime might have answered: each f32 number that a kernel computes is moved by about what single precision rounds there.
 *
 * Monte Carlo arithmetic (Parker 1997, "Monte Carlo Arithmetic"; Vignes 1974 before it): a sum of n terms of size s becomes s eps sqrt(n) u larger, u even in
 * [-1, 1], eps = 2^-24. How far the outputs spread over a few runs is how exact a golden of single precision can be. The reference itself sums in double.
 * Threads: the switch is each thread's own.
 */
#ifndef REFERENCE_NOISE_H
#define REFERENCE_NOISE_H

#include "backend/reference/kernel.h"

struct noise {
    uint64_t state; /* of the generator; any seed */
    double
        rounding; /* share of a number that a runtime which stores 16-bit floats rounds besides: 2^-11 or 2^-8; 0 = none */
};

/* NULL (at first): kernels of this thread give what they compute. Borrowed while it is set. */
extern _Thread_local struct noise *kernel_noise;

/* Moves the outputs of a kernel that has run; what only copies, compares or counts stays as it is, and so do whole numbers. */
void noise_add(const struct kernel_call *k);

#endif
