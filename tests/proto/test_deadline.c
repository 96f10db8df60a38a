#include "deadline.h"

#include <criterion/criterion.h>

Test(deadline, budget_to_absolute_and_back)
{
    cr_assert_eq(deadline_at(1000, 500), 1500);
    cr_assert_eq(deadline_remaining(1200, 1500), 300);
    cr_assert_eq(deadline_at(1000, 0), DEADLINE_NONE);
    cr_assert_eq(deadline_remaining(1000, DEADLINE_NONE), 0);
}

Test(deadline, what_is_over_still_has_a_microsecond)
{
    cr_assert_eq(deadline_remaining(1500, 1500), 1);
    cr_assert_eq(deadline_remaining(9999, 1500), 1);
}

Test(deadline, huge_budgets_saturate)
{
    cr_assert_eq(deadline_at(1000, UINT64_MAX), DEADLINE_NONE);
    cr_assert_eq(deadline_at(1000, UINT64_MAX - 1000), DEADLINE_NONE);
    cr_assert_eq(deadline_at(1000, UINT64_MAX - 1001), UINT64_MAX - 1);
}

Test(deadline, clock_does_not_go_back)
{
    uint64_t last = clock_now_us();
    cr_assert_gt(last, 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_now_us();
        cr_assert_geq(now, last);
        last = now;
    }
}
