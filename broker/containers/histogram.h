/*
 * histogram.h - how often a time fell between fixed bounds; two of them are merged by adding.
 *
 * The bounds are 1, 1.5, 2, 3, 5, 7 per decade from 20 us to 60 s; Prometheus gets only those of the series 1, 2, 5, so
 * the others may change without spoiling anybody's records. Adding costs a search of six steps: no allocation, no lock.
 * Threads: one-at-a-time. Plain data: a copy is a snapshot.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 35u

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* counts[i]: times in (bound i - 1, bound i]; the last: longer times */
    uint64_t sum_us;
};

void histogram_add(struct histogram *histogram, uint64_t us);
void histogram_merge(struct histogram *into, const struct histogram *from);
uint64_t histogram_count(const struct histogram *histogram);
/* The quantile q (0 to 1), interpolated linearly between two bounds; 0 when empty. */
uint64_t histogram_quantile_us(const struct histogram *histogram, double q);

uint64_t histogram_bound_us(size_t index);
bool histogram_bound_published(size_t index);

#endif
