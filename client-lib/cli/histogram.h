/*
 * histogram.h - latencies in bounded memory: log-linear buckets, each at most 0.8 % wide.
 *
 * Threads: one-at-a-time.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB   128u /* buckets per power of two, from 128 us on; below, one per microsecond */
#define HISTOGRAM_ROWS  36u
#define HISTOGRAM_COUNT (HISTOGRAM_ROWS * HISTOGRAM_SUB)

struct histogram {
    uint64_t count, max;
    uint64_t buckets[HISTOGRAM_COUNT];
};

void histogram_add(struct histogram *h, uint64_t value);

/* The smallest recorded value (its bucket's middle) that at least `share` of all do not exceed; share in 0..1; 0 when empty. */
uint64_t histogram_at(const struct histogram *h, double share);

#endif
