/* taps.c - filters as Pillow defines them (Resample.c): the support grows with the ratio when a picture shrinks. */
#include "taps.h"

#include <math.h>
#include <stdlib.h>

static const double supports[] = {[SCALE_BILINEAR] = 1.0, [SCALE_AREA] = 0.5, [SCALE_CUBIC] = 2.0, [SCALE_NEAREST] = 0};

/* Keys' cubic with a = -0.5. */
static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    }
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double weight_at(enum scale_filter filter, double x)
{
    if (filter == SCALE_AREA) {
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    }
    if (filter == SCALE_CUBIC) {
        return cubic(x);
    }
    return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0;
}

static double stretch_of(float begin, float end, uint32_t target)
{
    double scale = (double)(end - begin) / target;
    return scale < 1.0 ? 1.0 : scale;
}

uint64_t pixel_taps_most(float begin, float end, uint32_t target, enum scale_filter filter)
{
    return (uint64_t)ceil(supports[filter] * stretch_of(begin, end, target)) * 2 + 1;
}

uint64_t pixel_taps_bytes(float begin, float end, uint32_t target, enum scale_filter filter)
{
    return target *
           (pixel_taps_most(begin, end, target, filter) * (sizeof(int32_t) + sizeof(double)) + 2 * sizeof(uint32_t));
}

void pixel_taps_fini(struct pixel_taps *taps)
{
    free(taps->first);
    free(taps->count);
    free(taps->weight);
    *taps = (struct pixel_taps){0};
}

static int32_t fixed(double weight)
{
    double scaled = weight * (1 << TAPS_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* Places are sums of steps, not products: so Pillow has them (Geometry.c), and what lies between two pixels falls to the same side. */
static void nearest_fill(struct pixel_taps *taps, uint32_t from, double begin, double scale)
{
    double place = begin + scale * 0.5;
    for (uint32_t i = 0; i < taps->target; i++, place += scale) {
        double at = floor(place);
        taps->first[i] = at < 0 ? 0 : at >= from ? from - 1 : (uint32_t)at;
        taps->count[i] = 1;
        taps->weight[(size_t)i * taps->most] = 1 << TAPS_BITS;
    }
}

/* raw: room for `most` weights. */
static void tap_fill(struct pixel_taps *taps, uint32_t i, uint32_t from, double centre, double stretch,
                     enum scale_filter filter, double *raw)
{
    double reach = supports[filter] * stretch, sum = 0.0;
    double low = centre - reach + 0.5, high = centre + reach + 0.5;
    uint32_t first = low < 0 ? 0 : (uint32_t)low;
    uint32_t last = high > from ? from : (uint32_t)high;
    uint32_t count = last > first ? last - first : 0;
    for (uint32_t k = 0; k < count; k++) {
        raw[k] = weight_at(filter, (k + first - centre + 0.5) / stretch);
        sum += raw[k];
    }
    for (uint32_t k = 0; k < count; k++) {
        taps->weight[(size_t)i * taps->most + k] = fixed(sum != 0.0 ? raw[k] / sum : raw[k]);
    }
    taps->first[i] = count ? first : first < from ? first : from - 1;
    taps->count[i] = count ? count : 1;
}

bool pixel_taps_init(struct pixel_taps *taps, uint32_t from, float begin, float end, uint32_t target,
                     enum scale_filter filter)
{
    double scale = (double)(end - begin) / target, stretch = stretch_of(begin, end, target);
    uint64_t most = pixel_taps_most(begin, end, target, filter);
    *taps = (struct pixel_taps){.target = target, .most = (uint32_t)most};
    taps->first = calloc(target, sizeof *taps->first);
    taps->count = calloc(target, sizeof *taps->count);
    taps->weight = calloc((size_t)target * most, sizeof *taps->weight);
    double *raw = calloc(most, sizeof *raw);
    bool whole = taps->first && taps->count && taps->weight && raw;
    if (!whole) {
        pixel_taps_fini(taps);
    } else if (filter == SCALE_NEAREST) {
        nearest_fill(taps, from, begin, scale);
    } else {
        for (uint32_t i = 0; i < target; i++) {
            tap_fill(taps, i, from, begin + (i + 0.5) * scale, stretch, filter, raw);
        }
    }
    free(raw);
    return whole;
}
