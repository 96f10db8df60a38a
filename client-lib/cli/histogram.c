#include "histogram.h"

/* Row 0: value itself. Row r > 0: values of bit length 7 + r, by their upper 8 bits, of which the first is always set. */
static unsigned bucket_of(uint64_t value)
{
    if (value < HISTOGRAM_SUB) {
        return (unsigned)value;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - 7u;
    unsigned row = shift + 1;
    if (row >= HISTOGRAM_ROWS) {
        return HISTOGRAM_COUNT - 1;
    }
    return row * HISTOGRAM_SUB + (unsigned)(value >> shift) - HISTOGRAM_SUB;
}

static uint64_t bucket_middle(unsigned bucket)
{
    unsigned row = bucket / HISTOGRAM_SUB, sub = bucket % HISTOGRAM_SUB;
    if (row == 0) {
        return sub;
    }
    unsigned shift = row - 1;
    return ((uint64_t)(HISTOGRAM_SUB + sub) << shift) + ((UINT64_C(1) << shift) >> 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->buckets[bucket_of(value)]++;
    h->count++;
    h->max = value > h->max ? value : h->max;
}

uint64_t histogram_at(const struct histogram *h, double share)
{
    double wanted = share * (double)h->count;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_COUNT && h->count; i++) {
        seen += h->buckets[i];
        if (h->buckets[i] && (double)seen >= wanted) {
            uint64_t middle = bucket_middle(i);
            return middle < h->max ? middle : h->max;
        }
    }
    return h->max;
}
