#include "curve.h"

#include <math.h>
#include <stdlib.h>

#define RUN_TIMES 4.0   /* of the middle run: on a quiet machine p99 is below twice of it */
#define WAY_TIMES 8.0   /* threads are woken on the way */
#define QUIET_US  100.0 /* shorter times are not judged */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The points stand for ranges of different widths. */
void spread_settle(struct spread *spread)
{
    double sum = 0.0, before = 0.0;
    for (unsigned i = 1; i < SPREAD_POINTS; i++) {
        double left = 1.0 - (double)i / (SPREAD_POINTS - 1), share = 1.0 - left * left;
        sum += (share - before) * (spread->us[i - 1] + spread->us[i]) / 2.0;
        before = share;
    }
    spread->mean_us = sum;
}

void spread_make(double *samples_us, size_t count, struct spread *ret_spread)
{
    *ret_spread = (struct spread){.count = (uint32_t)count};
    qsort(samples_us, count, sizeof *samples_us, compare);
    for (unsigned i = 0; i < SPREAD_POINTS && count; i++) {
        double left = 1.0 - (double)i / (SPREAD_POINTS - 1);
        double place = (1.0 - left * left) * (double)(count - 1), whole = floor(place);
        size_t at = (size_t)whole, next = at + 1 < count ? at + 1 : at;
        ret_spread->us[i] = samples_us[at] + (samples_us[next] - samples_us[at]) * (place - whole);
    }
    spread_settle(ret_spread);
}

void spread_make_unbidden(double *samples_us, size_t count, size_t room, double every_us, struct spread *ret_spread)
{
    size_t all = count;
    for (size_t i = 0; i < count && every_us > 0.0; i++) {
        for (double left_us = samples_us[i] - every_us; left_us > every_us && all < room; left_us -= every_us) {
            samples_us[all++] = left_us;
        }
    }
    spread_make(samples_us, all, ret_spread);
    ret_spread->count = (uint32_t)count;
}

double spread_at(const struct spread *spread, double share)
{
    double place = (1.0 - sqrt(1.0 - share)) * (SPREAD_POINTS - 1), whole = floor(place);
    size_t at = whole < SPREAD_POINTS - 1 ? (size_t)whole : SPREAD_POINTS - 2;
    return spread->us[at] + (spread->us[at + 1] - spread->us[at]) * (place - (double)at);
}

static double between(double low, double high, double part)
{
    return low + (high - low) * part;
}

/* The size at which a batch of so many rows is looked up, and how far it lies between that and the next one. Beyond the last size time grows in proportion. */
static double place_of(const struct curve *curve, uint32_t rows, size_t *ret_low, double *ret_factor)
{
    size_t i = 0;
    *ret_factor = 1.0;
    while (i + 1 < curve->sizes_count && curve->sizes[i + 1].rows <= rows) {
        i++;
    }
    *ret_low = i;
    if (i + 1 == curve->sizes_count) {
        *ret_factor = rows > curve->sizes[i].rows ? (double)rows / (double)curve->sizes[i].rows : 1.0;
        return 0.0;
    }
    double low = curve->sizes[i].rows, high = curve->sizes[i + 1].rows;
    return rows <= low ? 0.0 : ((double)rows - low) / (high - low);
}

double curve_run_us(const struct curve *curve, uint32_t rows, double busy, double share)
{
    size_t low;
    double factor, part = place_of(curve, rows, &low, &factor);
    const struct curve_size *a = &curve->sizes[low], *b = part > 0.0 ? a + 1 : a;
    double at_a = between(spread_at(&a->alone, share), spread_at(&a->all, share), busy);
    double at_b = b == a ? at_a : between(spread_at(&b->alone, share), spread_at(&b->all, share), busy);
    return between(at_a, at_b, part) * factor;
}

double curve_run_mean_us(const struct curve *curve, uint32_t rows, double busy)
{
    size_t low;
    double factor, part = place_of(curve, rows, &low, &factor);
    const struct curve_size *a = &curve->sizes[low], *b = part > 0.0 ? a + 1 : a;
    double at_a = between(a->alone.mean_us, a->all.mean_us, busy);
    double at_b = b == a ? at_a : between(b->alone.mean_us, b->all.mean_us, busy);
    return between(at_a, at_b, part) * factor;
}

double curve_way_us(const struct curve *curve, double busy, double share)
{
    return between(spread_at(&curve->way_alone, share), spread_at(&curve->way_all, share), busy);
}

size_t curve_rows_up_to(const struct curve *curve, uint32_t batch, uint32_t ret_rows[CURVE_SIZES_MAX])
{
    size_t count = 0;
    while (count < curve->sizes_count && curve->sizes[count].rows <= batch) {
        ret_rows[count] = curve->sizes[count].rows;
        count++;
    }
    return count;
}

static bool is_noisy(const struct spread *spread, double times)
{
    double middle = spread_at(spread, 0.5);
    return spread_at(spread, 0.99) > times * (middle > QUIET_US ? middle : QUIET_US);
}

bool curve_is_noisy(const struct curve *curve)
{
    return is_noisy(&curve->sizes[0].alone, RUN_TIMES) || is_noisy(&curve->way_alone, WAY_TIMES);
}
