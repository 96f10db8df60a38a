#include "histogram.h"

static const uint32_t bounds_us[HISTOGRAM_BOUNDS] = {
    20,     50,     100,     150,     200,     300,     500,     700,     1000,     1500,     2000,     3000,
    5000,   7000,   10000,   15000,   20000,   30000,   50000,   70000,   100000,   150000,   200000,   300000,
    500000, 700000, 1000000, 1500000, 2000000, 3000000, 5000000, 7000000, 10000000, 30000000, 60000000,
};

static size_t bucket_of(uint64_t us)
{
    size_t low = 0, high = HISTOGRAM_BOUNDS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (us <= bounds_us[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void histogram_add(struct histogram *histogram, uint64_t us)
{
    histogram->counts[bucket_of(us)]++;
    histogram->sum_us += us;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        into->counts[i] += from->counts[i];
    into->sum_us += from->sum_us;
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += histogram->counts[i];
    return count;
}

uint64_t histogram_quantile_us(const struct histogram *histogram, double q)
{
    double rank = q * (double)histogram_count(histogram), seen = 0;
    if (rank <= 0)
        return 0;
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        double here = (double)histogram->counts[i];
        if (here > 0 && seen + here >= rank) {
            double low = i ? bounds_us[i - 1] : 0;
            return (uint64_t)(low + ((double)bounds_us[i] - low) * (rank - seen) / here);
        }
        seen += here;
    }
    return bounds_us[HISTOGRAM_BOUNDS - 1];
}

uint64_t histogram_bound_us(size_t index)
{
    return bounds_us[index];
}

bool histogram_bound_published(size_t index)
{
    uint32_t us = bounds_us[index];
    while (us % 10 == 0)
        us /= 10;
    return us == 1 || us == 2 || us == 5 || bounds_us[index] >= 10000000;
}
