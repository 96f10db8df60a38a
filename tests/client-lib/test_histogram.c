#include <criterion/criterion.h>

#include "histogram.h"

static struct histogram h;

Test(histogram, small_values_are_exact)
{
    for (uint64_t i = 1; i <= 100; i++) {
        histogram_add(&h, i);
    }
    cr_assert_eq(histogram_at(&h, 0.5), 50);
    cr_assert_eq(histogram_at(&h, 0.99), 99);
    cr_assert_eq(histogram_at(&h, 1.0), 100);
    cr_assert_eq(h.max, 100);
}

Test(histogram, large_values_are_within_a_percent)
{
    for (uint64_t value = 200; value < (UINT64_C(1) << 40); value = value * 9 / 7) {
        struct histogram one = {0};
        histogram_add(&one, value);
        histogram_add(&one, value * 100);
        double error = (double)histogram_at(&one, 0.5) / (double)value - 1.0;
        cr_assert(error < 0.008 && error > -0.008, "%llu is off by %f", (unsigned long long)value, error);
    }
}

Test(histogram, no_quantile_exceeds_the_maximum_and_giants_do_not_overflow)
{
    histogram_add(&h, 1001);
    cr_assert_eq(histogram_at(&h, 0.999), 1001);
    histogram_add(&h, UINT64_MAX);
    cr_assert_eq(h.max, UINT64_MAX);
    cr_assert_eq(h.count, 2);
    cr_assert_gt(histogram_at(&h, 1.0), 1001);
}

Test(histogram, an_empty_one_says_zero)
{
    cr_assert_eq(histogram_at(&h, 0.5), 0);
}
